"""A topic model that learns for life: epochs of model building and compression.

Topics are split and joined while that raises bound - price x topics; then all points, those of
the epoch and those of the past, are compressed into what may be kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.attic.core_memory import release
from everlearn.clumps.compress import StorageRoom, first_clumps, kept_clumps
from everlearn.clumps.items import Items, clumped, joined
from everlearn.clumps.local import ClumpStep
from everlearn.clumps.search import TopicPrice, TopicSearch
from everlearn.clumps.state import ClumpedState, Epoch, KeepLimits, Past, Seen
from everlearn.core.arrays import Labels
from everlearn.core.text import counted
from everlearn.engine.protocol import Engine
from everlearn.errors import MemoryBudgetError

_LAST_JOINS = 4
_HOPE = 0.5
"""Share of the price that a division must gain on first clumps to be tried on points."""


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How topics are searched for.

    first_clumps : clumps of a document on which the search works; 0 for its points
    large_document : points per document from which on first clumps are used
    raw_iterations : iterations on points after a search on first clumps
    max_topics : no splits beyond this many
    least_share : share of the bound that a split must gain, beside the price
    """

    first_clumps: int = 500
    large_document: int = 5000
    raw_iterations: int = 3
    max_topics: int = 10_000
    least_share: float = 0.0


@dataclass(frozen=True, slots=True)
class EpochInfo:
    """What an epoch did."""

    forced_joins: int
    compression_loss: float


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
            document_groups=_with_documents(state, epoch.n_documents),
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

    def _search(self, state: ClumpedState, items: Items) -> TopicSearch:
        step = ClumpStep(state.model, self.engine)
        topics = state.topics.with_groups(len(state.sizes))
        price = TopicPrice(state.price, self.settings.least_share, state.base)
        most = self.settings.max_topics
        return TopicSearch(step, price, most, state.sizes, items, topics, state.next_id)

    def _built(self, state: ClumpedState, seen: Seen) -> TopicSearch:
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
        search = self._search(state, joined([items[:n_past], coarse]))
        search.build()
        hopeful = search.hopeful(_HOPE)
        search.turn_to(items)
        search.iterate(1)
        search.move(hopeful)
        search.iterate(settings.raw_iterations)
        return search

    def _kept(
        self, state: ClumpedState, seen: Seen, search: TopicSearch
    ) -> tuple[ClumpedState, EpochInfo]:
        """The state with everything seen, of which the search knows more, compressed."""
        release()
        before = search.bound
        most = self.limits.groups_within(len(search.topics))
        state = self._fewer_groups(search, state, most)
        if self.limits.unlimited:
            past, forced = seen.kept(search.items), 0
            loss = before - search.bound
        else:
            room, state, forced = self._room(search, state)
            past = self._compressed(search, room, seen, state.n_points)
            loss = before - search.tie(past.items(state.model))
            search.iterate(1)
            search.join(_LAST_JOINS)
        new = replace(
            state,
            topics=search.topics,
            past=past,
            sizes=search.sizes,
            next_id=search.next_id,
            compression_loss=state.compression_loss + loss,
        )
        return new, EpochInfo(forced, loss)

    def _fewer_groups(self, search: TopicSearch, state: ClumpedState, most: float) -> ClumpedState:
        """Merge groups if there are more; the state with the names of those that stay."""
        if len(search.sizes) <= most:
            return state
        return state.regrouped(search.merge_groups(int(most), self.group_merge))

    def _room(
        self, search: TopicSearch, state: ClumpedState
    ) -> tuple[StorageRoom, ClumpedState, int]:
        """Room for clumps, the groups that are left, and how many topics had to be joined for it.

        Topics are joined until there is a leaf for each and these take half of the bytes at most;
        the single topic that is left in the end may take all, and groups make way for it.
        """
        forced, family = 0, state.model.family
        prices = self.limits.prices(family.n_stats, family.n_features)
        while True:
            k, n_groups = len(search.topics), len(search.sizes)
            free = self.limits.item_bytes(state.model, k, n_groups, state.n_tracked)
            room = StorageRoom(prices, free, self.limits.items_within(k))
            rest = room.charged(search.compressor().topic_leaves())
            fits = free > 0 and rest.free_bytes >= (0.5 * free if k > 1 else 0.0)
            if fits and rest.free_leaves >= 0:
                return room, state, forced
            if k == 1 and n_groups > 1:
                state = self._fewer_groups(search, state, n_groups // 2)
            elif k == 1 or self.on_budget == "error":
                raise self._too_little(search, state, "max_clumps" if fits else "memory_budget")
            else:
                forced += search.force_joins(max(1, k // 8))

    def _too_little(self, search: TopicSearch, state: ClumpedState, name: str) -> MemoryBudgetError:
        k, d = len(search.topics), state.model.family.n_features
        needed = "twice the clumps of its topics" if k > 1 else "a topic, its clump and a group"
        if state.n_tracked:
            needed += f" beside the groups of {counted(state.n_tracked, 'document')}"
        limit = f"{self.limits.max_bytes:,.0f} bytes"
        if name == "max_clumps":
            needed, limit = "a clump for each topic", f"{self.limits.items_within(k):,.0f} clumps"
        return MemoryBudgetError(
            f"the {name!r} of ClumpedTopicModel must hold {needed}: {counted(k, 'topic')} of "
            f"{counted(d, 'feature')}, in {counted(len(search.sizes), 'group')}, "
            f"{'is' if k == 1 else 'are'} too much for {limit}"
        )

    def _compressed(
        self, search: TopicSearch, room: StorageRoom, seen: Seen, n_points: int
    ) -> Past:
        """The items as clumps and single points that fit into the room."""
        expected = max(self.expected_points or 0.0, float(n_points))
        leaves = search.last_compressor().compressed(room, expected / n_points)
        clump, n_clumps = kept_clumps(leaves, room.prices)
        single = np.flatnonzero(clump < 0)
        groups = search.items.groups[search.items.starts[single]]
        return Past(clumped(search.items, clump, n_clumps), seen.points(single), groups)


def _with_documents(state: ClumpedState, count: int) -> Labels | None:
    """The groups of documents with so many more, each in a group of its own behind the others."""
    if state.document_groups is None:
        return None
    own = len(state.sizes) + np.arange(count, dtype=np.int32)
    return np.concatenate([state.document_groups, own])
