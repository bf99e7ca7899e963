"""Memoized learning of streams: rows stay in a window for a while, then only sums remain.

New rows are assigned at the current posterior and join the last open batch. When half of the
window is new, or when many of them were strangers, laps over it look for births, merges and
deletes. Rows that leave the window are visited once more and sealed. The bound stays an exact
lower bound for all rows seen: new components get rows of the window and later rows, old
components keep the sealed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.rows import Rows, concatenate
from everlearn.mixture.births import reopen_targets
from everlearn.mixture.learner import LearnedLaps, LearningTools, NamedRows, PriorCandidate
from everlearn.mixture.local import LocalRunner, Plan
from everlearn.mixture.memoized import lap, visit
from everlearn.mixture.search import find_components, fit_all, open_at, run_laps
from everlearn.mixture.state import NamedPart, OpenBatch, Sealed, State
from everlearn.mixture.strangers import StrangerDetector

_MAX_LAPS: Final = 4
"""Laps over the window in a row."""


class MemoizedLearner:
    """Learns with exact bounds: each open batch keeps its statistics until its next visit."""

    def fit(
        self,
        candidates: Sequence[PriorCandidate],
        rows: Rows | ChunkedRows,
        seed: int,
        tools: LearningTools,
    ) -> LearnedLaps:
        """Learn rows that can be visited many times, and keep them open."""
        return fit_all(candidates, rows, seed, tools)

    def begin(
        self,
        candidates: Sequence[PriorCandidate],
        empty: State,
        parts: Sequence[NamedRows],
        tools: LearningTools,
    ) -> LearnedLaps:
        """Search for components in the first rows, as many as the window holds.

        The rest is learned like any further rows.
        """
        first, rest = list[NamedRows](), list[tuple[Rows, int, int | str | None]]()
        room, size = tools.window.rows, tools.window.batch_rows
        for rows, name in parts:
            start = 0
            while start < len(rows) and (not first or room >= min(size, len(rows) - start)):
                first.append((rows[start : start + size], name))
                start += len(first[-1][0])
                room -= len(first[-1][0])
            if start < len(rows):
                room = 0
                rest.append((rows, start, name))
        whole = concatenate([rows for rows, _ in first])
        found = find_components(candidates, whole, empty.seed, tools)
        state = open_at(empty, found, [rows.copy() for rows, _ in first], tools.runner)
        names = (name for _, name in first)
        batches = (replace(b, name=n) for b, n in zip(state.batches, names, strict=True))
        state = replace(state, batches=tuple(batches))
        begun = run_laps(state, tools, found.choice)
        state = replace(begun.state, n_new=0)
        for rows, start, name in rest:
            for i in range(start, len(rows), size):  # because sparse slices are copies
                state = self.absorb(state, rows[i : i + size], tools, name)
        return replace(begun, state=state)

    def absorb(
        self, state: State, rows: Rows, tools: LearningTools, name: int | str | None = None
    ) -> State:
        """Learn rows of a stream. Those with a name can be forgotten later."""
        size = tools.window.batch_rows
        for start in range(0, len(rows), size):  # one at a time, because sparse slices are copies
            state = _append(state, rows[start : start + size], tools, name)
            if 2 * state.n_new >= state.n_open:
                state = replace(_run_window_laps(state, tools), n_new=0, reference=None)
            elif state.strangers.are_many(state.model.family.n_stats):
                state = _run_window_laps(state, tools)
            while state.n_open > tools.window.rows and len(state.batches) > 1:
                state = seal_oldest(state, tools.runner)
        return state.resummed()


def _append(state: State, rows: Rows, tools: LearningTools, name: int | str | None) -> State:
    """Assign rows, and put them into the last open batch, or into a new one if that is full."""
    reference, detector = None, None
    if "birth" in tools.moves.kinds:
        reference = state.total if state.reference is None else state.reference
        detector = StrangerDetector.of(state.model, reference)
    baseline = None if state.total.n.sum() == 0.0 else state.fitness.baseline
    plan = Plan(detector=detector, baseline=baseline)
    summary, labels = tools.runner.run(state.posterior(), plan, rows)
    strangers = state.strangers
    if detector is not None:
        strangers = strangers.with_more(state.total, summary.strangers)
    new = OpenBatch(rows.copy(), summary.stats, labels, name)
    batches = list(state.batches)
    room = batches and len(batches[-1].rows) + len(rows) <= tools.window.batch_rows
    if room and batches[-1].name == name:
        new = batches.pop().joined(new)
    return replace(
        state,
        batches=(*batches, new),
        total=state.total + summary.stats,
        n_new=state.n_new + len(rows),
        strangers=strangers,
        reference=reference,
        fitness=state.fitness if baseline is None else state.fitness.after(summary.fit),
    )


def _run_window_laps(state: State, tools: LearningTools) -> State:
    """Visit the window until its structure stays the same, in a few laps at most.

    The window has new rows, so all births and deletes may be tried again. If there are many
    strangers, components that took them begin with the first attempt. A few are outliers, which
    must not keep components from other attempts. If nothing changes, strangers are compared with
    the same reference as before, because components that took some have grown towards them, and
    the next search comes when it would have come anyway.
    """
    reference, accepted = state.reference, set[str]()
    n_stats, came = state.model.family.n_stats, state.strangers
    sought = came if came.are_many(n_stats) else replace(came, mass={})
    trials = reopen_targets(state.birth_trials)
    trials = {i: trial for i, trial in trials.items() if i not in sought.mass}
    state = replace(state, birth_trials=trials, delete_trials={}, strangers=sought)
    for _ in range(_MAX_LAPS):
        state, info = lap(state, tools.runner, tools.moves)
        tools.on_lap(info)
        moves = {move.kind for move in info.moves if move.accepted}
        accepted |= moves
        if not moves:
            break
    state = replace(state, strangers=came.after_search(n_stats, born="birth" in accepted))
    if accepted:
        return replace(state, n_new=0)
    # A lap also lets go of components that are empty now.
    stays = reference is not None and np.isin(reference.ids, state.total.ids).all()
    return replace(state, reference=reference if stays else None)


def seal_oldest(state: State, runner: LocalRunner, *, measure: bool = False) -> State:
    """Visit the oldest open batch once more, and keep only its statistics.

    With `measure`, log densities of its rows become part of the baseline of misfits.
    """
    ids = state.total.ids
    j, l = np.triu_indices(len(ids), 1)
    baseline = state.fitness.baseline if measure else None
    plan = Plan(pairs=np.stack([ids[j], ids[l]], axis=1), baseline=baseline)
    state, summary = visit(state, 0, plan, runner)
    if measure:
        state = replace(state, fitness=state.fitness.after(summary.fit))
    loss = state.sealed.pair_loss.copy()
    loss[j, l] += summary.pair_loss
    loss[l, j] = loss[j, l]
    oldest, named = state.batches[0], dict(state.named_parts)
    if oldest.name is not None:
        part = NamedPart(
            Sealed(oldest.stats, loss - state.sealed.pair_loss),
            len(oldest.rows),
        )
        known = named.get(oldest.name)
        named[oldest.name] = part if known is None else known + part
    return replace(
        state,
        sealed=Sealed(state.sealed.stats + oldest.stats, loss),
        batches=state.batches[1:],
        n_new=min(state.n_new, state.n_open - len(oldest.rows)),
        named_parts=named,
    )


def seal_all(state: State, runner: LocalRunner, *, measure: bool = False) -> State:
    """Seal all open rows: only their statistics remain."""
    while state.batches:
        state = seal_oldest(state, runner, measure=measure)
    return replace(state.resummed().reordered(), n_new=0)


def forget_batch(state: State, name: int | str) -> tuple[State, int]:
    """The state without the rows of this name, and their number.

    Statistics are sums over rows. So what is left is exactly the sum over the other rows, up to
    rounding. The structure stays, except for components that are empty now.
    """
    named, sealed, n_rows = dict(state.named_parts), state.sealed, 0
    part = named.pop(name, None)
    if part is not None:
        left = sealed.stats - part.sealed.stats
        loss = np.maximum(sealed.pair_loss - part.sealed.pair_loss, 0.0)
        sealed, n_rows = Sealed(replace(left, n=np.maximum(left.n, 0.0)), loss), part.n_rows
    kept = tuple(batch for batch in state.batches if batch.name != name)
    n_rows += sum(len(batch.rows) for batch in state.batches if batch.name == name)
    after = replace(state, sealed=sealed, batches=kept, named_parts=named, reference=None)
    after = after.resummed()
    after = replace(after, n_new=min(after.n_new, after.n_open))
    return after.pruned().reordered(), n_rows
