"""Memoized learning: every open batch keeps its statistics, so each visit is exact.

Visiting a batch replaces its old statistics by new ones; the bound of all rows never falls, at
any visit. A lap visits every open batch once, measures on the way what the moves need, and
then judges them: births, else deletes, then merges, then the order of the components. With one
batch this is batch variational Bayes; with a sealed past it is streaming (see `streaming`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from everlearn.core.mixture import MixturePosterior
from everlearn.core.random import stream
from everlearn.core.stats import Delete, Merge, Split, Stats, total
from everlearn.inference.chunks import ChunkedRows
from everlearn.inference.local.runner import LocalRunner
from everlearn.inference.local.tracking import Plan, Summary
from everlearn.inference.moves import birth, delete, merge
from everlearn.inference.rows import Rows
from everlearn.inference.state import OpenBatch, State

ALL_MOVES = ("birth", "merge", "delete")


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """Which moves a lap may make, and how much work they may cause."""

    kinds: frozenset[str] = frozenset(ALL_MOVES)
    births: birth.BirthSettings = field(default_factory=birth.BirthSettings)
    max_pairs: int = 50
    max_deletes: int = 5
    margin: float = 1e-9
    """An accepted move must raise the bound by more than this share of it."""
    n_bold: int = 0
    """Births that are accepted whatever they cost, best first: see `ventures`."""


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """One judged move: the ids it would take away and bring, its gain, and the verdict."""

    kind: str
    removed: tuple[int, ...]
    added: tuple[int, ...]
    gain: float
    accepted: bool


@dataclass(frozen=True, slots=True)
class LapInfo:
    """What a lap did, for the reader."""

    clock: int
    bound: float
    n_components: int
    mass: float
    """Rows seen, by weight."""
    moves: tuple[MoveRecord, ...]
    settled: bool
    """No move was accepted and no component is left to be tried."""


def visit(state: State, position: int, plan: Plan, runner: LocalRunner) -> tuple[State, Summary]:
    """Replace the statistics of one open batch; the total follows by subtracting and adding."""
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
    """Add batches, all of them assigned at one fixed posterior."""
    added = []
    for rows in pieces:
        summary, labels = runner.run(posterior, Plan(), rows)
        added.append(OpenBatch(rows, summary.stats, labels))
    return replace(state, batches=(*state.batches, *added)).resummed()


def lap(state: State, runner: LocalRunner, moves: MoveSettings) -> tuple[State, LapInfo]:
    """Visit every open batch once, then judge the moves."""
    plan, barren = _plan(state, runner, moves)
    order = stream(state.seed, "order", state.clock).permutation(len(state.batches))
    summaries: dict[int, Summary] = {}
    for position in order.tolist():
        state, summaries[position] = visit(state, position, plan, runner)
    state = state.resummed()
    tracked = [summaries[p] for p in range(len(state.batches))]
    state, records = _judge(state, plan, tracked, moves)
    refused = [r.removed[0] for r in records if r.kind == "birth" and not r.accepted]
    trials = birth.failed(state, barren + refused)
    state = replace(state.reordered().pruned(), birth_trials=trials, clock=state.clock + 1)
    settled = not any(r.accepted for r in records) and not _pending(state, moves)
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
    births, barren = (
        birth.propose(state, runner, moves.births) if "birth" in moves.kinds else ((), [])
    )
    limit = moves.max_pairs if "merge" in moves.kinds else 0
    pairs = merge.promising_pairs(state.model, state.total, limit)
    deletes = delete.delete_candidates(state, moves.max_deletes) if "delete" in moves.kinds else ()
    return Plan(pairs, births, deletes), barren


def _pending(state: State, moves: MoveSettings) -> bool:
    """Whether some component has not yet resisted every attempt to split it."""
    if "birth" not in moves.kinds or len(state.total) >= moves.births.max_components:
        return False
    return bool(birth.open_targets(state, moves.births))


def _judge(
    state: State, plan: Plan, tracked: list[Summary], moves: MoveSettings
) -> tuple[State, list[MoveRecord]]:
    """Carry out what raises the bound. A component takes part in one accepted move at most."""
    margin = moves.margin * abs(state.bound())
    room = moves.births.max_components
    records: list[MoveRecord] = []
    used: set[int] = set()
    bold = _boldest(state, plan, tracked, moves.n_bold)
    state = _judge_births(state, plan, tracked, margin, room, bold, records, used)
    if not used:
        state = _judge_deletes(state, plan, tracked, margin, records, used)
    state = _judge_merges(state, plan, tracked, margin, records, used)
    return state, records


def _judge_births(
    state: State,
    plan: Plan,
    tracked: list[Summary],
    margin: float,
    room: int,
    bold: set[int],
    records: list[MoveRecord],
    used: set[int],
) -> State:
    before = state.reordered().bound()  # what the order alone gains is not the move's
    for index, proposal in enumerate(plan.births):
        after = _split(state, proposal.target, index, tracked)
        gain = after.bound() - before
        added = np.intersect1d(proposal.parts.ids, after.total.ids).tolist()
        fits = len(after.total) <= max(room, len(state.total))
        accepted = bool(added) and fits and (gain > margin or index in bold)
        records.append(MoveRecord("birth", (proposal.target,), tuple(added), gain, accepted))
        if accepted:
            state = replace(after, next_id=max(after.next_id, max(added) + 1))
            before = state.bound()
            used |= {proposal.target, *added}
    return state


def _boldest(state: State, plan: Plan, tracked: list[Summary], limit: int) -> set[int]:
    """Positions of the proposed births that, each alone, gain most or cost least."""
    if limit == 0:
        return set()
    bounds = [_split(state, p.target, i, tracked).bound() for i, p in enumerate(plan.births)]
    return set(np.argsort(-np.array(bounds), kind="stable")[:limit].tolist())


def _split(state: State, target: int, index: int, tracked: list[Summary]) -> State:
    """Move the open rows of the target to the parts of its proposal, batch by batch.

    If the target also has sealed rows it stays, and takes back the one part that resembles
    them most, if that pays. Those rows and the part's are different ones, so no entropy is lost.
    """
    parts = [summary.births[index] for summary in tracked]
    batches = tuple(
        batch.split(target, summary.born)
        for batch, summary in zip(state.batches, tracked, strict=True)
    )
    after = replace(state, batches=batches)
    after = after.edited(Split(target, total(parts)), [Split(target, p) for p in parts])
    after = after.pruned()
    grown = np.intersect1d(parts[0].ids, after.total.ids).tolist()
    if grown and target in after.total.ids:
        gains = [merge.merge_gain(state.model, after.total, target, part, 0.0) for part in grown]
        best = int(np.argmax(gains))
        if gains[best] > 0:
            after = after.edited(Merge(target, grown[best], 0.0))
    return after.reordered()


def _judge_deletes(
    state: State,
    plan: Plan,
    tracked: list[Summary],
    margin: float,
    records: list[MoveRecord],
    used: set[int],
) -> State:
    """The one delete that gains most: rows of several may overlap."""
    changes = [total([s.deletes[i] for s in tracked]) for i in range(len(plan.deletes))]
    gains = [
        delete.delete_gain(state.model, state.total, component, change)
        for component, change in zip(plan.deletes, changes, strict=True)
    ]
    best = int(np.argmax(gains)) if gains else -1
    stay = []
    for index, (component, gain) in enumerate(zip(plan.deletes, gains, strict=True)):
        accepted = index == best and gain > margin
        records.append(MoveRecord("delete", (component,), (), gain, accepted))
        if not accepted and gain <= margin:
            stay.append(component)
    if gains and gains[best] > margin:
        used |= {plan.deletes[best], *delete.touched(changes[best]).tolist()}
        shares = [s.deletes[best] for s in tracked]
        state = _hand_over(state, plan.deletes[best], shares)
    return replace(state, delete_trials=delete.failed(state, stay))


def _hand_over(state: State, component: int, shares: list[Stats]) -> State:
    """Delete a component and give each batch's rows of it to the others."""
    gone = state.edited(Delete(component))
    batches = tuple(
        replace(batch, stats=_nonnegative(batch.stats + share))
        for batch, share in zip(gone.batches, shares, strict=True)
    )
    return replace(gone, batches=batches).resummed()


def _judge_merges(
    state: State,
    plan: Plan,
    tracked: list[Summary],
    margin: float,
    records: list[MoveRecord],
    used: set[int],
) -> State:
    known = set(state.total.ids.tolist()) - used
    rows = [p for p, pair in enumerate(plan.pairs.tolist()) if set(pair) <= known]
    pairs = plan.pairs[rows]
    open_loss = np.array([s.pair_loss[rows] for s in tracked]).reshape(len(tracked), len(rows))
    losses = open_loss.sum(axis=0) + state.sealed.losses(pairs)
    for pair in merge.judge_pairs(state.model, state.total, pairs, losses, margin):
        records.append(MoveRecord("merge", (pair.drop,), (pair.keep,), pair.gain, pair.accepted))
        if pair.accepted:
            edit = Merge(pair.keep, pair.drop, 0.0)
            shares = [replace(edit, entropy_loss=float(loss[pair.row])) for loss in open_loss]
            state = state.edited(edit, shares)
    return state


def _nonnegative(stats: Stats) -> Stats:
    """Subtraction may leave masses a rounding error below zero."""
    return replace(stats, n=np.maximum(stats.n, 0.0))
