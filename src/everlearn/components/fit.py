"""How `ComponentTree` puts the parts together: parameters and rows in, a learned state out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from everlearn.components import search as learner
from everlearn.components.local import BLOCK_ROWS, FarRows, PathRunner
from everlearn.components.model import ComponentModel
from everlearn.components.search import GrowthSettings, TreeFit
from everlearn.components.state import TreeState
from everlearn.core.arrays import Mat, Vec
from everlearn.core.moves import LapInfo
from everlearn.core.priors.nested import NestedPrior
from everlearn.core.random import stream
from everlearn.engine.opening import open_engine
from everlearn.engine.progress import LapProgress
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.estimator.base import named_errors
from everlearn.estimator.collections import OpenRows
from everlearn.estimator.history import History
from everlearn.estimator.tables import check_size, plain_numbers

SETTLING_ROWS = 256
"""Until so many rows have come, a stream starts afresh whenever they have doubled."""
_BATCH_ROWS = 8192
_NOISE_SHAPE = 1e-3
_SMALLEST_VARIANCE = 1e-200


@dataclass(frozen=True, slots=True)
class Learned:
    """What a tree of components knows.

    Attributes
    ----------
    state : the learner's state, in which rows are seen from the origin
    origin : (D,) mean of the first rows
    history : how it got there
    n_rows : rows seen
    prior_rows : rows that prior and origin were chosen from
    settled : whether `fit` stopped by itself
    """

    state: TreeState
    origin: Vec
    history: History
    n_rows: int
    prior_rows: int
    settled: bool


def checked_rows(estimator: Any, X: Any, *, reset: bool) -> Mat:
    """Finite rows, or an error that says what is wrong with them."""
    with named_errors(estimator, "X"):
        rows: Mat = validate_data(
            estimator, plain_numbers(X), reset=reset, dtype=np.float64, order="C"
        )
        check_size(rows)
    return rows


def checked_chunk(estimator: Any, X: Any, *, reset: bool, sample_weight: Any = None) -> Rows:
    """The same for a chunk of a collection."""
    return Rows(checked_rows(estimator, X, reset=reset))


def check_same_model(params: Any, learned: Learned) -> None:
    """Refuse to go on with another model than learning began with."""
    model = learned.state.model
    known = {
        "depth": learned.state.tree.depth,
        "concentration": model.paths.gamma,
        "loadings": "joint" if model.joint else "factorised",
    }
    if params.prior_scale != "auto":
        known["prior_scale"] = model.scale
    for name, value in known.items():
        if getattr(params, name) != value:
            raise ValueError(
                f"the {name!r} parameter of {type(params).__name__} was {value!r} when learning "
                f"began and cannot change without a new fit. Got {getattr(params, name)!r} instead."
            )


def learn(params: Any, X: Mat, seed: int) -> Learned:
    """Learn from rows that can be visited again, and let go of them at the end."""
    origin = X.mean(axis=0)
    X = X - origin
    size = params.batch_size or _BATCH_ROWS
    pieces = [X[i : i + size] for i in range(0, len(X), size)]
    with open_engine(params.engine) as engine:
        best = _best(params, _model_of(params, X), pieces, lambda own: X, seed, engine)
    return _kept(params, best, origin, len(X), seed)


def learn_elsewhere(params: Any, given: OpenRows, seed: int) -> Learned:
    """Learn from rows that an engine holds: they stay there, but for samples of them."""
    rows, engine, n = given.rows, given.engine, len(given.rows)
    every = rows.pieces(BLOCK_ROWS)
    origin = engine.map_sum(_sum, every, None)[0] / n
    variance = float(np.mean(engine.map_sum(_squares, every, origin)[0] / n))
    pieces = [FarRows(batch, origin) for batch in rows.blocks(params.batch_size or _BATCH_ROWS)]

    def first(own: int) -> Mat:
        return learner.start_rows(FarRows(rows, origin), own, engine)

    best = _best(params, _model(params, rows.width, variance), pieces, first, seed, engine)
    return _kept(params, best, origin, n, seed)


def _sum(_: None, rows: Rows) -> tuple[Vec, None]:
    return np.asarray(rows.X).sum(axis=0), None


def _squares(origin: Vec, rows: Rows) -> tuple[Vec, None]:
    return np.square(np.asarray(rows.X) - origin).sum(axis=0), None


def _best(
    params: Any,
    model: ComponentModel,
    pieces: Sequence[Mat | FarRows],
    first: Callable[[int], Mat],
    seed: int,
    engine: Engine,
) -> TreeFit:
    """The best of `n_init` trees; `first` gives rows to begin with, for a seed."""
    best: TreeFit | None = None
    for start in range(params.n_init):
        own = seed if start == 0 else int(stream(seed, "start", start).integers(2**31))
        with _workshop(params, model, engine) as (runner, on_round):
            state = learner.begin(model, first(own), params.depth, params.max_nodes, own)
            state = learner.opened(state, pieces)
            settings = growth(params)
            found = learner.fit(state, runner, settings, params.max_sweeps, params.tol, on_round)
        if best is None or found.state.bound() > best.state.bound():
            best = found
    assert best is not None
    return best


def _kept(params: Any, best: TreeFit, origin: Vec, n_rows: int, seed: int) -> Learned:
    """What is kept of a tree when its rows are let go of."""
    history = History()
    for info in best.rounds:
        history = history.after(info)
    state = replace(learner.seal_all(best.state), seed=seed)
    return _checked(params, Learned(state, origin, history, n_rows, n_rows, best.settled))


def learn_more(params: Any, learned: Learned | None, X: Mat, seed: int) -> Learned:
    """Learn from rows that need not come again."""
    n_rows = len(X) + (0 if learned is None else learned.n_rows)
    if learned is None or _still_settling(learned, n_rows):
        learned, X = _afresh(params, learned, X, seed)
    else:
        X = X - learned.origin
    history = learned.history

    def record(info: LapInfo) -> None:
        nonlocal history
        history = history.after(info)

    with (
        open_engine(params.engine) as engine,
        _workshop(params, learned.state.model, engine, record) as (runner, on_round),
    ):
        state = learner.absorb(
            learned.state, X, params.birth_window, runner, growth(params), on_round
        )
    return _checked(params, replace(learned, state=state, history=history, n_rows=n_rows))


def growth(params: Any) -> GrowthSettings:
    """What moves may do under these parameters."""
    return GrowthSettings(
        frozenset(params.moves), params.max_nodes, params.min_gain, params.patience
    )


def _model_of(params: Any, X: Mat) -> ComponentModel:
    return _model(params, X.shape[1], float(X.var(axis=0).mean()))


def _model(params: Any, width: int, variance: float) -> ComponentModel:
    """The priors, scaled to the mean variance of a feature if nobody says otherwise."""
    if not variance > _SMALLEST_VARIANCE:
        variance = 1.0
    scale = variance if params.prior_scale == "auto" else float(params.prior_scale)
    return ComponentModel(
        NestedPrior(float(params.concentration)),
        width,
        scale,
        _NOISE_SHAPE,
        _NOISE_SHAPE * variance,
        params.loadings == "joint",
    )


def _still_settling(learned: Learned, n_rows: int) -> bool:
    """Whether prior and origin still rest on so few rows that twice as many should set them."""
    all_open = learned.state.n_open == learned.n_rows
    return all_open and learned.n_rows < SETTLING_ROWS and n_rows >= 2 * learned.prior_rows


def _afresh(params: Any, learned: Learned | None, X: Mat, seed: int) -> tuple[Learned, Mat]:
    """A tree of one path whose prior fits all rows so far, and those rows; ids go on counting."""
    next_id, clock, history = 0, 0, History()
    if learned is not None:
        old = learned.state
        X = np.concatenate([*(batch.X + learned.origin for batch in old.batches), X])
        next_id, clock, history, seed = old.next_id, old.clock, learned.history, old.seed
    origin = X.mean(axis=0)
    X = X - origin
    model = _model_of(params, X)
    state = learner.begin(model, X, params.depth, params.max_nodes, seed, next_id)
    return Learned(replace(state, clock=clock), origin, history, 0, len(X), False), X


@contextmanager
def _workshop(
    params: Any,
    model: ComponentModel,
    engine: Engine,
    record: Callable[[LapInfo], None] | None = None,
) -> Iterator[tuple[PathRunner, Callable[[LapInfo], None]]]:
    """Local steps for the time of one call; rounds are shown and recorded."""
    with LapProgress(params.verbose, None) as progress:

        def on_round(info: LapInfo) -> None:
            progress.show(info.bound, info.n_components)
            if record is not None:
                record(info)

        yield PathRunner(model, engine, params.local == "meanfield"), on_round


def _checked(params: Any, learned: Learned) -> Learned:
    """What was learned, unless numbers grew out of range on the way."""
    bound = learned.state.bound()
    if not np.isfinite(bound):
        raise ValueError(
            f"{type(params).__name__} cannot learn from X: with this prior the bound is {bound}. "
            "Scale X or the prior."
        )
    return learned
