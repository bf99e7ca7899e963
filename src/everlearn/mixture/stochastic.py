"""Stochastic variational inference: blend each batch, scaled to all rows, into the statistics.

The natural parameters of all factors are linear in the statistics, so blending statistics blends
parameters. Nothing is kept of a batch, and the bound is a noisy estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from everlearn.core.moves import LapInfo
from everlearn.core.random import stream
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.rows import Rows, concatenate
from everlearn.mixture.learner import LearnedLaps, LearningTools, NamedRows, PriorCandidate
from everlearn.mixture.local import LocalRunner, Plan
from everlearn.mixture.search import find_components
from everlearn.mixture.state import Sealed, State


@dataclass(frozen=True, slots=True)
class StepSize:
    """Step sizes `(step + delay) ** -decay`, which converge with a decay in (0.5, 1]."""

    delay: float = 1.0
    decay: float = 0.6

    def at(self, step: int) -> float:
        """Weight of the next full batch."""
        return float((step + self.delay) ** -self.decay)


STEP_SIZE: Final = StepSize()


class StochasticLearner:
    """Finds the components in the first rows, then only moves them towards each batch."""

    def fit(
        self,
        candidates: Sequence[PriorCandidate],
        rows: Rows | ChunkedRows,
        seed: int,
        tools: LearningTools,
    ) -> LearnedLaps:
        """Find the components in a sample, then blend in all batches in each lap."""
        empty = State.empty(candidates[0].model, seed)
        return self._fit(candidates, empty, rows, tools)

    def begin(
        self,
        candidates: Sequence[PriorCandidate],
        empty: State,
        parts: Sequence[NamedRows],
        tools: LearningTools,
    ) -> LearnedLaps:
        """Find the components in the first rows of a stream."""
        once = replace(tools, schedule=replace(tools.schedule, max_laps=1))
        return self._fit(candidates, empty, concatenate([rows for rows, _ in parts]), once)

    def _fit(
        self,
        candidates: Sequence[PriorCandidate],
        empty: State,
        rows: Rows | ChunkedRows,
        tools: LearningTools,
    ) -> LearnedLaps:
        seed = empty.seed
        found = find_components(candidates, rows, seed, tools)
        start = State.empty(found.model, seed, len(found.stats), empty.next_id)
        scaled = replace(found.stats, ids=start.total.ids)
        sealed = replace(start.sealed, stats=scaled)
        state = replace(start, sealed=sealed, total=scaled, clock=empty.clock)
        batch_rows = tools.schedule.batch_rows
        batches = rows.blocks(batch_rows)
        full = rows.mass * min(1.0, batch_rows / len(rows))
        laps: list[LapInfo] = []
        for number in range(tools.schedule.max_laps):
            order = stream(seed, "order", number).permutation(len(batches))
            for position in order.tolist():
                batch = batches[position]
                step = _step(state, batch.mass / full)
                state = blend(state, batch, rows.mass, step, tools.runner)
            laps.append(_info(state))
            tools.on_lap(laps[-1])
        return LearnedLaps(state, True, tuple(laps), found.choice)

    def absorb(
        self, state: State, rows: Rows, tools: LearningTools, name: int | str | None = None
    ) -> State:
        """Learn further rows of a stream.

        Statistics are scaled to all rows seen so far. A full batch moves them by the step size, a
        smaller one by less. At the least, a batch counts as much as its rows do among all rows.
        """
        batch_rows = tools.window.batch_rows
        for batch in rows.blocks(batch_rows):
            mass = float(state.total.n.sum()) + batch.mass
            rho = max(_step(state, batch.mass / batch_rows), batch.mass / mass)
            state = blend(state, batch, mass, rho, tools.runner)
            tools.on_lap(_info(state))
        return state


def blend(
    state: State, rows: Rows | ChunkedRows, mass: float, rho: float, runner: LocalRunner
) -> State:
    """Move the statistics by `rho` towards those of `mass` rows like the ones of this batch."""
    summary, _ = runner.run(state.posterior(), Plan(baseline=state.fitness.baseline), rows)
    held = state.total * ((1.0 - rho) * mass / state.total.n.sum())
    moved = held + summary.stats * (rho * mass / rows.mass)
    blended = Sealed(moved, state.sealed.pair_loss)
    fitness = state.fitness.after(summary.fit)
    clock = state.clock + 1
    return replace(state, sealed=blended, total=moved, clock=clock, fitness=fitness).reordered()


def _step(state: State, size: float) -> float:
    """Weight of the next batch, of `size` full batches."""
    return STEP_SIZE.at(state.clock + 1) * min(1.0, size)


def _info(state: State) -> LapInfo:
    mass = float(state.total.n.sum())
    return LapInfo(state.clock, state.bound(), len(state.total), mass, (), settled=False)
