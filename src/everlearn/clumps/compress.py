"""Compress points: choose which items become one clump.

`first_clumps` cuts large documents into a few hundred clumps each, for a fast search of topics.
`Compressor` partitions all items into the clumps that are kept between calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.clumps.items import Items, clumped
from everlearn.clumps.local import Assignment
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.clumps.partition import LeafFacts, Leaves, Refiner, Tying
from everlearn.core.arrays import Labels, Vec


@dataclass(frozen=True, slots=True)
class LeafLimit:
    """A limit on the leaves of each document. `room` is how many more it may have."""

    room: Vec

    def costs(self, leaves: Leaves) -> Vec:
        return np.ones(len(leaves))

    def take(self, region: int, cost: float) -> bool:
        self.room[region] -= cost
        return bool(self.room[region] >= 0)


def first_clumps(model: GroupedModel, points: Items, documents: Labels, most: int) -> Items:
    """The points of each document as at most `most` clumps.

    `documents` are numbers from 0, one for each point, and each document is a group of its own.
    """
    n_documents = int(documents.max()) + 1
    sizes = np.ones(int(points.groups.max()) + 1)
    every = np.arange(n_documents)
    leaves = Leaves.start(points, documents, every, np.ones(n_documents), sizes)
    limit = LeafLimit(np.full(n_documents, most - 1.0))
    Refiner(model, points, sizes, documents=False).refine(leaves, limit)
    return clumped(points, leaves.of, len(leaves))


_SHARED = 0.1
"""Items with more than this share of a second topic are kept apart from the others."""
_APART = 0.5
"""Share of the room beyond one leaf per topic that goes to parts of topics."""
ENTRY_BYTES = 12
"""Bytes per group of a clump: position and count."""


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """Bytes of what is kept.

    Attributes
    ----------
    clump : bytes of a clump, without its groups
    single : bytes of a single point
    singles : whether to keep a leaf of several points as single points if that saves bytes
    """

    clump: int
    single: int
    singles: bool

    @classmethod
    def of(cls, n_stats: int, n_features: int, *, singles: bool) -> StoragePrices:
        """A clump has features, mass and start. A single point has coordinates and a group."""
        return cls(8 * (n_stats + 2), 8 * n_features + 4, singles)

    def as_singles(self, leaves: LeafFacts) -> NDArray[np.bool_]:
        """Which leaves are kept as single points."""
        cheap = leaves.size == 1
        if self.singles:
            cheap |= self.single * leaves.size <= self.clump + ENTRY_BYTES * leaves.span
        return np.asarray(cheap & (leaves.clumps == 0))

    def leaf(self, leaves: LeafFacts) -> Vec:
        """Bytes of each leaf."""
        clump = self.clump + ENTRY_BYTES * leaves.span
        return np.where(self.as_singles(leaves), self.single * leaves.size, clump)


@dataclass(slots=True)
class StorageRoom:
    """A limit on bytes and on the number of leaves."""

    prices: StoragePrices
    free_bytes: float
    free_leaves: float

    def costs(self, leaves: Leaves) -> Vec:
        halves = self.prices.leaf(leaves.upper) + self.prices.leaf(leaves.lower)
        return np.asarray(halves - self.prices.leaf(leaves.facts))

    def take(self, region: int, cost: float) -> bool:
        if cost > self.free_bytes or self.free_leaves < 1:
            return False
        self.free_bytes -= cost
        self.free_leaves -= 1
        return True

    def charged(self, leaves: Leaves) -> StorageRoom:
        """The room that is left beside these leaves."""
        used = self.prices.leaf(leaves.facts).sum()
        return StorageRoom(self.prices, self.free_bytes - used, self.free_leaves - len(leaves))


@dataclass(frozen=True, slots=True)
class Compressor:
    """Partitions items into leaves, each of which is then kept as a clump.

    `best` is the most likely topic of each item, `second` another one with a large share, or -1.
    """

    model: GroupedModel
    topics: Topics
    sizes: Vec
    items: Items
    best: Labels
    second: Labels

    @classmethod
    def of(
        cls, model: GroupedModel, topics: Topics, sizes: Vec, items: Items, found: Assignment
    ) -> Compressor:
        """For items under this assignment, which is not kept."""
        best, second = found.topics[:, 0].copy(), np.full(len(items), -1, np.int32)
        if found.topics.shape[1] > 1:
            np.copyto(second, found.topics[:, 1], where=found.shares[:, 1] > _SHARED)
        return cls(model, topics, sizes, items, best, second)

    def topic_leaves(self) -> Leaves:
        """The coarsest partition: one leaf per topic, of the items it is most likely for."""
        return self._leaves(self.best)

    def compressed(self, room: StorageRoom, copies: float) -> Leaves:
        """The finest partition that fits into the room. The coarsest one must fit."""
        leaves = self._starting_leaves(room)
        rest = room.charged(leaves)
        tying = Tying.of(self.model, self.topics, self.sizes, self.items)
        refiner = Refiner(self.model, self.items, self.sizes, copies, tying=tying)
        refiner.refine(leaves, rest)
        return leaves

    def _leaves(self, keys: NDArray[np.integer]) -> Leaves:
        """One leaf for each distinct key. Items with the same key must have the same best topic."""
        _, first, of = np.unique(keys, return_index=True, return_inverse=True)
        best = self.best[first]
        n = np.bincount(of, self.items.mass)
        alpha = self.topics.alpha[best] * n / np.bincount(best, n)[best]
        region = np.zeros(len(first), np.int64)
        return Leaves.start(self.items, of.astype(np.int32), region, alpha, self.sizes)

    def _starting_leaves(self, room: StorageRoom) -> Leaves:
        """One leaf per topic, and the heaviest parts of topics within half of the other room."""
        plain = self.topic_leaves()
        parts, which = np.unique(self._parts(), return_inverse=True)
        heaviest = np.argsort(-np.bincount(which, self.items.mass), kind="stable")
        half = room.charged(plain)
        count = int(min(len(parts), half.free_leaves * _APART))
        while count > 0:
            apart = np.zeros(len(parts), np.bool_)
            apart[heaviest[:count]] = True
            topics = -1 - self.best.astype(np.int64)
            leaves = self._leaves(np.where(apart[which], which, topics))
            if room.charged(leaves).free_bytes >= half.free_bytes * (1 - _APART):
                return leaves
            count //= 2
        return plain

    def _parts(self) -> NDArray[np.int64]:
        """A number per item, equal for items with the same best topic, second topic and group.

        Items of several groups count as items of one further group.
        """
        items, n_groups = self.items, len(self.sizes)
        group = items.groups[items.starts[:-1]].astype(np.int64)
        group[np.diff(items.starts) > 1] = n_groups
        parts = self.best.astype(np.int64) * (len(self.topics) + 1) + (self.second + 1)
        return parts * (n_groups + 1) + group


def kept_clumps(leaves: Leaves, prices: StoragePrices) -> tuple[Labels, int]:
    """The clump of each item, -1 for points that stay single, and the number of clumps."""
    singles = prices.as_singles(leaves.facts)
    numbers = np.where(singles, -1, np.cumsum(~singles) - 1)
    return numbers[leaves.of].astype(np.int32), int((~singles).sum())
