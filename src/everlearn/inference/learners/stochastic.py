"""Stochastic variational inference: blend each batch, scaled to the whole, into the statistics.

The natural parameters of every factor are linear in the statistics, so the blend of parameters
is the blend of statistics. Nothing is remembered of a batch, and the bound is a noisy estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from everlearn.core.mixture import Mixture
from everlearn.core.random import stream
from everlearn.inference.learners.fitting import Fit, Schedule, learn_sample
from everlearn.inference.learners.memoized import LapInfo, MoveSettings
from everlearn.inference.local.runner import LocalRunner
from everlearn.inference.local.tracking import Plan
from everlearn.inference.rows import Rows
from everlearn.inference.state import Sealed, State


@dataclass(frozen=True, slots=True)
class StepSize:
    """(step + delay) ** -decay; a decay in (0.5, 1] converges."""

    delay: float = 1.0
    decay: float = 0.6

    def at(self, step: int) -> float:
        """Weight of the next batch."""
        return float((step + self.delay) ** -self.decay)


STEP_SIZE = StepSize()


def blend(state: State, rows: Rows, mass: float, runner: LocalRunner) -> State:
    """Move the statistics towards what this batch would say if all `mass` rows were like it."""
    summary, _ = runner.run(state.posterior(), Plan(), rows)
    rho = STEP_SIZE.at(state.clock + 1)
    moved = state.total * (1.0 - rho) + summary.stats * (rho * mass / rows.mass)
    blended = Sealed(moved, state.sealed.pair_loss)
    return replace(state, sealed=blended, total=moved, clock=state.clock + 1).reordered()


def fit(
    model: Mixture,
    rows: Rows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """Start from a sample, which decides on the structure, then blend in batch after batch."""
    start = learn_sample(model, rows, seed, runner, moves, schedule)
    scaled = start.total * (rows.mass / start.total.n.sum())
    sealed = replace(start.sealed, stats=scaled)
    state = replace(start, sealed=sealed, batches=(), total=scaled, clock=0)
    batches = rows.blocks(schedule.batch_rows)
    laps: list[LapInfo] = []
    for number in range(schedule.max_laps):
        order = stream(seed, "order", number).permutation(len(batches))
        for position in order.tolist():
            state = blend(state, batches[position], rows.mass, runner)
        info = LapInfo(state.clock, state.bound(), len(state.total), rows.mass, (), settled=False)
        laps.append(info)
        on_lap(info)
    return Fit(state, True, tuple(laps))
