"""Streaming: rows pass once through a window that can still be visited, then only sums remain.

New rows are assigned at the current posterior and join the last open batch. When half of the
window is new, a lap over it looks for births, merges and deletes; rows that leave the window
are visited a last time and sealed. The bound stays an exact lower bound for every row ever
seen: newborn components draw mass from the window and from later rows, and what they replace
keeps the mass that is sealed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.inference.learners.memoized import LapInfo, MoveSettings, lap, visit
from everlearn.inference.local.runner import LocalRunner
from everlearn.inference.local.tracking import Plan
from everlearn.inference.moves import birth
from everlearn.inference.rows import Rows, concatenate
from everlearn.inference.state import OpenBatch, Sealed, State

_LAPS_PER_RENEWAL = 4


@dataclass(frozen=True, slots=True)
class Window:
    """How many rows stay open, and how many of them make a batch."""

    rows: int
    batch_rows: int


def absorb(
    state: State,
    rows: Rows,
    window: Window,
    runner: LocalRunner,
    moves: MoveSettings,
    on_lap: Callable[[LapInfo], None],
) -> State:
    """Learn from rows that will not come again."""
    for start in range(0, len(rows), window.batch_rows):
        piece = rows[start : start + window.batch_rows]
        state = _append(state, piece, window, runner)
        if 2 * state.fresh >= state.n_open:
            state = _renew(state, runner, moves, on_lap)
        while state.n_open > window.rows and len(state.batches) > 1:
            state = seal_oldest(state, runner)
    return state.resummed()


def seal_oldest(state: State, runner: LocalRunner) -> State:
    """Visit the oldest open batch once more and let go of its rows."""
    pairs = _all_pairs(state.total.ids)
    state, summary = visit(state, 0, Plan(pairs=pairs), runner)
    k = len(state.total)
    j, l = np.triu_indices(k, 1)
    loss = state.sealed.pair_loss.copy()
    loss[j, l] += summary.pair_loss
    loss[l, j] = loss[j, l]
    sealed = Sealed(state.sealed.stats + state.batches[0].stats, loss)
    fresh = min(state.fresh, state.n_open - len(state.batches[0].rows))
    return replace(state, sealed=sealed, batches=state.batches[1:], fresh=fresh)


def seal_all(state: State, runner: LocalRunner) -> State:
    """Let go of all rows; what they said stays."""
    while state.batches:
        state = seal_oldest(state, runner)
    return replace(state.resummed().reordered(), fresh=0)


def _append(state: State, piece: Rows, window: Window, runner: LocalRunner) -> State:
    """Assign rows and put them into the last open batch, or into a new one if it is full."""
    summary, labels = runner.run(state.posterior(), Plan(), piece)
    new = OpenBatch(piece.copy(), summary.stats, labels)
    batches = list(state.batches)
    if batches and len(batches[-1].rows) + len(piece) <= window.batch_rows:
        last = batches.pop()
        new = OpenBatch(
            concatenate([last.rows, new.rows]),
            last.stats + new.stats,
            np.concatenate([last.labels, new.labels]),
        )
    return replace(
        state,
        batches=(*batches, new),
        total=state.total + summary.stats,
        fresh=state.fresh + len(piece),
    )


def _renew(
    state: State, runner: LocalRunner, moves: MoveSettings, on_lap: Callable[[LapInfo], None]
) -> State:
    """Laps over the window while they change the structure.

    The window holds new rows, so every component may be tried again, least tried first.
    """
    state = replace(state, birth_trials=birth.reopened(state.birth_trials), delete_trials={})
    for _ in range(_LAPS_PER_RENEWAL):
        state, info = lap(state, runner, moves)
        on_lap(info)
        if not any(move.accepted for move in info.moves):
            break
    return replace(state, fresh=0)


def _all_pairs(ids: IntVec) -> NDArray[np.int64]:
    j, l = np.triu_indices(len(ids), 1)
    return np.stack([ids[j], ids[l]], axis=1)
