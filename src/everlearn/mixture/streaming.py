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
from everlearn.core.moves import LapInfo
from everlearn.engine.rows import Rows, concatenate
from everlearn.mixture import births as birth
from everlearn.mixture.local import LocalRunner, Plan
from everlearn.mixture.memoized import MoveSettings, lap, visit
from everlearn.mixture.state import Memo, OpenBatch, Sealed, State

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
    name: int | str | None = None,
) -> State:
    """Learn from rows that will not come again; those with a name can be forgotten later."""
    for start in range(0, len(rows), window.batch_rows):
        piece = rows[start : start + window.batch_rows]
        state = _append(state, piece, window, runner, name)
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
    oldest = state.batches[0]
    sealed = Sealed(state.sealed.stats + oldest.stats, loss)
    fresh = min(state.fresh, state.n_open - len(oldest.rows))
    memos = dict(state.memos)
    if oldest.name is not None:
        own = Sealed(oldest.stats, loss - state.sealed.pair_loss)
        memos[oldest.name] = _joined(memos.get(oldest.name), own, len(oldest.rows))
    return replace(state, sealed=sealed, batches=state.batches[1:], fresh=fresh, memos=memos)


def _joined(memo: Memo | None, part: Sealed, n_rows: int) -> Memo:
    if memo is None:
        return Memo(part, n_rows)
    both = Sealed(memo.part.stats + part.stats, memo.part.pair_loss + part.pair_loss)
    return Memo(both, memo.n_rows + n_rows)


def forget(state: State, name: int | str) -> tuple[State, int]:
    """The state without what the rows of this name said, and how many rows these are.

    Statistics are sums over rows, so that what is left is the sum over the others, exactly but
    for rounding; the structure stays as it is, but for components that are empty now.
    """
    memos, sealed, n_rows = dict(state.memos), state.sealed, 0
    memo = memos.pop(name, None)
    if memo is not None:
        left = sealed.stats - memo.part.stats
        loss = np.maximum(sealed.pair_loss - memo.part.pair_loss, 0.0)
        sealed, n_rows = Sealed(replace(left, n=np.maximum(left.n, 0.0)), loss), memo.n_rows
    kept = tuple(batch for batch in state.batches if batch.name != name)
    n_rows += sum(len(batch.rows) for batch in state.batches if batch.name == name)
    after = replace(state, sealed=sealed, batches=kept, memos=memos).resummed()
    after = replace(after, fresh=min(after.fresh, after.n_open))
    return after.pruned().reordered(), n_rows


def seal_all(state: State, runner: LocalRunner) -> State:
    """Let go of all rows; what they said stays."""
    while state.batches:
        state = seal_oldest(state, runner)
    return replace(state.resummed().reordered(), fresh=0)


def _append(
    state: State, piece: Rows, window: Window, runner: LocalRunner, name: int | str | None
) -> State:
    """Assign rows and put them into the last open batch, or into a new one if it is full."""
    summary, labels = runner.run(state.posterior(), Plan(), piece)
    new = OpenBatch(piece.copy(), summary.stats, labels, name)
    batches = list(state.batches)
    room = batches and len(batches[-1].rows) + len(piece) <= window.batch_rows
    if room and batches[-1].name == name:
        last = batches.pop()
        new = OpenBatch(
            concatenate([last.rows, new.rows]),
            last.stats + new.stats,
            np.concatenate([last.labels, new.labels]),
            name,
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
