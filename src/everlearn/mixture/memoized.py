"""Memoized learning: every open batch keeps its statistics, so each visit is exact.

Visiting a batch replaces its old statistics by new ones; the bound of all rows never falls, at
any visit. A lap visits every open batch once, measures on the way what the moves need, and
then judges them: births, else deletes, then merges, then the order of the components. With one
batch this is batch variational Bayes; with a sealed past it is streaming (see `streaming`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from everlearn.core.moves import ALL_MOVES, LapInfo, MoveRecord
from everlearn.core.random import stream
from everlearn.core.stats import Delete, Merge, Split, Stats, total
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.mixture import births as birth
from everlearn.mixture import merges as delete
from everlearn.mixture import merges as merge
from everlearn.mixture.births import ATTEMPTS, seed_labels
from everlearn.mixture.local import LocalRunner, Plan, Summary
from everlearn.mixture.model import Mixture, MixturePosterior
from everlearn.mixture.state import OpenBatch, State, Trial


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


MOST_LAPS = 4
"""Laps of a venture: one that carries the births, the others to heal."""
_SHARE = 8
"""One component in so many may be split at any cost."""


@dataclass(frozen=True, slots=True)
class Venture:
    """Where a venture ended, the laps it took, and what it did, or None if it was given up."""

    state: State
    n_laps: int
    info: LapInfo | None


def venture(state: State, runner: LocalRunner, moves: MoveSettings, number: int) -> Venture:
    """Try births that cost; `number` says how parts are sought, as in the attempts of a birth."""
    before = state.bound()
    births = replace(moves.births, least_parts=2)
    bold = replace(moves, births=births, n_bold=-(-len(state.total) // _SHARE))
    heal = replace(moves, kinds=moves.kinds - {"birth"})
    trials = {
        int(i): Trial(number % len(ATTEMPTS), float(n))
        for i, n in zip(state.total.ids, state.total.n, strict=True)
    }
    found, info = lap(replace(state, birth_trials=trials, delete_trials={}), runner, bold)
    records = list(info.moves)
    n_laps = 1
    while n_laps < MOST_LAPS and info.bound <= before and any(m.accepted for m in records):
        found, info = lap(found, runner, heal)
        records += info.moves
        n_laps += 1
    if info.bound - before <= moves.margin * abs(before):
        return Venture(replace(state, clock=found.clock), n_laps, None)
    kept = {i: t for i, t in state.birth_trials.items() if i in found.total.ids}
    found = replace(found, birth_trials=kept)
    return Venture(found, n_laps, replace(info, moves=tuple(records), settled=False))


WARM_START_ABOVE = 15_000
WARM_START_ROWS = 10_000
_WARM_START_LAPS = 8
_CALM = 10.0
"""Times the tolerance: how little a lap may gain before births that cost are ventured."""
_FUTILE = 1
"""Ventures in a row that may come to nothing."""
_LEAST_SCALE = 1000.0
"""Nats: of small data sets, changes are compared with this rather than with their bound."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to learn, from what start, and in what portions."""

    batch_rows: int
    max_laps: int
    tol: float
    start_components: int = 1
    n_init: int = 1
    sample_rows: int = WARM_START_ROWS
    """Rows of the sample that large data start from."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A learned state, whether it settled before the laps ran out, and the laps it took."""

    state: State
    settled: bool
    laps: tuple[LapInfo, ...]


def fit(
    model: Mixture,
    rows: Rows | ChunkedRows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """Learn from all rows; the state keeps them open.

    Large data start from what a sample of them teaches.
    """
    if len(rows) <= WARM_START_ABOVE:
        return best_start(model, rows, seed, runner, moves, schedule, on_lap)
    warm = learn_sample(model, rows, seed, runner, moves, schedule)
    state = _begin(warm, warm.posterior(), rows, runner, schedule.batch_rows)
    return run_laps(state, runner, moves, schedule, on_lap)


def learn_sample(
    model: Mixture,
    rows: Rows | ChunkedRows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
) -> State:
    """What a few laps over a random sample of the rows teach."""
    sample = sampled(rows, schedule.sample_rows, seed, runner.engine)
    runner = runner.here()
    brief = replace(schedule, batch_rows=len(sample), max_laps=_WARM_START_LAPS)
    return best_start(model, sample, seed, runner, moves, brief, lambda _: None).state


def best_start(
    model: Mixture,
    rows: Rows | ChunkedRows,
    seed: int,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """The best of `n_init` runs, each with its own random streams."""
    seeds = [
        seed,
        *(int(stream(seed, "start", i).integers(2**31 - 1)) for i in range(1, schedule.n_init)),
    ]
    best: Fit | None = None
    for own_seed in seeds:
        empty = State.empty(model, own_seed, schedule.start_components)
        posterior = start_posterior(empty, rows, runner, schedule.sample_rows)
        state = _begin(empty, posterior, rows, runner, schedule.batch_rows)
        found = run_laps(state, runner, moves, schedule, on_lap)
        if best is None or found.state.bound() > best.state.bound():
            best = found
    assert best is not None
    return best


def run_laps(
    state: State,
    runner: LocalRunner,
    moves: MoveSettings,
    schedule: Schedule,
    on_lap: Callable[[LapInfo], None],
) -> Fit:
    """Laps, and ventures when little happens, until the bound and the structure stand still.

    The laps of a venture count, whether it is undone or not; one that is kept is told as one lap.
    """
    laps: list[LapInfo] = []
    left, futile, ventured = schedule.max_laps, 0, 0
    while left > 0:
        before = laps[-1].bound if laps else -np.inf
        state, info = lap(state, runner, moves)
        left -= 1
        laps.append(info)
        on_lap(info)
        rise = abs(info.bound - before) / max(abs(info.bound), _LEAST_SCALE)
        done = futile >= _FUTILE or "birth" not in moves.kinds or left <= MOST_LAPS
        if done and info.settled and rise <= schedule.tol:
            return Fit(state, True, tuple(laps))
        calm = rise <= _CALM * schedule.tol and not any(m.accepted for m in info.moves)
        if calm and not done:
            tried = venture(state, runner, moves, ventured)
            state, left, ventured = tried.state, left - tried.n_laps, ventured + 1
            futile += 1
            if tried.info is not None:
                laps.append(tried.info)
                on_lap(tried.info)
                if tried.info.bound - info.bound > _CALM * schedule.tol * abs(info.bound):
                    futile = 0
    return Fit(state, False, tuple(laps))


def start_posterior(
    empty: State, rows: Rows | ChunkedRows, runner: LocalRunner, sample_rows: int = WARM_START_ROWS
) -> MixturePosterior:
    """Globals to begin with: the prior for one component, k-means++ seeds for several."""
    k = min(len(empty.total), len(rows))
    if len(empty.total) == 1:
        return empty.posterior()
    sample = sampled(rows, sample_rows, empty.seed, runner.engine)
    points = empty.model.family.embedding(sample.X)
    labels = seed_labels(points, sample.weights, k, stream(empty.seed, "start", 0))
    return empty.model.posterior(runner.hard_stats(sample, labels, empty.total.ids))


def _begin(
    state: State,
    posterior: MixturePosterior,
    rows: Rows | ChunkedRows,
    runner: LocalRunner,
    batch_rows: int,
) -> State:
    """A state that has assigned all rows once, at one posterior, and owes nothing to a sample."""
    empty = State.empty(state.model, state.seed, len(posterior))
    fresh = replace(posterior, ids=empty.total.ids)
    return open_batches(empty, fresh, rows.blocks(batch_rows), runner).reordered().pruned()


def sampled(rows: Rows | ChunkedRows, size: int, seed: int, engine: Engine) -> Rows:
    """At most so many of the rows, chosen at random, in their order, brought here."""
    if len(rows) <= size:
        return rows.take(np.arange(len(rows)), engine)
    chosen = stream(seed, "subsample").choice(len(rows), size, replace=False)
    return rows.take(np.sort(chosen), engine)
