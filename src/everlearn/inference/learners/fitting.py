"""Fitting a data set that can be visited again and again: a start, then laps until it settles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.mixture import Mixture, MixturePosterior
from everlearn.core.random import stream
from everlearn.inference.chunks import ChunkedRows
from everlearn.inference.engine import Engine
from everlearn.inference.learners.memoized import LapInfo, MoveSettings, lap, open_batches
from everlearn.inference.learners.ventures import MOST_LAPS, venture
from everlearn.inference.local.runner import LocalRunner
from everlearn.inference.moves.birth import seed_labels
from everlearn.inference.rows import Rows
from everlearn.inference.state import State

WARM_START_ABOVE = 15_000
WARM_START_ROWS = 10_000
_WARM_START_LAPS = 8
_CALM = 10.0
"""Times the tolerance: how little a lap may gain before births that cost are ventured."""
_FUTILE = 1
"""Ventures in a row that may come to nothing."""
_LEAST_SCALE = 1000.0
"""Nats: of small data sets, changes are compared with this rather than with their bound."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to learn, from what start, and in what portions."""

    batch_rows: int
    max_laps: int
    tol: float
    start_components: int = 1
    n_init: int = 1
    sample_rows: int = WARM_START_ROWS
    """Rows of the sample that large data start from."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A learned state, whether it settled before the laps ran out, and the laps it took."""

    state: State
    settled: bool
    laps: tuple[LapInfo, ...]


def fit(
    model: Mixture,
    rows: Rows | ChunkedRows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """Learn from all rows; the state keeps them open.

    Large data start from what a sample of them teaches.
    """
    if len(rows) <= WARM_START_ABOVE:
        return best_start(model, rows, seed, runner, moves, schedule, on_lap)
    warm = learn_sample(model, rows, seed, runner, moves, schedule)
    state = _begin(warm, warm.posterior(), rows, runner, schedule.batch_rows)
    return run_laps(state, runner, moves, schedule, on_lap)


def learn_sample(
    model: Mixture,
    rows: Rows | ChunkedRows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
) -> State:
    """What a few laps over a random sample of the rows teach."""
    sample = sampled(rows, schedule.sample_rows, seed, runner.engine)
    runner = runner.here()
    brief = replace(schedule, batch_rows=len(sample), max_laps=_WARM_START_LAPS)
    return best_start(model, sample, seed, runner, moves, brief, lambda _: None).state


def best_start(
    model: Mixture,
    rows: Rows | ChunkedRows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """The best of `n_init` runs, each with its own random streams."""
    seeds = [
        seed,
        *(int(stream(seed, "start", i).integers(2**31 - 1)) for i in range(1, schedule.n_init)),
    ]
    best: Fit | None = None
    for own_seed in seeds:
        empty = State.empty(model, own_seed, schedule.start_components)
        posterior = start_posterior(empty, rows, runner, schedule.sample_rows)
        state = _begin(empty, posterior, rows, runner, schedule.batch_rows)
        found = run_laps(state, runner, moves, schedule, on_lap)
        if best is None or found.state.bound() > best.state.bound():
            best = found
    assert best is not None
    return best


def run_laps(
    state: State,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """Laps, and ventures when little happens, until the bound and the structure stand still.

    The laps of a venture count, whether it is undone or not; one that is kept is told as one lap.
    """
    laps: list[LapInfo] = []
    left, futile, ventured = schedule.max_laps, 0, 0
    while left > 0:
        before = laps[-1].bound if laps else -np.inf
        state, info = lap(state, runner, moves)
        left -= 1
        laps.append(info)
        on_lap(info)
        rise = abs(info.bound - before) / max(abs(info.bound), _LEAST_SCALE)
        done = futile >= _FUTILE or "birth" not in moves.kinds or left <= MOST_LAPS
        if done and info.settled and rise <= schedule.tol:
            return Fit(state, True, tuple(laps))
        calm = rise <= _CALM * schedule.tol and not any(m.accepted for m in info.moves)
        if calm and not done:
            tried = venture(state, runner, moves, ventured)
            state, left, ventured = tried.state, left - tried.n_laps, ventured + 1
            futile += 1
            if tried.info is not None:
                laps.append(tried.info)
                on_lap(tried.info)
                if tried.info.bound - info.bound > _CALM * schedule.tol * abs(info.bound):
                    futile = 0
    return Fit(state, False, tuple(laps))


def start_posterior(
    empty: State, rows: Rows | ChunkedRows, runner: LocalRunner, sample_rows: int = WARM_START_ROWS
) -> MixturePosterior:
    """Globals to begin with: the prior for one component, k-means++ seeds for several."""
    k = min(len(empty.total), len(rows))
    if len(empty.total) == 1:
        return empty.posterior()
    sample = sampled(rows, sample_rows, empty.seed, runner.engine)
    points = empty.model.family.embedding(sample.X)
    labels = seed_labels(points, sample.weights, k, stream(empty.seed, "start", 0))
    return empty.model.posterior(runner.hard_stats(sample, labels, empty.total.ids))


def _begin(
    state: State,
    posterior: MixturePosterior,
    rows: Rows | ChunkedRows,
    runner: LocalRunner,
    batch_rows: int,
) -> State:
    """A state that has assigned all rows once, at one posterior, and owes nothing to a sample."""
    empty = State.empty(state.model, state.seed, len(posterior))
    fresh = replace(posterior, ids=empty.total.ids)
    return open_batches(empty, fresh, rows.blocks(batch_rows), runner).reordered().pruned()


def sampled(rows: Rows | ChunkedRows, size: int, seed: int, engine: Engine) -> Rows:
    """At most so many of the rows, chosen at random, in their order, brought here."""
    if len(rows) <= size:
        return rows.take(np.arange(len(rows)), engine)
    chosen = stream(seed, "subsample").choice(len(rows), size, replace=False)
    return rows.take(np.sort(chosen), engine)
