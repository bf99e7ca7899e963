"""What a lifelong topic model is given, and what it keeps, in how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.inference.clumped_topics import GroupedModel, Topics, topics_bytes
from everlearn.inference.clumps import Items, joined
from everlearn.inference.moves.compress import StoragePrices

LEAST_ITEMS, ITEMS_PER_TOPIC = 4000, 2
"""Items that are kept if nothing is said of their number."""
_FEATURE_ROWS = 4096
GROUP_BYTES = 16
"""Of a group, but for its counts: its id and its number of documents."""


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

    def followed_by(self, epoch: Epoch, groups: Labels) -> Past:
        """With the points of an epoch as single ones, which lie in these groups."""
        own = np.concatenate([self.single_groups, groups])
        return Past(self.clumps, np.concatenate([self.singles, *epoch.parts]), own)

    def regrouped(self, items: Items) -> Past:
        """The same, but for the groups that its items are in now."""
        n_clumps = len(self.clumps)
        now = items.first(n_clumps)
        groups = {name: getattr(now, name).copy() for name in ("starts", "groups", "counts")}
        clumps = replace(self.clumps, **groups)
        return Past(clumps, self.singles, items.groups[items.starts[n_clumps:-1]])

    def items(self, model: GroupedModel) -> Items:
        """Clumps and single points, in this order, their features in one array."""
        features = np.empty((len(self), model.family.n_stats))
        start = len(self.clumps)
        features[:start] = self.clumps.features
        for row in range(0, len(self.singles), _FEATURE_ROWS):
            block = self.singles[row : row + _FEATURE_ROWS]
            features[start + row : start + row + len(block)] = model.family.features(block)
        points = Items.points(features[start:], self.single_groups)
        return joined([self.clumps, points], features)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self.clumps.nbytes + self.singles.nbytes + self.single_groups.nbytes


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

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that are kept."""
        groups = self.sizes.nbytes + self.group_ids.nbytes
        return self.model.nbytes + self.topics.nbytes + self.past.nbytes + groups

    def memory(self) -> dict[str, int]:
        """Bytes that are kept, by what they are for."""
        groups = self.sizes.nbytes + self.group_ids.nbytes + self.topics.counts.nbytes
        return {
            "clumps": self.past.clumps.nbytes,
            "single points": self.past.singles.nbytes + self.past.single_groups.nbytes,
            "topics": self.topics.nbytes - self.topics.counts.nbytes,
            "groups": groups,
            "prior": self.model.nbytes,
            "total": self.nbytes,
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

    def met_by(self, state: ClumpedState) -> bool:
        """Whether the state keeps no more than these limits allow."""
        k = len(state.topics)
        return (
            state.memory()["total"] <= self.max_bytes
            and len(state.past) <= self.items_within(k)
            and len(state.sizes) <= self.groups_within(k)
        )

    def items_within(self, n_topics: int) -> float:
        """Clumps and single points that may be kept of so many topics."""
        if self.max_items is None:
            return float(max(LEAST_ITEMS, ITEMS_PER_TOPIC * n_topics))
        return self.max_items

    def groups_within(self, n_topics: int) -> float:
        """As many groups as are allowed, and as fit into a quarter of the bytes."""
        if np.isinf(self.max_bytes):
            return self.max_groups
        each = 8 * n_topics + GROUP_BYTES
        return max(1.0, min(self.max_groups, 0.25 * self.max_bytes // each))

    def item_bytes(self, model: GroupedModel, n_topics: int, n_groups: int) -> float:
        """Bytes left for clumps and single points."""
        beliefs = topics_bytes(n_topics, n_groups, model.family.n_stats)
        fixed = model.nbytes + beliefs + GROUP_BYTES * n_groups
        return self.max_bytes - fixed - 8  # one more start than clumps

    def prices(self, n_stats: int, n_features: int) -> StoragePrices:
        """Points may stay single where that saves bytes, unless items are counted."""
        return StoragePrices.of(n_stats, n_features, singles=self.max_items == np.inf)
