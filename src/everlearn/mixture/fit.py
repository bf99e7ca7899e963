"""Small data sets, written down in one way: each distinct row once, with its weight.

A row that comes three times says what a row of weight 3 says, and the order of rows says
nothing. `pooled` makes all such data sets the same one, bit for bit, so whatever is learned
from them, with whatever randomness, is the same too. The order is that of a digest of each
row: fixed by the content, yet as good as shuffled, so batches of it are fair samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from scipy import sparse

from everlearn.core.arrays import Table
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.moves import LapInfo
from everlearn.core.stats import Stats
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.opening import open_engine
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows, concatenate
from everlearn.estimator.collections import OpenRows
from everlearn.estimator.families import has_missing
from everlearn.estimator.history import History
from everlearn.estimator.params import parse_bytes
from everlearn.mixture import memoized as fitting
from everlearn.mixture import stochastic, streaming
from everlearn.mixture.model import Mixture
from everlearn.mixture.priors import model_of
from everlearn.mixture.setup import Workshop, check_budget, most_workers, schedule_of, workshop
from everlearn.mixture.state import State


def allow_missing(state: State) -> State:
    """The same state, with a count for each feature, so that rows may have NaNs from now on."""
    family = state.model.family
    if not isinstance(family, DiagGaussian) or family.missing:
        return state
    model = Mixture(replace(family, missing=True), state.model.prior)

    def widened(stats: Stats) -> Stats:
        counts = np.repeat(stats.n[:, None], family.n_features, axis=1)
        return replace(stats, t=np.hstack([stats.t, counts]))

    return replace(
        state,
        model=model,
        sealed=replace(state.sealed, stats=widened(state.sealed.stats)),
        batches=tuple(replace(b, stats=widened(b.stats)) for b in state.batches),
        memos={
            name: replace(memo, part=replace(memo.part, stats=widened(memo.part.stats)))
            for name, memo in state.memos.items()
        },
        total=widened(state.total),
    )


MAX_POOLED_ROWS = 10_000
"""Larger data sets are left as they came: hashing each row would take time, sorting memory."""
_DIGEST_BYTES = 16


def pooled(rows: Rows) -> Rows:
    """Distinct rows in the order of their digests; rows of weight zero are left out."""
    digests = b"".join(
        blake2b(content, digest_size=_DIGEST_BYTES).digest() for content in _contents(rows.X)
    )
    keys = np.frombuffer(digests, np.dtype(">u8")).reshape(-1, 2)
    order = np.lexsort(keys.T)
    keys = keys[order]
    first = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))
    each = np.ones(len(rows)) if rows.weights is None else rows.weights[order]
    weights = np.bincount(np.cumsum(first) - 1, each).astype(np.float64)
    kept = weights > 0
    chosen, weights = order[first][kept], weights[kept]
    return Rows(rows.X[chosen], None if (weights == 1.0).all() else weights)


def _contents(X: Table) -> Iterator[bytes]:
    """The bytes of each row: equal for equal rows, whatever their storage and precision."""
    if sparse.issparse(X):
        x = sparse.csr_array(X, dtype=np.float64, copy=True)
        x.sum_duplicates()
        x.eliminate_zeros()
        indices, starts = x.indices.astype(np.int64), x.indptr.tolist()
        for start, end in pairwise(starts):
            yield indices[start:end].tobytes() + x.data[start:end].tobytes()
        return
    plain = np.asarray(X, np.float64) + 0.0  # -0.0 becomes 0.0
    plain[np.isnan(plain)] = np.nan
    for row in plain:
        yield row.tobytes()


_POOLED_BYTES = 8_000_000
LEARNERS = {"memoized": fitting, "stochastic": stochastic}


@dataclass(frozen=True, slots=True)
class Learned:
    """What a mixture knows.

    Attributes
    ----------
    state : the learner's state
    history : how it got there
    n_rows : rows seen
    prior_rows : rows that prior and origin were chosen from
    settled : whether `fit` stopped by itself
    learner : what it was learned by
    """

    state: State
    history: History
    n_rows: int
    prior_rows: int
    settled: bool
    learner: str


def learn(params: Any, rows: Rows, seed: int) -> Learned:
    """Learn from rows that can be visited again, and let go of them at the end."""
    n_rows = len(rows)
    if n_rows <= MAX_POOLED_ROWS and rows.nbytes <= _pooled_bytes(params):
        rows = pooled(rows)
    with open_engine(params.engine, most_workers(params)) as engine:
        return _fitted(params, rows, seed, engine, n_rows)


def learn_elsewhere(params: Any, given: OpenRows, seed: int) -> Learned:
    """Learn from rows that an engine holds."""
    return _fitted(params, given.rows, seed, given.engine, len(given.rows))


def _fitted(
    params: Any, rows: Rows | ChunkedRows, seed: int, engine: Engine, n_rows: int
) -> Learned:
    learner: Any = LEARNERS[params.learner]
    model = model_of(params, rows, seed, engine)
    with workshop(params, model, rows, params.max_laps, engine) as tools:
        schedule = schedule_of(params, rows, tools.limits)
        result = learner.fit(model, rows, seed, tools.runner, tools.moves, schedule, tools.on_lap)
        state = streaming.seal_all(result.state, tools.runner)
    history = History()
    for info in result.laps:
        history = history.after(info)
    return checked(params, Learned(state, history, n_rows, n_rows, result.settled, params.learner))


def _pooled_bytes(params: Any) -> int:
    """Bytes of rows that may be copied and put in order."""
    if params.memory_budget is None:
        return _POOLED_BYTES
    return min(_POOLED_BYTES, parse_bytes(params.memory_budget) // 24)


def checked(params: Any, learned: Learned) -> Learned:
    """What was learned, unless numbers grew out of range on the way."""
    bound = learned.state.bound()
    if not np.isfinite(bound):
        raise ValueError(
            f"DPMixture cannot learn from X: with this prior the bound is {bound}, "
            f"out of the range of dtype={params.dtype!r}. Scale X or the prior."
        )
    return learned


SETTLING_ROWS = 256
"""Until so many rows have come, a stream starts afresh whenever they have doubled."""


def learn_more(
    params: Any, learned: Learned | None, rows: Rows, seed: int, name: int | str | None = None
) -> Learned:
    """Learn from rows that need not come again; those with a name can be forgotten later."""
    rows = _stored_like(learned, rows)
    n_rows = len(rows) + (0 if learned is None else learned.n_rows)
    with open_engine(params.engine, most_workers(params)) as engine:
        parts = [(rows, name)]
        if learned is None or _still_settling(learned, n_rows):
            parts = _open_parts(learned, rows, name)
            whole = concatenate([part for part, _ in parts])
            state, history = _afresh(params, learned, whole, seed, engine)
            prior_rows = n_rows
        else:
            state, history, prior_rows = learned.state, learned.history, learned.prior_rows
            check_budget(params, state)
            if has_missing(rows.X):
                state = allow_missing(state)

        def record(info: LapInfo) -> None:
            nonlocal history
            history = history.after(info)

        with workshop(params, state.model, rows, None, engine, record) as tools:
            state = _taken_in(params, state, parts, tools)
    settled = learned is not None and learned.settled
    new = Learned(state, history, n_rows, prior_rows, settled, params.learner)
    return checked(params, new)


def _still_settling(learned: Learned, n_rows: int) -> bool:
    """Whether prior and origin still rest on so few rows that twice as many should set them."""
    all_open = learned.state.n_open == learned.n_rows
    return all_open and learned.n_rows < SETTLING_ROWS and n_rows >= 2 * learned.prior_rows


def forget(learned: Learned, name: int | str) -> Learned:
    """What is known without the rows of this name."""
    state, n_rows = streaming.forget(learned.state, name)
    left = learned.n_rows - n_rows
    return replace(learned, state=state, n_rows=left, prior_rows=min(learned.prior_rows, left))


def _open_parts(
    learned: Learned | None, rows: Rows, name: int | str | None
) -> list[tuple[Rows, int | str | None]]:
    """The open rows and the new ones, put together where neighbours have the same name."""
    batches = [] if learned is None else learned.state.batches
    named = [*((batch.name, batch.rows) for batch in batches), (name, rows)]
    return [
        (concatenate([part for _, part in group]), own)
        for own, group in groupby(named, key=lambda pair: pair[0])
    ]


def _afresh(
    params: Any, learned: Learned | None, rows: Rows, seed: int, engine: Engine
) -> tuple[State, History]:
    """An empty state whose prior fits all rows so far; ids go on counting."""
    if learned is None:
        return State.empty(model_of(params, rows, seed, engine), seed), History()
    old = learned.state
    model = model_of(params, rows, old.seed, engine)
    state = State.empty(model, old.seed, next_id=old.next_id)
    return replace(state, clock=old.clock), learned.history


def _taken_in(
    params: Any, state: State, parts: list[tuple[Rows, int | str | None]], tools: Workshop
) -> State:
    """The state that has learned from these rows, each part with its name."""
    limits = tools.limits
    if params.learner == "memoized":
        window = streaming.Window(limits.window_rows, limits.batch_rows)
        for rows, name in parts:
            state = streaming.absorb(
                state, rows, window, tools.runner, tools.moves, tools.on_lap, name
            )
        return state
    learner: Any = LEARNERS[params.learner]
    rows = concatenate([part for part, _ in parts])
    if state.clock == 0:  # the first rows decide on the structure
        schedule = replace(schedule_of(params, rows, limits), max_laps=1)
        start: State = learner.fit(
            state.model, rows, state.seed, tools.runner, tools.moves, schedule, tools.on_lap
        ).state
        return start
    after: State = learner.absorb(state, rows, limits.batch_rows, tools.runner, tools.on_lap)
    return after


def _stored_like(learned: Learned | None, rows: Rows) -> Rows:
    """Rows dense or sparse as the open ones are, so that they can be put together."""
    if learned is None or not learned.state.batches:
        return rows
    if sparse.issparse(learned.state.batches[-1].rows.X):
        return rows if sparse.issparse(rows.X) else replace(rows, X=sparse.csr_array(rows.X))
    return replace(rows, X=rows.X.toarray()) if sparse.issparse(rows.X) else rows
