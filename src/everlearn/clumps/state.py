"""What a lifelong topic model is given, and what it keeps, in how many bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from everlearn.clumps.compress import StoragePrices
from everlearn.clumps.items import Items, joined
from everlearn.clumps.model import GroupedModel, Topics, topics_bytes
from everlearn.core.arrays import IntVec, Labels, Mat, Vec

LEAST_ITEMS, ITEMS_PER_TOPIC = 4000, 2
"""Items that are kept if nothing is said of their number."""
USUAL_BYTES = 64e6
"""Of these there are more in proportion if so many bytes are exceeded."""
_FEATURE_ROWS = 4096
GROUP_BYTES = 16
"""Of a group, but for its counts: its id and its number of documents."""
TRACKED_BYTES = 4
"""Of a document of which it is known what group it is in."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Documents to learn from, the points of each by themselves."""

    parts: Sequence[Mat]

    @property
    def n_documents(self) -> int:
        return len(self.parts)

    @property
    def n_points(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def documents(self) -> Labels:
        """Position of each point's document, ascending."""
        every = np.arange(self.n_documents, dtype=np.int32)
        return np.repeat(every, [len(part) for part in self.parts])


@dataclass(frozen=True, slots=True)
class Past:
    """All points seen: clumps, and single points with the position of their group."""

    clumps: Items
    singles: Mat
    single_groups: Labels

    @classmethod
    def empty(cls, n_stats: int, n_features: int) -> Past:
        """Nothing seen."""
        none = Items.points(np.empty((0, n_stats)), np.empty(0, np.int32))
        return cls(none, np.empty((0, n_features)), np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.clumps) + len(self.singles)

    def items(self, model: GroupedModel) -> Items:
        """Clumps and single points, in this order, their features in one array."""
        return Seen(self).items(model)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self.clumps.nbytes + self.singles.nbytes + self.single_groups.nbytes


@dataclass(frozen=True, slots=True)
class Seen:
    """The past, and an epoch behind it whose points lie in these groups; nothing is copied."""

    past: Past
    epoch: Epoch = Epoch(())
    groups: Labels = field(default_factory=lambda: np.empty(0, np.int32))

    @property
    def n_clumps(self) -> int:
        return len(self.past.clumps)

    def items(self, model: GroupedModel) -> Items:
        """Clumps, single points and points of the epoch, their features in one array."""
        clumps, singles = self.past.clumps, (self.past.singles, *self.epoch.parts)
        end = len(clumps)
        features = np.empty((end + sum(map(len, singles)), model.family.n_stats))
        features[:end] = clumps.features
        for block in _blocks(singles):
            start, end = end, end + len(block)
            features[start:end] = model.family.features(block)
        groups = np.concatenate([self.past.single_groups, self.groups])
        points = Items.points(features[len(clumps) :], groups)
        return joined([clumps, points], features)

    def points(self, which: IntVec) -> Mat:
        """Single points by the position of their items, ascending."""
        found, end = [], self.n_clumps
        for part in (self.past.singles, *self.epoch.parts):
            start, end = end, end + len(part)
            first, last = np.searchsorted(which, [start, end])
            found.append(part[which[first:last] - start])
        return np.concatenate(found)

    def kept(self, items: Items) -> Past:
        """Everything as it is, in the groups that its items are in now."""
        now = items[: self.n_clumps]
        groups = {name: getattr(now, name).copy() for name in ("starts", "groups", "counts")}
        singles = np.concatenate([self.past.singles, *self.epoch.parts])
        own = items.groups[items.starts[self.n_clumps : -1]]
        return Past(replace(self.past.clumps, **groups), singles, own)


def _blocks(parts: Sequence[Mat]) -> Iterator[Mat]:
    """All rows, some of them at a time."""
    for part in parts:
        for row in range(0, len(part), _FEATURE_ROWS):
            yield part[row : row + _FEATURE_ROWS]


@dataclass(frozen=True, slots=True)
class ClumpedState:
    """Everything that learning needs to go on.

    Attributes
    ----------
    model : family with its prior, and prior of alpha
    price : nats that a topic must earn
    topics : beliefs
    past : all points seen
    sizes, group_ids : (n_groups,) documents in each group, and its permanent id
    document_groups : (n_documents,) position of each document's group, if that is wanted
    base : log base measure of all points seen
    n_points, n_documents, n_epochs, next_id : counters
    compression_loss : nats of bound that compressions have cost, summed over epochs
    """

    model: GroupedModel
    price: float
    topics: Topics
    past: Past
    sizes: Vec
    group_ids: IntVec
    document_groups: Labels | None = None
    base: float = 0.0
    n_points: int = 0
    n_documents: int = 0
    n_epochs: int = 0
    next_id: int = 1
    compression_loss: float = 0.0

    @classmethod
    def fresh(cls, model: GroupedModel, price: float) -> ClumpedState:
        """A model that has seen nothing: one topic and no documents."""
        p = model.family.n_stats
        topics = Topics(
            np.zeros(1, np.int64), np.zeros(1), np.zeros((1, p)), np.zeros((0, 1)), np.ones(1), 0.0
        )
        past = Past.empty(p, model.family.n_features)
        return cls(model, price, topics, past, np.empty(0), np.empty(0, np.int64))

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence of all points seen, as they are kept."""
        return self.topics.bound(self.model, self.sizes, self.base)

    def regrouped(self, into: IntVec) -> ClumpedState:
        """With the names of groups, and the groups of documents, that merged ones have."""
        documents = self.document_groups
        if documents is not None:
            documents = into[documents].astype(np.int32)
        ids = self.group_ids[np.unique(into, return_index=True)[1]]
        return replace(self, group_ids=ids, document_groups=documents)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that are kept."""
        return sum(self._bytes().values())

    def memory(self) -> dict[str, int]:
        """Bytes that are kept, by what they are for."""
        return {**self._bytes(), "total": self.nbytes}

    @property
    def n_tracked(self) -> int:
        """Documents of which it is known what group they are in."""
        return 0 if self.document_groups is None else len(self.document_groups)

    def _bytes(self) -> dict[str, int]:
        groups = self.sizes.nbytes + self.group_ids.nbytes + self.topics.counts.nbytes
        return {
            "clumps": self.past.clumps.nbytes,
            "single points": self.past.singles.nbytes + self.past.single_groups.nbytes,
            "topics": self.topics.nbytes - self.topics.counts.nbytes,
            "groups": groups,
            "documents": TRACKED_BYTES * self.n_tracked,
            "prior": self.model.nbytes,
        }


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """What may be kept: bytes in all, items (clumps and single points), and groups.

    `max_items` None grows with the topics.
    """

    max_bytes: float = np.inf
    max_items: float | None = np.inf
    max_groups: float = np.inf

    @property
    def unlimited(self) -> bool:
        """Whether every point may stay as it came."""
        return self.max_bytes == np.inf == self.max_items

    def met_by(self, state: ClumpedState, before: KeepLimits) -> bool:
        """Whether the state, kept within other limits before, is within these.

        Items that grow with the topics were as many as these were when they were compressed, and
        some of the topics have been joined since.
        """
        k = len(state.topics)
        grown = self.max_items is None is before.max_items
        return (
            state.memory()["total"] <= self.max_bytes
            and len(state.sizes) <= self.groups_within(k)
            and (
                len(state.past) <= self.items_within(k)
                or (grown and self._least_items >= before._least_items)
            )
        )

    def items_within(self, n_topics: int) -> float:
        """Clumps and single points that may be kept of so many topics."""
        if self.max_items is None:
            return max(self._least_items, float(ITEMS_PER_TOPIC * n_topics))
        return self.max_items

    @property
    def _least_items(self) -> float:
        """Items that grow with the topics are no fewer than these."""
        roomy = max(1.0, self.max_bytes / USUAL_BYTES) if self.max_bytes < np.inf else 1.0
        return roomy * LEAST_ITEMS // 1

    def groups_within(self, n_topics: int) -> float:
        """As many groups as are allowed, and as fit into a quarter of the bytes."""
        if np.isinf(self.max_bytes):
            return self.max_groups
        each = 8 * n_topics + GROUP_BYTES
        return max(1.0, min(self.max_groups, 0.25 * self.max_bytes // each))

    def item_bytes(
        self, model: GroupedModel, n_topics: int, n_groups: int, n_tracked: int = 0
    ) -> float:
        """Bytes left for clumps and single points."""
        beliefs = topics_bytes(n_topics, n_groups, model.family.n_stats)
        fixed = model.nbytes + beliefs + GROUP_BYTES * n_groups + TRACKED_BYTES * n_tracked
        return self.max_bytes - fixed - 8  # one more start than clumps

    def prices(self, n_stats: int, n_features: int) -> StoragePrices:
        """Points may stay single where that saves bytes, unless items are counted."""
        return StoragePrices.of(n_stats, n_features, singles=self.max_items == np.inf)
