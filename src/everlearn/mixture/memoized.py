"""Memoized variational inference: laps over open batches, and which moves they accept.

A visit replaces the old statistics of a batch by new ones, so the bound of all rows never falls.
A lap visits each open batch once, and measures on the way what the moves need. Then it judges
births, deletes (only if no birth was accepted), merges, and the order of the components. With one
batch this is batch variational Bayes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from everlearn.core.moves import ALL_MOVES, LapInfo, MoveRecord
from everlearn.core.random import stream
from everlearn.core.stats import Delete, Merge, Split, Stats, total
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.rows import Rows
from everlearn.mixture.births import BirthSettings, after_failed_births, open_targets, propose
from everlearn.mixture.local import LocalRunner, Plan, Summary
from everlearn.mixture.merges import (
    after_failed_deletes,
    delete_candidates,
    delete_gain,
    judge_pairs,
    merge_gain,
    promising_pairs,
    receivers,
)
from everlearn.mixture.model import MixturePosterior
from everlearn.mixture.state import OpenBatch, State, is_empty


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """Which moves a lap may make, and how much work they may cause.

    Attributes
    ----------
    kinds : names of the moves
    births : how births are proposed
    max_pairs : pairs of components to track for merges
    max_deletes : components to track for deletes
    margin : an accepted move must raise the bound by more than this part of it
    """

    kinds: frozenset[str] = frozenset(ALL_MOVES)
    births: BirthSettings = field(default_factory=BirthSettings)
    max_pairs: int = 50
    max_deletes: int = 5
    margin: float = 1e-9


def visit(state: State, position: int, plan: Plan, runner: LocalRunner) -> tuple[State, Summary]:
    """Assign the rows of one open batch anew, and replace its statistics in the total."""
    batch = state.batches[position]
    summary, labels = runner.run(state.posterior(), plan, batch.rows)
    batches = list(state.batches)
    batches[position] = replace(batch, stats=summary.stats, labels=labels)
    changed = _nonnegative(state.total - batch.stats + summary.stats)
    return replace(state, batches=tuple(batches), total=changed), summary


def open_batches(
    state: State,
    posterior: MixturePosterior,
    pieces: Sequence[Rows | ChunkedRows],
    runner: LocalRunner,
) -> State:
    """Add batches, whose rows are all assigned at one fixed posterior."""
    added = []
    for rows in pieces:
        summary, labels = runner.run(posterior, Plan(), rows)
        added.append(OpenBatch(rows, summary.stats, labels))
    return replace(state, batches=(*state.batches, *added)).resummed()


def lap(state: State, runner: LocalRunner, moves: MoveSettings) -> tuple[State, LapInfo]:
    """Visit every open batch once, then judge the moves."""
    plan, without_parts = _plan(state, runner, moves)
    order = stream(state.seed, "order", state.clock).permutation(len(state.batches))
    summaries: dict[int, Summary] = {}
    for position in order.tolist():
        state, summaries[position] = visit(state, position, plan, runner)
    state = state.resummed()
    tracked = [summaries[p] for p in range(len(state.batches))]
    judge = _Judge(state, plan, tracked, moves)
    judge.judge_all()
    state, records = judge.state, judge.records
    refused = [r.removed[0] for r in records if r.kind == "birth" and not r.accepted]
    trials = after_failed_births(state, without_parts + refused, moves.births)
    state = replace(state.reordered().pruned(), birth_trials=trials, clock=state.clock + 1)
    settled = not any(r.accepted for r in records) and not _has_births_left(state, moves)
    info = LapInfo(
        state.clock,
        state.bound(),
        len(state.total),
        float(state.total.n.sum()),
        tuple(records),
        settled,
    )
    return state, info


def _plan(state: State, runner: LocalRunner, moves: MoveSettings) -> tuple[Plan, list[int]]:
    """What to measure in the next lap, and ids of components that could not be split."""
    births, without_parts = (
        propose(state, runner, moves.births) if "birth" in moves.kinds else ((), [])
    )
    limit = moves.max_pairs if "merge" in moves.kinds else 0
    pairs = promising_pairs(state.model, state.total, limit)
    deletes = delete_candidates(state, moves.max_deletes) if "delete" in moves.kinds else ()
    return Plan(pairs, births, deletes), without_parts


def _has_births_left(state: State, moves: MoveSettings) -> bool:
    """Whether some way to split some component has not been tried yet."""
    if "birth" not in moves.kinds or len(state.total) >= moves.births.max_components:
        return False
    return bool(open_targets(state, moves.births))


class _Judge:
    """Makes the moves of a lap that raise the bound.

    Attributes
    ----------
    state : the state after the moves so far
    records : all moves judged so far
    """

    def __init__(
        self, state: State, plan: Plan, tracked: list[Summary], moves: MoveSettings
    ) -> None:
        self.state, self.records = state, list[MoveRecord]()
        self._plan, self._tracked, self._moves = plan, tracked, moves
        self._margin = moves.margin * abs(state.bound())
        # What was measured holds for one change of a component only.
        self._used = set[int]()

    def judge_all(self) -> None:
        """Judge births, deletes if no birth was accepted, and merges."""
        self._judge_births()
        if not self._used:
            self._judge_deletes()
        self._judge_merges()

    def _judge_births(self) -> None:
        # A new order of the components raises the bound by itself, which is not the gain of a move.
        before = self.state.reordered().bound()
        for index, proposal in enumerate(self._plan.births):
            after = _split(self.state, proposal.target, index, self._tracked)
            gain = after.bound() - before
            added = np.intersect1d(proposal.parts.ids, after.total.ids).tolist()
            most = max(self._moves.births.max_components, len(self.state.total))
            fits = len(after.total) <= most
            accepted = bool(added) and fits and gain > self._margin
            self.records.append(
                MoveRecord("birth", (proposal.target,), tuple(added), gain, accepted)
            )
            if accepted:
                next_id = max(after.next_id, int(proposal.parts.ids.max()) + 1)
                self.state = replace(after, next_id=next_id)
                before = self.state.bound()
                self._used |= {proposal.target, *added}

    def _judge_deletes(self) -> None:
        """Make the best delete. Only one, because deletes may concern the same rows."""
        state, targets = self.state, self._plan.deletes
        changes = [total([s.deletes[i] for s in self._tracked]) for i in range(len(targets))]
        gains = [
            delete_gain(state.model, state.total, target, change)
            for target, change in zip(targets, changes, strict=True)
        ]
        best = int(np.argmax(gains)) if gains else -1
        failed = []
        for index, (target, gain) in enumerate(zip(targets, gains, strict=True)):
            accepted = index == best and gain > self._margin
            self.records.append(MoveRecord("delete", (target,), (), gain, accepted))
            if gain <= self._margin:
                failed.append(target)
        if gains and gains[best] > self._margin:
            self._used |= {targets[best], *receivers(changes[best]).tolist()}
            shares = [summary.deletes[best] for summary in self._tracked]
            state = _delete(state, targets[best], shares)
        self.state = replace(state, delete_trials=after_failed_deletes(state, failed))

    def _judge_merges(self) -> None:
        state = self.state
        known = set(state.total.ids.tolist()) - self._used
        rows = [p for p, pair in enumerate(self._plan.pairs.tolist()) if set(pair) <= known]
        pairs = self._plan.pairs[rows]
        open_loss = np.array([summary.pair_loss[rows] for summary in self._tracked])
        open_loss = open_loss.reshape(len(self._tracked), len(rows))
        losses = open_loss.sum(axis=0) + state.sealed.losses(pairs)
        for pair in judge_pairs(state.model, state.total, pairs, losses, self._margin):
            self.records.append(
                MoveRecord("merge", (pair.drop,), (pair.keep,), pair.gain, pair.accepted)
            )
            if pair.accepted:
                edit = Merge(pair.keep, pair.drop, 0.0)
                shares = [replace(edit, entropy_loss=float(loss[pair.row])) for loss in open_loss]
                self.state = self.state.edited(edit, shares)


def _split(state: State, target: int, index: int, tracked: list[Summary]) -> State:
    """Move the open rows of the target to the parts of its proposal.

    The target keeps its id. If it has no sealed rows, it becomes the part with most of its oldest
    rows. If it has some, the part that is most like it joins it again if that raises the bound.
    Sealed rows and rows of the part are different ones, so no entropy is lost.
    """
    parts = [summary.births[index] for summary in tracked]
    batches = tuple(
        batch.split(target, summary.born)
        for batch, summary in zip(state.batches, tracked, strict=True)
    )
    after = replace(state, batches=batches)
    after = after.edited(Split(target, total(parts)), [Split(target, p) for p in parts])
    if is_empty(after.total.n[after.total.position(target)]):
        oldest = next((p for p in parts if not is_empty(p.n.sum())), parts[0])
        heir = int(oldest.ids[np.argmax(oldest.n)])
        return after.edited(Merge(target, heir, 0.0)).pruned().reordered()
    after = after.pruned()
    grown = np.intersect1d(parts[0].ids, after.total.ids).tolist()
    if grown:
        gains = [merge_gain(state.model, after.total, target, part, 0.0) for part in grown]
        best = int(np.argmax(gains))
        if gains[best] > 0:
            after = after.edited(Merge(target, grown[best], 0.0))
    return after.reordered()


def _delete(state: State, component: int, shares: list[Stats]) -> State:
    """Delete a component. `shares` is what others gain from its rows, for each batch."""
    gone = state.edited(Delete(component))
    batches = tuple(
        replace(batch, stats=_nonnegative(batch.stats + share))
        for batch, share in zip(gone.batches, shares, strict=True)
    )
    return replace(gone, batches=batches).resummed()


def _nonnegative(stats: Stats) -> Stats:
    """Statistics without masses below zero, which subtraction may leave by rounding."""
    return replace(stats, n=np.maximum(stats.n, 0.0))
