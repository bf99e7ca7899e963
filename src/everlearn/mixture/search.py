"""Find the components of a data set: starts, laps, births that cost at first, samples.

`fit_all` learns all rows and keeps them open. Large data sets start from what a sample teaches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from everlearn.core.moves import LapInfo
from everlearn.core.random import stream
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.mixture.births import ATTEMPTS, seed_labels
from everlearn.mixture.learner import SAMPLE_ROWS, LearnedLaps, LearningTools
from everlearn.mixture.local import LocalRunner
from everlearn.mixture.memoized import MoveSettings, lap, open_batches
from everlearn.mixture.model import Mixture, MixturePosterior
from everlearn.mixture.state import State, Trial

MAX_TRY_LAPS: Final = 4
"""Laps to try births that cost: the first has the births, the others only merges and deletes."""
_COMPONENTS_PER_FORCED_BIRTH: Final = 8
SAMPLE_ABOVE: Final = 15_000
"""Data sets with more rows start from a sample."""
_SAMPLE_LAPS: Final = 8
_CALM: Final = 10.0
"""Births that cost are tried when a lap gains less than this many times the tolerance."""
_MAX_FUTILE: Final = 1
"""The search ends after this many tries of births that cost without success."""
_MIN_SCALE: Final = 1000.0
"""Changes of the bound are relative to its size, but at least to this many nats."""


def fit_all(
    model: Mixture, rows: Rows | ChunkedRows, seed: int, tools: LearningTools
) -> LearnedLaps:
    """Learn all rows. The state keeps them open."""
    if len(rows) <= SAMPLE_ABOVE:
        return fit_best_start(model, rows, seed, tools)
    start = fit_sample(model, rows, seed, tools)
    state = _assign_all(start, start.posterior(), rows, tools)
    return run_laps(state, tools)


def fit_sample(model: Mixture, rows: Rows | ChunkedRows, seed: int, tools: LearningTools) -> State:
    """Learn a random sample of the rows in a few laps, in this process."""
    sample = sample_rows(rows, tools.schedule.sample_rows, seed, tools.runner.engine)
    schedule = replace(tools.schedule, batch_rows=len(sample), max_laps=_SAMPLE_LAPS)
    tools = replace(
        tools, runner=tools.runner.in_process(), schedule=schedule, on_lap=lambda info: None
    )
    return fit_best_start(model, sample, seed, tools).state


def fit_best_start(
    model: Mixture, rows: Rows | ChunkedRows, seed: int, tools: LearningTools
) -> LearnedLaps:
    """Learn the rows from `n_init` starts, and keep the result with the highest bound."""
    schedule = tools.schedule
    seeds = [
        seed,
        *(int(stream(seed, "start", i).integers(2**31 - 1)) for i in range(1, schedule.n_init)),
    ]
    best: LearnedLaps | None = None
    for own_seed in seeds:
        empty = State.empty(model, own_seed, schedule.start_components)
        posterior = start_posterior(empty, rows, tools.runner, schedule.sample_rows)
        found = run_laps(_assign_all(empty, posterior, rows, tools), tools)
        if best is None or found.state.bound() > best.state.bound():
            best = found
    assert best is not None
    return best


def run_laps(state: State, tools: LearningTools) -> LearnedLaps:
    """Visit all open rows until the bound and the structure stay the same.

    When little changes, births that cost at first are tried. Their laps count towards `max_laps`,
    but are reported as one lap, and only if they paid.
    """
    moves, schedule = tools.moves, tools.schedule
    laps: list[LapInfo] = []
    left, futile, n_tries = schedule.max_laps, 0, 0
    while left > 0:
        before = laps[-1].bound if laps else -np.inf
        state, info = lap(state, tools.runner, moves)
        left -= 1
        laps.append(info)
        tools.on_lap(info)
        rise = abs(info.bound - before) / max(abs(info.bound), _MIN_SCALE)
        tried_all = futile >= _MAX_FUTILE or "birth" not in moves.kinds or left <= MAX_TRY_LAPS
        if tried_all and info.settled and rise <= schedule.tol:
            return LearnedLaps(state, True, tuple(laps))
        calm = rise <= _CALM * schedule.tol and not any(m.accepted for m in info.moves)
        if calm and not tried_all:
            tried = try_costly_births(state, tools.runner, moves, n_tries)
            state, left, n_tries = tried.state, left - tried.n_laps, n_tries + 1
            futile += 1
            if tried.info is not None:
                laps.append(tried.info)
                tools.on_lap(tried.info)
                if tried.info.bound - info.bound > _CALM * schedule.tol * abs(info.bound):
                    futile = 0
    return LearnedLaps(state, False, tuple(laps))


@dataclass(frozen=True, slots=True)
class CostlyBirths:
    """Result of trying births that cost at first.

    Attributes
    ----------
    state : the state after them, or the state before if they did not pay
    n_laps : laps that this took
    info : all its laps as one, or None if the births did not pay
    """

    state: State
    n_laps: int
    info: LapInfo | None


def try_costly_births(
    state: State, runner: LocalRunner, moves: MoveSettings, number: int
) -> CostlyBirths:
    """Accept the best births even if they cost, then see whether later laps make up for it.

    One birth alone may lower the bound although it and the merges after it would raise it.
    `number` selects how parts are found, as in the attempts of ordinary births.
    """
    before = state.bound()
    forcing = replace(
        moves,
        births=replace(moves.births, least_parts=2),
        n_forced_births=-(-len(state.total) // _COMPONENTS_PER_FORCED_BIRTH),
    )
    repairing = replace(moves, kinds=moves.kinds - {"birth"})
    trials = {
        int(i): Trial(number % len(ATTEMPTS), float(n))
        for i, n in zip(state.total.ids, state.total.n, strict=True)
    }
    found, info = lap(replace(state, birth_trials=trials, delete_trials={}), runner, forcing)
    records = list(info.moves)
    n_laps = 1
    while n_laps < MAX_TRY_LAPS and info.bound <= before and any(m.accepted for m in records):
        found, info = lap(found, runner, repairing)
        records += info.moves
        n_laps += 1
    if info.bound - before <= moves.margin * abs(before):
        return CostlyBirths(replace(state, clock=found.clock), n_laps, None)
    kept = {i: t for i, t in state.birth_trials.items() if i in found.total.ids}
    found = replace(found, birth_trials=kept)
    return CostlyBirths(found, n_laps, replace(info, moves=tuple(records), settled=False))


def start_posterior(
    empty: State, rows: Rows | ChunkedRows, runner: LocalRunner, most_rows: int = SAMPLE_ROWS
) -> MixturePosterior:
    """Posterior to begin with: the prior for one component, k-means++ seeds for several."""
    k = min(len(empty.total), len(rows))
    if len(empty.total) == 1:
        return empty.posterior()
    sample = sample_rows(rows, most_rows, empty.seed, runner.engine)
    points = empty.model.family.embedding(sample.X)
    labels = seed_labels(points, sample.weights, k, stream(empty.seed, "start", 0))
    return empty.model.posterior(runner.hard_stats(sample, labels, empty.total.ids))


def _assign_all(
    start: State, posterior: MixturePosterior, rows: Rows | ChunkedRows, tools: LearningTools
) -> State:
    """A new state whose batches were all assigned once, at one posterior.

    Nothing else of `start` is kept, because statistics of a sample would count its rows twice.
    """
    empty = State.empty(start.model, start.seed, len(posterior))
    fixed = replace(posterior, ids=empty.total.ids)
    batches = rows.blocks(tools.schedule.batch_rows)
    return open_batches(empty, fixed, batches, tools.runner).reordered().pruned()


def sample_rows(rows: Rows | ChunkedRows, size: int, seed: int, engine: Engine) -> Rows:
    """At most `size` random rows in their order, in this process."""
    if len(rows) <= size:
        return rows.take(np.arange(len(rows)), engine)
    chosen = stream(seed, "subsample").choice(len(rows), size, replace=False)
    return rows.take(np.sort(chosen), engine)
