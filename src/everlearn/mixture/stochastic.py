"""Stochastic variational inference: blend each batch, scaled to the whole, into the statistics.

The natural parameters of every factor are linear in the statistics, so the blend of parameters
is the blend of statistics. Nothing is remembered of a batch, and the bound is a noisy estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from everlearn.core.moves import LapInfo
from everlearn.core.random import stream
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.rows import Rows
from everlearn.mixture.local import LocalRunner, Plan
from everlearn.mixture.memoized import Fit, MoveSettings, Schedule, learn_sample
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import Sealed, State


@dataclass(frozen=True, slots=True)
class StepSize:
    """(step + delay) ** -decay; a decay in (0.5, 1] converges."""

    delay: float = 1.0
    decay: float = 0.6

    def at(self, step: int) -> float:
        """Weight of the next full batch."""
        return float((step + self.delay) ** -self.decay)


STEP_SIZE = StepSize()


def blend(
    state: State, rows: Rows | ChunkedRows, mass: float, rho: float, runner: LocalRunner
) -> State:
    """Move the statistics by `rho` towards `mass` rows that are all like those of this batch."""
    summary, _ = runner.run(state.posterior(), Plan(), rows)
    held = state.total * ((1.0 - rho) * mass / state.total.n.sum())
    moved = held + summary.stats * (rho * mass / rows.mass)
    blended = Sealed(moved, state.sealed.pair_loss)
    return replace(state, sealed=blended, total=moved, clock=state.clock + 1).reordered()


def absorb(
    state: State,
    rows: Rows,
    batch_rows: int,
    runner: LocalRunner,
    on_lap: Callable[[LapInfo], None],
) -> State:
    """Blend in rows of a stream, with statistics scaled to all that has been seen by then.

    A batch moves them by the step size if it is full, by that part of it if it is smaller, and
    by its share of all rows at the least: that would be plain adding up.
    """
    for batch in rows.blocks(batch_rows):
        mass = float(state.total.n.sum()) + batch.mass
        rho = max(_step(state, batch.mass / batch_rows), batch.mass / mass)
        state = blend(state, batch, mass, rho, runner)
        on_lap(_info(state))
    return state


def fit(
    model: Mixture,
    rows: Rows | ChunkedRows,
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
    full = rows.mass * min(1.0, schedule.batch_rows / len(rows))
    laps: list[LapInfo] = []
    for number in range(schedule.max_laps):
        order = stream(seed, "order", number).permutation(len(batches))
        for position in order.tolist():
            batch = batches[position]
            state = blend(state, batch, rows.mass, _step(state, batch.mass / full), runner)
        info = _info(state)
        laps.append(info)
        on_lap(info)
    return Fit(state, True, tuple(laps))


def _step(state: State, size: float) -> float:
    """Weight of the next batch, whose size is given in full batches."""
    return STEP_SIZE.at(state.clock + 1) * min(1.0, size)


def _info(state: State) -> LapInfo:
    mass = float(state.total.n.sum())
    return LapInfo(state.clock, state.bound(), len(state.total), mass, (), settled=False)
