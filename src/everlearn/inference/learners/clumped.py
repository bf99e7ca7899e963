"""A topic model that learns for life: epochs of model building and compression.

Topics are split and joined while that raises bound - price x topics; then all points, those of
the epoch and those of the past, are compressed into what may be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from everlearn.core.arrays import IntVec, Vec
from everlearn.core.errors import MemoryBudgetError
from everlearn.core.memory import release
from everlearn.inference.clumped_state import ClumpedState, Epoch, KeepLimits, Past, Seen
from everlearn.inference.clumped_topics import Topics
from everlearn.inference.clumps import Items, clumped, joined, regrouped
from everlearn.inference.engine import Engine
from everlearn.inference.first_clumps import first_clumps
from everlearn.inference.local.clumps import Assignment, ClumpStep
from everlearn.inference.moves.compress import Compressor, StorageRoom, kept_clumps
from everlearn.inference.moves.group_merge import merge_groups
from everlearn.inference.moves.topic_join import apply_joins, propose_joins
from everlearn.inference.moves.topic_split import apply_splits, propose_splits

_LEAST_GAIN = 0.02
"""A move must gain this share of the price beyond it, so that no two moves undo each other."""
_FIRST, _BETWEEN, _LAST = 6, 3, 10
"""Iterations before the first round of moves, after each, and after the last."""
_STALLS = 3
"""Rounds of moves in a row that fail to raise what they should before the search gives up."""
_LAST_JOINS = 4
_HOPE = 0.5
"""Share of the price that a division must gain on first clumps to be tried on points."""
_SAME, _QUITE_SAME = 0.1, 0.01
"""Shares of a topic's points within which it counts as unchanged: as a rule, and at the end."""


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How topics are searched for.

    first_clumps : clumps of a document on which the search works; 0 for its points
    large_document : points per document from which on first clumps are used
    raw_iterations : iterations on points after a search on first clumps
    max_topics : no splits beyond this many
    """

    first_clumps: int = 500
    large_document: int = 5000
    raw_iterations: int = 3
    max_topics: int = 10_000


@dataclass(frozen=True, slots=True)
class EpochInfo:
    """What an epoch did."""

    forced_joins: int
    compression_loss: float


@dataclass(slots=True)
class _Search:
    """Topics, items and their groups while an epoch is at work.

    `found` are the assignments that the beliefs `assigned_by` made, and `topics` their sums.
    `failed` has the points that topics had, by id, when they could not be split.
    """

    step: ClumpStep
    price: float
    max_topics: int
    sizes: Vec
    items: Items
    topics: Topics
    next_id: int
    found: Assignment | None = None
    assigned_by: Topics | None = None
    failed: dict[int, float] = field(default_factory=dict)

    @property
    def bound(self) -> float:
        return self.topics.bound(self.step.model, self.sizes)

    def iterate(self, most: int, least_gain: float = 0.0) -> None:
        """Coordinate ascent, until an iteration gains no more than `least_gain`."""
        before = -np.inf
        for _ in range(most):
            self.assigned_by, self.found = self.topics, None  # two assignments need not fit
            self.topics, self.found = self.step.iterate(self.topics, self.sizes, self.items)
            after = self.bound
            if after - before <= least_gain:
                return
            before = after

    @property
    def _objective(self) -> float:
        return self.bound - self.price * len(self.topics)

    def build(self) -> None:
        """Splits and joins, all that do not touch each other at a time, until none is left.

        Every move raises bound - price x topics, but for rounding, and for items that would need
        more topics than they may share: rounds that bring nothing, again and again, are the last.
        """
        self.iterate(_FIRST, 0.5 * self.price)
        best, kept, stalls = self._objective, self.topics, 0
        while stalls < _STALLS and (
            self.move(self._changed(_SAME)) or self.move(self._changed(_QUITE_SAME))
        ):
            self.iterate(_BETWEEN, 0.5 * self.price)
            stalls += 1
            if self._objective > best:
                best, kept, stalls = self._objective, self.topics, 0
        self.topics = kept
        self.iterate(_LAST, 0.5 * self.price)

    def join(self, rounds: int) -> None:
        """Joins alone, for a few rounds."""
        for _ in range(rounds):
            if not self.move(np.empty(0, np.int64)):
                return
            self.iterate(1)

    def _changed(self, share: float) -> IntVec:
        """Topics that have not failed to split since they had the points of now, up to a share."""
        known = np.array([self.failed.get(i, -np.inf) for i in self.topics.ids.tolist()])
        return np.flatnonzero(np.abs(self.topics.n - known) > share * self.topics.n)

    def move(self, divisible: IntVec) -> bool:
        """One round of joins and of splits of some topics; whether there were any."""
        assert self.found is not None
        model, engine = self.step.model, self.step.engine
        given = (self.topics, self.sizes, self.items, self.found)
        joins = propose_joins(model, *given)
        pairs = [*zip(joins.first.tolist(), joins.second.tolist(), strict=True)]
        room = self.max_topics - len(self.topics)
        least = max(_LEAST_GAIN * self.price, 1e-9 * abs(self.bound))
        tried = divisible if room > 0 else divisible[:0]
        splits = propose_splits(model, engine, *given, tried, self.price + least)
        net = np.concatenate([joins.gains + self.price, splits.gains - self.price])
        touched = [*pairs, *((k,) for k in splits.chosen.tolist())]
        chosen = _disjoint(net, touched, least)
        joined_pairs = [i for i in chosen if i < len(pairs)]
        divided = [i - len(pairs) for i in chosen if i >= len(pairs)][: max(room, 0)]
        self._note_failures(np.setdiff1d(tried, splits.chosen))
        if divided:
            self.topics = apply_splits(self.topics, splits, divided, self.next_id)
            self.next_id += len(divided)
        if joined_pairs:
            self.topics = apply_joins(self.topics, joins, joined_pairs)
        return bool(divided or joined_pairs)

    def hopeful(self, share: float) -> IntVec:
        """Topics whose division gains more than a share of the price, on the items of now."""
        assert self.found is not None
        given = (self.topics, self.sizes, self.items, self.found, np.arange(len(self.topics)))
        return propose_splits(self.step.model, self.step.engine, *given, share * self.price).chosen

    def _note_failures(self, hopeless: IntVec) -> None:
        ids, n = self.topics.ids[hopeless].tolist(), self.topics.n[hopeless].tolist()
        self.failed |= dict(zip(ids, n, strict=True))

    def force_joins(self, count: int) -> int:
        """Join the pairs of topics that lose least, up to `count` of them; how many were."""
        assert self.found is not None
        joins = propose_joins(self.step.model, self.topics, self.sizes, self.items, self.found)
        pairs = [*zip(joins.first.tolist(), joins.second.tolist(), strict=True)]
        gains = np.nan_to_num(joins.gains, nan=-1e300, neginf=-1e300)  # some pair is always joined
        chosen = _disjoint(gains, pairs, -np.inf)[:count]
        self.topics = apply_joins(self.topics, joins, chosen)
        self.iterate(1)
        return len(chosen)

    def tied_bound(self, items: Items) -> float:
        """The bound if the points were these clumps: same beliefs, same alpha, new assignments."""
        assert self.assigned_by is not None
        found = self.step.assign(self.assigned_by, self.sizes, items)
        return self.step.summarize(self.topics, items, found).bound(self.step.model, self.sizes)

    def merge_groups(self, most: int, criterion: str) -> IntVec:
        """Merge groups of documents until `most` are left; what each has become."""
        assert self.assigned_by is not None
        into = merge_groups(self.topics, self.sizes, most, criterion)
        self.topics = self.topics.regrouped(into)
        self.assigned_by = self.assigned_by.regrouped(into)
        self.sizes = np.bincount(into, self.sizes).astype(np.float64)
        self.items = regrouped(self.items, into)
        return into


def _disjoint(net: Vec, touched: Sequence[tuple[int, ...]], least: float) -> list[int]:
    """Moves of more than `least`, largest first, no two of which touch the same topic."""
    used: set[int] = set()
    chosen = []
    for i in np.argsort(-net, kind="stable").tolist():
        if not net[i] > least:
            break
        if used.isdisjoint(touched[i]):
            used.update(touched[i])
            chosen.append(i)
    return chosen


@dataclass(frozen=True, slots=True)
class ClumpedLearner:
    """Learns epoch by epoch."""

    engine: Engine
    settings: BuildSettings
    limits: KeepLimits
    expected_points: float | None = None
    group_merge: str = "cosine"
    on_budget: str = "merge"

    def learn(self, state: ClumpedState, epoch: Epoch) -> tuple[ClumpedState, EpochInfo]:
        """The state after an epoch; the old one stays as it is."""
        release()
        seen = Seen(state.past, epoch, epoch.documents + np.int32(len(state.sizes)))
        new_ids = state.n_documents + np.arange(epoch.n_documents)
        log_base = state.model.family.log_base
        grown = replace(
            state,
            sizes=np.concatenate([state.sizes, np.ones(epoch.n_documents)]),
            group_ids=np.concatenate([state.group_ids, new_ids]),
            base=state.base + sum(float(log_base(part).sum()) for part in epoch.parts),
            n_points=state.n_points + epoch.n_points,
            n_documents=state.n_documents + epoch.n_documents,
            n_epochs=state.n_epochs + 1,
        )
        return self._kept(grown, seen, self._built(grown, seen))

    def recompress(self, state: ClumpedState) -> tuple[ClumpedState, EpochInfo]:
        """The state within the present limits, if they have become narrower."""
        seen = Seen(state.past)
        search = self._search(state, seen.items(state.model))
        search.iterate(1)
        return self._kept(state, seen, search)

    def _search(self, state: ClumpedState, items: Items) -> _Search:
        step = ClumpStep(state.model, self.engine)
        most = self.settings.max_topics
        topics = state.topics.with_groups(len(state.sizes))
        return _Search(step, state.price, most, state.sizes, items, topics, state.next_id)

    def _built(self, state: ClumpedState, seen: Seen) -> _Search:
        """Topics after the search on all items, of which the epoch's points are the last."""
        settings, epoch = self.settings, seen.epoch
        items = seen.items(state.model)
        n_new = epoch.n_points
        large = n_new > settings.large_document * epoch.n_documents
        if not (settings.first_clumps and large):
            search = self._search(state, items)
            search.build()
            return search
        n_past = len(items) - n_new
        points = Items.points(items.features[n_past:], seen.groups)
        coarse = first_clumps(state.model, points, epoch.documents, settings.first_clumps)
        del points
        search = self._search(state, joined([items.first(n_past), coarse]))
        search.build()
        hopeful = search.hopeful(_HOPE)
        search.items, search.found, search.assigned_by = items, None, None
        release()
        search.iterate(1)
        search.move(hopeful)
        search.iterate(settings.raw_iterations)
        return search

    def _kept(
        self, state: ClumpedState, seen: Seen, search: _Search
    ) -> tuple[ClumpedState, EpochInfo]:
        """The state with everything seen, of which the search knows more, compressed."""
        release()
        before = search.bound
        ids = self._fewer_groups(search, state.group_ids)
        if self.limits.unlimited:
            past, forced = seen.kept(search.items), 0
            loss = before - search.bound
        else:
            room, forced = self._room(search)
            past = self._compressed(search, room, seen, state.n_points)
            search.items = past.items(state.model)
            loss = before - search.tied_bound(search.items)
            search.iterate(1)
            search.join(_LAST_JOINS)
        new = replace(
            state,
            topics=search.topics,
            past=past,
            sizes=search.sizes,
            group_ids=ids,
            next_id=search.next_id,
            compression_loss=state.compression_loss + loss,
        )
        return new, EpochInfo(forced, loss)

    def _fewer_groups(self, search: _Search, ids: IntVec) -> IntVec:
        """Merge groups if there are too many; ids of those that stay."""
        most = self.limits.groups_within(len(search.topics))
        if len(search.sizes) <= most:
            return ids
        into = search.merge_groups(int(most), self.group_merge)
        return ids[np.unique(into, return_index=True)[1]]

    def _room(self, search: _Search) -> tuple[StorageRoom, int]:
        """Room for clumps; topics are joined until their own leaves take half of it at most."""
        model, n_features = search.step.model, search.step.model.family.n_features
        prices = self.limits.prices(model.family.n_stats, n_features)
        forced = 0
        while True:
            k = len(search.topics)
            room = StorageRoom(
                prices,
                self.limits.item_bytes(model, k, len(search.sizes)),
                self.limits.items_within(k),
            )
            rest = room.charged(self._compressor(search).topic_leaves())
            fits = rest.free_bytes >= 0.5 * room.free_bytes and rest.free_leaves >= 0
            if fits and room.free_bytes > 0:
                return room, forced
            if k == 1 or self.on_budget == "error":
                raise MemoryBudgetError(
                    "the 'memory_budget' of ClumpedTopicModel must hold twice the clumps of its "
                    f"topics: {k} topics and {len(search.sizes)} groups of {n_features} features "
                    f"are too many for {self.limits.max_bytes:,.0f} bytes and "
                    f"{self.limits.items_within(k):,.0f} clumps"
                )
            forced += search.force_joins(max(1, k // 8))

    def _compressor(self, search: _Search) -> Compressor:
        assert search.found is not None
        return Compressor.of(
            search.step.model, search.topics, search.sizes, search.items, search.found
        )

    def _compressed(self, search: _Search, room: StorageRoom, seen: Seen, n_points: int) -> Past:
        """The items as clumps and single points that fit into the room."""
        expected = max(self.expected_points or 0.0, float(n_points))
        compressor = self._compressor(search)
        search.found = None  # of items that are about to go
        leaves = compressor.compressed(room, expected / n_points)
        clump, n_clumps = kept_clumps(leaves, room.prices)
        single = np.flatnonzero(clump < 0)
        groups = search.items.groups[search.items.starts[single]]
        return Past(clumped(search.items, clump, n_clumps), seen.points(single), groups)
