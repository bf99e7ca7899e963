"""Find the components of a data set: on a sample first, then on all rows.

A search begins with many small clusters of a sample, and merges them. Laps over the sample make all
moves and learn the prior, if it is to be learned. Then the prior is fixed, and laps over all rows
raise the bound until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from everlearn.core.families.gaussian_full import FullGaussian
from everlearn.core.moves import LapInfo
from everlearn.core.random import stream
from everlearn.core.stats import Stats
from everlearn.engine.chunks import ChunkedRows, sample_rows
from everlearn.engine.rows import Rows
from everlearn.estimator.families import diagonal_of
from everlearn.estimator.history import PriorChoice
from everlearn.mixture.births import ATTEMPTS
from everlearn.mixture.learner import LearnedLaps, LearningTools, PriorCandidate
from everlearn.mixture.local import LocalRunner
from everlearn.mixture.memoized import MoveSettings, lap, open_batches
from everlearn.mixture.micro_clusters import merged_micro_clusters
from everlearn.mixture.model import Mixture
from everlearn.mixture.priors import choose_prior
from everlearn.mixture.state import State

_SAMPLE_LAPS: Final = 25
_LARGER: Final = 4
"""Size of the second sample, in first samples. It is taken of data twice as large or more."""
_LEARNING_LAPS: Final = 12
"""The prior is learned in the first laps over the sample, from the first one without a merge."""
_FULL_FEATURES: Final = 40
"""With more features, full Gaussians begin with what diagonal ones find."""
_SAMPLE_TOL: Final = 1e-4
"""Laps over the sample end when one gains less than this part of the bound."""
_MIN_SCALE: Final = 1000.0
"""Changes of the bound are relative to its size, but at least to this many nats."""


@dataclass(frozen=True, slots=True)
class FoundComponents:
    """Components found in a sample.

    Attributes
    ----------
    model : the model, with the prior that was learned
    stats : statistics of the components, scaled to all rows
    choice : the prior that was chosen
    settled : whether laps over the sample had no births, so that laps over all rows need none.
        Never after a larger sample: a small part of large data cannot tell
    """

    model: Mixture
    stats: Stats
    choice: PriorChoice
    settled: bool = False


def fit_all(
    candidates: Sequence[PriorCandidate], rows: Rows | ChunkedRows, seed: int, tools: LearningTools
) -> LearnedLaps:
    """Learn all rows. The state keeps them open."""
    found = find_components(candidates, rows, seed, tools)
    larger = _LARGER * tools.schedule.sample_rows
    if len(rows) >= 2 * larger and "birth" in tools.moves.kinds:
        found = _searched_further(found, rows, larger, seed, tools)
    if found.settled:
        tools = replace(tools, moves=replace(tools.moves, kinds=tools.moves.kinds - {"birth"}))
    batches = rows.blocks(tools.schedule.batch_rows)
    state = open_at(State.empty(found.model, seed), found, batches, tools.runner)
    return run_laps(state, tools, found.choice)


def find_components(
    candidates: Sequence[PriorCandidate], rows: Rows | ChunkedRows, seed: int, tools: LearningTools
) -> FoundComponents:
    """Components of a random sample, with the prior that suits them best."""
    sample = sample_rows(rows, tools.schedule.sample_rows, seed, tools.runner.engine)
    search = _SampleSearch(sample, seed, tools.runner.in_process(), _search_moves(tools.moves))
    found = [search.run(candidate) for candidate in candidates]
    best, choice = choose_prior(candidates, [(one.model, one.stats) for one in found])
    scale = rows.mass / found[best].stats.n.sum()
    return replace(found[best], stats=found[best].stats * scale, choice=choice)


def _searched_further(
    found: FoundComponents,
    rows: Rows | ChunkedRows,
    size: int,
    seed: int,
    tools: LearningTools,
) -> FoundComponents:
    """The components after laps over a larger sample.

    Clusters that overlap show only in many rows. Here most of them are found for much less work
    than in all rows.
    """
    sample = sample_rows(rows, size, seed, tools.runner.engine)
    schedule = replace(tools.schedule, max_laps=_SAMPLE_LAPS, tol=_SAMPLE_TOL)
    tools = replace(
        tools, runner=tools.runner.in_process(), schedule=schedule, on_lap=lambda info: None
    )
    batches = sample.blocks(tools.schedule.sample_rows)
    state = open_at(State.empty(found.model, seed), found, batches, tools.runner)
    stats = run_laps(state, tools, found.choice).state.total
    return replace(found, stats=stats * (rows.mass / stats.n.sum()), settled=False)


@dataclass(frozen=True, slots=True)
class _SampleSearch:
    """A search in a sample: its rows, the seed, what runs the local step, and the moves."""

    sample: Rows
    seed: int
    runner: LocalRunner
    moves: MoveSettings

    def run(self, candidate: PriorCandidate) -> FoundComponents:
        """The components found with this prior. Statistics are those of the sample."""
        family = candidate.model.family
        if isinstance(family, FullGaussian) and family.n_features > _FULL_FEATURES:
            return self._run_diagonal(candidate, family)
        state, settled = self._laps(candidate)
        return FoundComponents(state.model, state.total, PriorChoice(candidate.name), settled)

    def _run_diagonal(self, candidate: PriorCandidate, family: FullGaussian) -> FoundComponents:
        """Components that diagonal Gaussians find, as statistics of full ones.

        In many dimensions a sample has too few rows for covariances: its evidence prefers few
        wide components.
        """
        coarse = replace(candidate, model=Mixture(diagonal_of(family), candidate.model.prior))
        step = replace(self.runner.step, family=coarse.model.family)
        search = replace(self, runner=replace(self.runner, step=step))
        _, labels = search._laps(coarse)[0].batches[0].in_process()
        ids, places = np.unique(labels, return_inverse=True)
        stats = self.runner.hard_stats(self.sample, places, np.arange(len(ids)))
        model = self._with_learned_prior(candidate, stats)
        return FoundComponents(model, stats, PriorChoice(candidate.name))

    def _laps(self, candidate: PriorCandidate) -> tuple[State, bool]:
        """The state after laps over the sample with all moves, and whether there was no birth."""
        rows, model = self.runner.prepared(self.sample), candidate.model
        rng, most = stream(self.seed, "start", 0), self.moves.births.max_components
        stats = merged_micro_clusters(model, rows, self.runner, rng, most)
        begun = FoundComponents(model, stats, PriorChoice(candidate.name))
        state = open_at(State.empty(model, self.seed), begun, [rows], self.runner)
        before, calm, born = -np.inf, False, False
        for number in range(_SAMPLE_LAPS):
            state, info = lap(state, self.runner, self.moves)
            born |= any(m.accepted for m in info.moves if m.kind == "birth")
            calm |= not any(m.accepted for m in info.moves if m.kind == "merge")
            if calm and number < _LEARNING_LAPS:
                state = replace(state, model=self._with_learned_prior(candidate, state.total))
            if info.settled and _rise(before, info.bound) <= _SAMPLE_TOL:
                break
            before = info.bound
        return state, info.settled and not born

    def _with_learned_prior(self, candidate: PriorCandidate, stats: Stats) -> Mixture:
        """The model of the candidate. If it learns, with a prior from these components.

        What was learned from the components of an earlier lap has no influence.
        """
        model = candidate.model
        if not candidate.learns:
            return model
        return Mixture(model.family.with_learned_prior(stats.n, stats.t), model.prior)


def run_laps(state: State, tools: LearningTools, choice: PriorChoice) -> LearnedLaps:
    """Visit all open rows until the bound and the structure stay the same."""
    laps: list[LapInfo] = []
    before, moves = -np.inf, _search_moves(tools.moves)
    for _ in range(tools.schedule.max_laps):
        state, info = lap(state, tools.runner, moves)
        laps.append(info)
        tools.on_lap(info)
        if info.settled and _rise(before, info.bound) <= tools.schedule.tol:
            return LearnedLaps(state, True, tuple(laps), choice)
        before = info.bound
    return LearnedLaps(state, False, tuple(laps), choice)


def _search_moves(moves: MoveSettings) -> MoveSettings:
    """The moves of a search: one attempt to split each component, because it began with many."""
    births = replace(moves.births, attempts=ATTEMPTS[:1], retry_after=np.inf)
    return replace(moves, births=births)


def open_at(
    empty: State,
    found: FoundComponents,
    batches: Sequence[Rows | ChunkedRows],
    runner: LocalRunner,
) -> State:
    """A state with the components found, whose batches were all assigned once.

    It keeps seed, clock and next id of `empty`. Statistics of the sample are not kept, because
    they would count its rows twice.
    """
    start = State.empty(found.model, empty.seed, len(found.stats), empty.next_id)
    start = replace(start, clock=empty.clock)
    posterior = replace(found.model.posterior(found.stats), ids=start.total.ids)
    return open_batches(start, posterior, batches, runner).reordered().pruned()


def _rise(before: float, bound: float) -> float:
    return abs(bound - before) / max(abs(bound), _MIN_SCALE)
