"""Run `fit` or `partial_fit` of a `ComponentTree`, and return all that it has learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from everlearn.components.local import BLOCK_ROWS, PathRunner, RemoteRows, fetch_rows
from everlearn.components.model import ComponentModel
from everlearn.components.search import (
    grow_tree,
    learn_stream,
    open_batches,
    sample_rows,
    seal_all,
    start_path,
)
from everlearn.components.settings import ComponentTreeSettings
from everlearn.components.state import ComponentTreeState
from everlearn.core.arrays import Mat, Vec
from everlearn.core.moves import LapInfo
from everlearn.core.random import stream
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.progress import LapProgress
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.estimator.history import History

SETTLING_ROWS: Final = 256
"""A stream of fewer rows starts again whenever its number of rows has doubled."""


@dataclass(frozen=True, slots=True)
class ComponentTreeFit:
    """Everything that a `ComponentTree` has learned.

    Attributes
    ----------
    state : state of learning, for rows minus the origin
    origin : (D,) mean of the first rows
    history : rounds and moves
    n_rows : rows seen
    n_prior_rows : rows that the prior and the origin were chosen from
    converged : whether the bound converged in the last `fit`
    """

    state: ComponentTreeState
    origin: Vec
    history: History
    n_rows: int
    n_prior_rows: int
    converged: bool

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self.state.seed

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return self.state.model.n_features


def fit_rows(
    settings: ComponentTreeSettings, X: Mat, seed: int, engine: Engine
) -> ComponentTreeFit:
    """Learn from rows in this process."""
    origin = X.mean(axis=0)
    X = X - origin
    model = _model_for(settings, X)
    size = settings.batch_size
    batches = [X[start : start + size] for start in range(0, len(X), size)]
    return _fit_best(settings, model, X, batches, origin, seed, engine)


def fit_chunks(
    settings: ComponentTreeSettings, rows: ChunkedRows, seed: int, engine: Engine
) -> ComponentTreeFit:
    """Learn from rows that an engine holds. Only samples are fetched into this process."""
    n, chunks = len(rows), rows.pieces(BLOCK_ROWS)
    origin = engine.map_sum(_sum, chunks, None)[0] / n
    variance = float(np.mean(engine.map_sum(_sum_of_squares, chunks, origin)[0] / n))
    model = settings.model(rows.width, variance)
    batches = [RemoteRows(batch, origin) for batch in rows.blocks(settings.batch_size)]
    return _fit_best(settings, model, RemoteRows(rows, origin), batches, origin, seed, engine)


def _sum(_: None, rows: Rows) -> tuple[Vec, None]:
    return np.asarray(rows.X).sum(axis=0), None


def _sum_of_squares(origin: Vec, rows: Rows) -> tuple[Vec, None]:
    return np.square(np.asarray(rows.X) - origin).sum(axis=0), None


def _model_for(settings: ComponentTreeSettings, X: Mat) -> ComponentModel:
    return settings.model(X.shape[1], float(X.var(axis=0).mean()))


def _fit_best(
    settings: ComponentTreeSettings,
    model: ComponentModel,
    X: Mat | RemoteRows,
    batches: Sequence[Mat | RemoteRows],
    origin: Vec,
    seed: int,
    engine: Engine,
) -> ComponentTreeFit:
    """Grow `n_init` trees and keep the one with the highest bound."""
    runner = PathRunner(model, engine)
    best: ComponentTreeFit | None = None
    for number in range(settings.n_init):
        own = seed if number == 0 else int(stream(seed, "start", number).integers(2**31))
        rounds: list[LapInfo] = []
        state = start_path(model, sample_rows(X, own, engine), settings, own)
        with LapProgress(settings.verbose, None) as progress:
            state, converged = grow_tree(
                open_batches(state, batches), runner, settings, _recorder(rounds, progress)
            )
        if best is None or state.bound() > best.state.bound():
            best = ComponentTreeFit(state, origin, _after(rounds), len(X), len(X), converged)
    assert best is not None
    return _numbered(replace(best, state=replace(seal_all(best.state), seed=seed)))


def _numbered(fit: ComponentTreeFit) -> ComponentTreeFit:
    """The fit with nodes numbered from 0, the largest first, so parents before their children.

    Removed nodes get the next numbers, because the history of moves still refers to them.
    """
    state, tree = fit.state, fit.state.tree
    mass = tree.through(state.total.slots)
    kept = tree.ids[np.lexsort((np.arange(len(tree)), -mass))]
    gone = np.setdiff1d(np.arange(state.next_id), kept)
    number = np.empty(state.next_id, np.int64)
    number[np.concatenate([kept, gone])] = np.arange(state.next_id)
    ids = number[tree.ids]
    moves = tuple(
        replace(
            move,
            removed=tuple(sorted(number[list(move.removed)].tolist())),
            added=tuple(sorted(number[list(move.added)].tolist())),
        )
        for move in fit.history.moves
    )
    state = replace(
        state,
        q=replace(state.q, tree=replace(tree, ids=ids)),
        sealed=replace(state.sealed, ids=ids),
        total=replace(state.total, ids=ids),
    )
    return replace(fit, state=state, history=replace(fit.history, moves=moves))


def _recorder(rounds: list[LapInfo], progress: LapProgress) -> Callable[[LapInfo], None]:
    """Shows each round and appends it to `rounds`."""

    def on_round(info: LapInfo) -> None:
        progress.show(info.bound, info.n_components)
        rounds.append(info)

    return on_round


def _after(rounds: Sequence[LapInfo], history: History | None = None) -> History:
    """The history with these rounds added."""
    history = History() if history is None else history
    for info in rounds:
        history = history.after(info)
    return history


def learn_rows(
    settings: ComponentTreeSettings,
    known: ComponentTreeFit | None,
    X: Mat,
    seed: int,
    engine: Engine,
) -> ComponentTreeFit:
    """Continue to learn from new rows. `seed` is used if nothing is known yet."""
    n_rows = len(X) + (0 if known is None else known.n_rows)
    if known is None or _prior_is_early(known, n_rows):
        known, X = _start_again(settings, known, X, seed, engine)
    else:
        X = X - known.origin
    rounds: list[LapInfo] = []
    runner = PathRunner(known.state.model, engine)
    with LapProgress(settings.verbose, None) as progress:
        state = learn_stream(known.state, X, runner, settings, _recorder(rounds, progress))
    return replace(known, state=state, history=_after(rounds, known.history), n_rows=n_rows)


def _prior_is_early(known: ComponentTreeFit, n_rows: int) -> bool:
    """Whether to choose prior and origin again: their few rows have doubled."""
    all_open = known.state.n_open == known.n_rows
    return all_open and known.n_rows < SETTLING_ROWS and n_rows >= 2 * known.n_prior_rows


def _start_again(
    settings: ComponentTreeSettings,
    known: ComponentTreeFit | None,
    X: Mat,
    seed: int,
    engine: Engine,
) -> tuple[ComponentTreeFit, Mat]:
    """A tree of one path with a prior from all rows so far, and these rows.

    Node ids and round numbers continue from the old tree.
    """
    next_id, clock, history = 0, 0, History()
    if known is not None:
        old = known.state
        open_rows = fetch_rows([batch.X for batch in old.batches], None, engine)
        X = np.concatenate([open_rows + known.origin, X])
        next_id, clock, history, seed = old.next_id, old.clock, known.history, old.seed
    origin = X.mean(axis=0)
    X = X - origin
    sample = sample_rows(X, seed, engine)
    state = start_path(_model_for(settings, X), sample, settings, seed, next_id)
    return ComponentTreeFit(replace(state, clock=clock), origin, history, 0, len(X), False), X
