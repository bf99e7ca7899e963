"""Asynchronous streaming: nobody waits, and what has arrived is what is believed.

Each chunk of rows is assigned at the posterior of the moment when it was sent off; its statistics
replace those of its last visit when they come back. The posterior is the prior plus the sum of what
has arrived. Results depend on who was faster, and the bound may fall: it is an estimate, whose only
promise is that after a lap it rests on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from everlearn.core.moves import LapInfo
from everlearn.core.random import stream
from everlearn.core.stats import Stats, total
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import CHUNK_ROWS
from everlearn.engine.rows import Rows
from everlearn.mixture.local import LocalRunner, MixtureStep, Plan, TrackedStep
from everlearn.mixture.memoized import Fit, MoveSettings, Schedule, learn_sample
from everlearn.mixture.model import Mixture, MixturePosterior
from everlearn.mixture.state import Sealed, State


def fit(
    model: Mixture,
    rows: Rows | ChunkedRows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """Start from a sample, which decides on the structure, then take what comes.

    Until a chunk has arrived for the first time, the sample stands in for its rows.
    """
    start = learn_sample(model, rows, seed, runner, moves, schedule)
    chunks = rows.pieces(_whole(rows, schedule.batch_rows))
    orders = [
        stream(seed, "order", lap).permutation(len(chunks)) for lap in range(schedule.max_laps)
    ]
    visits = [int(place) for order in orders for place in order]
    arrived: dict[int, Stats] = {}
    known, missing = start.total * 0.0, rows.mass
    laps: list[LapInfo] = []

    def believed() -> tuple[MixtureStep, MixturePosterior, int]:
        stand_in = start.total * (max(missing, 0.0) / start.total.n.sum())
        return runner.step, model.posterior(known + stand_in), runner.block_rows(len(start.total))

    items = [chunks[place] for place in visits]
    with closing(runner.engine.as_they_come(_said, items, believed)) as coming:
        for number, (visit, stats) in enumerate(coming, 1):
            place = visits[visit]
            if place in arrived:
                known = known - arrived[place] + stats
            else:
                known, missing = known + stats, missing - float(stats.n.sum())
            arrived[place] = stats
            if number % len(chunks) == 0 and len(arrived) == len(chunks):
                known = total([arrived[p] for p in range(len(chunks))])
                laps.append(_info(model, known, len(laps) + 1))
                on_lap(laps[-1])
    state = _state(start, total([arrived[p] for p in range(len(chunks))]), clock=len(laps))
    return Fit(state, True, tuple(laps))


def absorb(
    state: State,
    rows: Rows,
    batch_rows: int,
    runner: LocalRunner,
    on_lap: Callable[[LapInfo], None],
) -> State:
    """Add rows of a stream as they come back; nothing is visited twice."""
    known = state.total

    def believed() -> tuple[MixtureStep, MixturePosterior, int]:
        return runner.step, state.model.posterior(known), runner.block_rows(len(known))

    items = rows.pieces(_whole(rows, batch_rows))
    with closing(runner.engine.as_they_come(_said, items, believed)) as coming:
        for _, stats in coming:
            known = known + stats
    after = _state(state, known, clock=state.clock + 1)
    on_lap(_info(state.model, known, after.clock))
    return after


def _whole(rows: Rows | ChunkedRows, batch_rows: int) -> int:
    """Rows of a piece: chunks that are elsewhere are not cut."""
    return len(rows) if isinstance(rows, ChunkedRows) else min(batch_rows, CHUNK_ROWS)


def _said(shared: tuple[MixtureStep, MixturePosterior, int], rows: Rows) -> Stats:
    step, posterior, size = shared
    task = TrackedStep(step)
    return total(task((posterior, Plan()), block)[0].stats for block in rows.blocks(size))


def _state(state: State, known: Stats, clock: int) -> State:
    sealed = Sealed(known, state.sealed.pair_loss)
    after = replace(state, sealed=sealed, batches=(), total=known, clock=clock)
    return after.pruned().reordered()


def _info(model: Mixture, known: Stats, clock: int) -> LapInfo:
    mass = float(known.n.sum())
    return LapInfo(clock, model.bound(known), len(known), mass, (), settled=False)
