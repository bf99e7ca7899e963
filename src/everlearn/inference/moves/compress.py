"""Compression: the items of an epoch become as many clumps and single points as there is room for.

Leaves start as the topics, items shared by two topics apart from the others, and are refined where
the bound of a whole life, `magnified` times what was seen, gains most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Labels, Vec
from everlearn.inference.clumped_topics import GroupedModel, Topics
from everlearn.inference.clumps import Items
from everlearn.inference.local.clumps import Assignment
from everlearn.inference.partition import LeafFacts, Leaves, Refiner

_SHARED = 0.1
"""Share of a second topic from which on items that have it are kept apart."""
ENTRY_BYTES = 12
"""Of the points that a clump has in one group: its position and a count."""


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """Bytes that are kept: of a clump, but for its groups, and of a single point.

    With `singles` a leaf of few points is kept as these points where that takes fewer bytes.
    """

    clump: int
    single: int
    singles: bool

    @classmethod
    def of(cls, n_stats: int, n_features: int, *, singles: bool) -> StoragePrices:
        """For a family: feature sums, mass and start of a clump; a point and its group."""
        return cls(8 * (n_stats + 2), 8 * n_features + 4, singles)

    def as_singles(self, leaves: LeafFacts) -> NDArray[np.bool_]:
        """Which leaves are kept as points."""
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
    """Bytes and leaves that are left to use."""

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
        """What is left with these leaves."""
        used = self.prices.leaf(leaves.facts).sum()
        return StorageRoom(self.prices, self.free_bytes - used, self.free_leaves - len(leaves))


@dataclass(frozen=True, slots=True)
class Compressor:
    """Finds the leaves that are kept, given the topics of all items."""

    model: GroupedModel
    topics: Topics
    sizes: Vec
    items: Items
    found: Assignment

    def topic_leaves(self) -> Leaves:
        """One leaf for each topic that is the likeliest of some item."""
        return self._leaves(self.found.topics[:, 0].astype(np.int64))

    def compressed(self, room: StorageRoom, magnified: float) -> Leaves:
        """Leaves that fit into the room, which has to hold the topics' own."""
        leaves = self._starting_leaves(room)
        rest = room.charged(leaves)
        Refiner(self.model, self.items, self.sizes, magnified).refine(leaves, rest)
        return leaves

    def _leaves(self, keys: NDArray[np.int64]) -> Leaves:
        """One leaf for each distinct key; all items of a key have the same likeliest topic."""
        _, first, of = np.unique(keys, return_index=True, return_inverse=True)
        best = self.found.topics[first, 0]
        n = np.bincount(of, self.items.mass)
        alpha = self.topics.alpha[best] * n / np.bincount(best, n)[best]
        region = np.zeros(len(first), np.int64)
        return Leaves.start(self.items, of.astype(np.int32), region, alpha, self.sizes)

    def _starting_leaves(self, room: StorageRoom) -> Leaves:
        """Topics, and the heaviest pairs of likeliest topics within half of what they leave."""
        plain = self.topic_leaves()
        if self.found.topics.shape[1] == 1:
            return plain
        best = self.found.topics[:, 0].astype(np.int64)
        shared = self.found.shares[:, 1] > _SHARED
        pair = (best + 1) * (len(self.topics) + 1) + self.found.topics[:, 1]
        keys, which = np.unique(pair[shared], return_inverse=True)
        heaviest = np.argsort(-np.bincount(which, self.items.mass[shared]), kind="stable")
        half = room.charged(plain)
        count = int(min(len(keys), half.free_leaves // 2))
        while count > 0:
            apart = shared & np.isin(pair, keys[heaviest[:count]])
            leaves = self._leaves(np.where(apart, pair, best))
            if room.charged(leaves).free_bytes >= half.free_bytes / 2:
                return leaves
            count //= 2
        return plain


def kept_clumps(leaves: Leaves, prices: StoragePrices) -> tuple[Labels, int]:
    """The clump that each item goes to, -1 for points that stay single, and how many there are."""
    singles = prices.as_singles(leaves.facts)
    numbers = np.where(singles, -1, np.cumsum(~singles) - 1)
    return numbers[leaves.of].astype(np.int32), int((~singles).sum())
