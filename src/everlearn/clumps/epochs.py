"""Learn one epoch: search for topics on all points, then compress the points to the limits.

The search splits and joins topics while that raises bound - price * n_topics. Its points are those
of the epoch and those of the past, most of which are clumps already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.clumps.compress import StorageRoom, first_clumps, kept_clumps
from everlearn.clumps.items import Items, clumped, joined
from everlearn.clumps.local import ClumpStep
from everlearn.clumps.search import TopicSearch
from everlearn.clumps.settings import ClumpSettings
from everlearn.clumps.state import ClumpedState, Epoch, Past, Seen
from everlearn.core.arrays import Labels
from everlearn.core.text import counted
from everlearn.engine.protocol import Engine
from everlearn.errors import MemoryBudgetError

_LAST_JOINS = 4
"""Rounds of joins after compression."""
_LARGE_DOCUMENT = 5000
"""Points per document above which topics are searched on first clumps."""
_PROMISING_SHARE = 0.5
"""After a search on first clumps, splits that gain this share of the price are tried again on the
points themselves."""


@dataclass(frozen=True, slots=True)
class EpochInfo:
    """What an epoch did: topics joined for lack of room, and nats lost by compression."""

    forced_joins: int
    compression_loss: float


@dataclass(frozen=True, slots=True)
class ClumpedLearner:
    """Learns epoch by epoch: takes a state, returns the next one, and keeps nothing."""

    engine: Engine
    settings: ClumpSettings

    def learn(self, state: ClumpedState, epoch: Epoch) -> tuple[ClumpedState, EpochInfo]:
        """The state after an epoch. The old state stays as it is."""
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
        return self._compressed(grown, seen, self._searched(grown, seen))

    def recompress(self, state: ClumpedState) -> tuple[ClumpedState, EpochInfo]:
        """The state compressed to the limits of the settings."""
        seen = Seen(state.past)
        search = self._search(state, seen.items(state.model))
        search.iterate(1)
        return self._compressed(state, seen, search)

    def _search(self, state: ClumpedState, items: Items) -> TopicSearch:
        step = ClumpStep(state.model, self.engine)
        topics = state.topics.with_groups(len(state.sizes))
        most = self.settings.options.max_topics
        return TopicSearch(step, state.price, most, state.sizes, items, topics, state.next_id)

    def _searched(self, state: ClumpedState, seen: Seen) -> TopicSearch:
        """The finished search, on all items. The last ones are the points of the epoch."""
        options, epoch = self.settings.options, seen.epoch
        items = seen.items(state.model)
        n_new = epoch.n_points
        large = n_new > _LARGE_DOCUMENT * epoch.n_documents
        if not (options.first_clumps and large):
            search = self._search(state, items)
            search.split_and_join()
            return search
        n_past = len(items) - n_new
        points = Items.points(items.features[n_past:], seen.groups)
        coarse = first_clumps(state.model, points, epoch.documents, options.first_clumps)
        del points
        search = self._search(state, joined([items[:n_past], coarse]))
        search.split_and_join()
        # Clumps blur small topics: give promising splits one more chance on the points.
        promising = search.promising_splits(_PROMISING_SHARE)
        search.replace_items(items)
        search.iterate(1)
        search.move(promising)
        search.iterate(options.raw_iterations)
        return search

    def _compressed(
        self, state: ClumpedState, seen: Seen, search: TopicSearch
    ) -> tuple[ClumpedState, EpochInfo]:
        """The state with the topics that the search found and with all points compressed."""
        before, limits = search.bound, self.settings.limits
        state = self._merge_groups(search, state, limits.groups_within(len(search.topics)))
        if limits.unlimited:
            past, forced = seen.kept(search.items), 0
            loss = before - search.bound
        else:
            room, state, forced = self._make_room(search, state)
            past = self._compressed_points(search, room, seen, state.n_points)
            loss = before - search.replace_by_clumps(past.items(state.model))
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

    def _merge_groups(self, search: TopicSearch, state: ClumpedState, most: float) -> ClumpedState:
        """Merge groups until at most `most` are left. Return the state with their ids."""
        if len(search.sizes) <= most:
            return state
        return state.regrouped(search.merge_groups(int(most), self.settings.options.group_merge))

    def _make_room(
        self, search: TopicSearch, state: ClumpedState
    ) -> tuple[StorageRoom, ClumpedState, int]:
        """The room for clumps, the state with the groups that are left, and topics joined for it.

        Every topic needs a leaf, a future clump, and these may take half of the bytes: the other
        half is for finer clumps. Topics are joined until that holds. The last topic may take all
        bytes, and groups are merged until it fits.
        """
        limits, family = self.settings.limits, state.model.family
        forced, prices = 0, limits.prices(family.n_stats, family.n_features)
        while True:
            k, n_groups = len(search.topics), len(search.sizes)
            free = limits.item_bytes(state.model, k, n_groups, state.n_tracked)
            room = StorageRoom(prices, free, limits.items_within(k))
            rest = room.charged(search.compressor().topic_leaves())
            fits = free > 0 and rest.free_bytes >= (0.5 * free if k > 1 else 0.0)
            if fits and rest.free_leaves >= 0:
                return room, state, forced
            if k == 1 and n_groups > 1:
                state = self._merge_groups(search, state, n_groups // 2)
            elif k == 1 or self.settings.on_budget == "error":
                raise self._too_little(search, state, "max_clumps" if fits else "memory_budget")
            else:
                forced += search.force_joins(max(1, k // 8))

    def _too_little(self, search: TopicSearch, state: ClumpedState, name: str) -> MemoryBudgetError:
        """The error that names the parameter, what it must hold, and what that would be."""
        k, d, limits = len(search.topics), state.model.family.n_features, self.settings.limits
        needed = "twice the clumps of its topics" if k > 1 else "a topic, its clump and a group"
        if state.n_tracked:
            needed += f" beside the groups of {counted(state.n_tracked, 'document')}"
        limit = f"{limits.max_bytes:,.0f} bytes"
        if name == "max_clumps":
            needed, limit = "a clump for each topic", f"{limits.items_within(k):,.0f} clumps"
        return MemoryBudgetError(
            f"the {name!r} of {self.settings.owner} must hold {needed}: {counted(k, 'topic')} of "
            f"{counted(d, 'feature')}, in {counted(len(search.sizes), 'group')}, "
            f"{'is' if k == 1 else 'are'} too much for {limit}"
        )

    def _compressed_points(
        self, search: TopicSearch, room: StorageRoom, seen: Seen, n_points: int
    ) -> Past:
        """All points as clumps and single points that fit into the room."""
        expected = max(self.settings.expected_points or 0.0, float(n_points))
        # More points will tell more topics apart, so compression plans for the points expected.
        leaves = search.last_compressor().compressed(room, expected / n_points)
        clump, n_clumps = kept_clumps(leaves, room.prices)
        single = np.flatnonzero(clump < 0)
        groups = search.items.groups[search.items.starts[single]]
        return Past(clumped(search.items, clump, n_clumps), seen.points(single), groups)


def _with_documents(state: ClumpedState, count: int) -> Labels | None:
    """`document_groups` with new documents, each of which is a new group."""
    if state.document_groups is None:
        return None
    own = len(state.sizes) + np.arange(count, dtype=np.int32)
    return np.concatenate([state.document_groups, own])
