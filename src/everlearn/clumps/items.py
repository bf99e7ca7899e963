"""Items: points and clumps of points, in the form that learning takes.

A clump is represented by the mean of the family's features over its points, and by how many points
it has in which group of documents. A point is a clump of one, so learning needs no other case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.clumps.kernels import set_sums
from everlearn.core.arrays import IntVec, Labels, Mat, Vec

_POOLED_ITEMS = 65536
"""Items that are pooled at a time, to bound the work space."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Items:
    """Points or clumps.

    Attributes
    ----------
    features : (n_items, n_stats) mean of T(x) over the points of an item
    mass : (n_items,) number of points
    starts, groups, counts : for e from starts[c] to starts[c + 1] - 1, item c has counts[e] points
        in the group groups[e]
    """

    features: Mat
    mass: Vec
    starts: IntVec
    groups: Labels
    counts: Vec

    @classmethod
    def points(cls, features: Mat, groups: Labels) -> Items:
        """Single points, each in one group."""
        n = len(groups)
        return cls(np.ascontiguousarray(features), np.ones(n), np.arange(n + 1), groups, np.ones(n))

    def __len__(self) -> int:
        return len(self.mass)

    def __getitem__(self, where: slice) -> Items:
        starts = self.starts[where.start : where.stop + 1]
        inside = slice(int(starts[0]), int(starts[-1]))
        parts = (self.features[where], self.mass[where], starts - starts[0])
        return Items(*parts, self.groups[inside], self.counts[inside])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return sum(
            a.nbytes for a in (self.features, self.mass, self.starts, self.groups, self.counts)
        )


def joined(parts: Sequence[Items], features: Mat | None = None) -> Items:
    """All items of the parts, in order. Pass `features` if those of all exist in one array."""
    offsets = np.cumsum([0, *(len(p.groups) for p in parts)])
    starts = [p.starts[:-1] + offset for p, offset in zip(parts, offsets, strict=False)]
    return Items(
        np.concatenate([p.features for p in parts]) if features is None else features,
        np.concatenate([p.mass for p in parts]),
        np.concatenate([*starts, offsets[-1:]]),
        np.concatenate([p.groups for p in parts]),
        np.concatenate([p.counts for p in parts]),
    )


def clumped(items: Items, leaf: Labels, n_leaves: int) -> Items:
    """One clump for each leaf, of the items in it. Items of the leaf -1 are left out."""
    mass, sums = np.zeros(n_leaves), np.zeros((n_leaves, items.features.shape[1]))
    set_sums(leaf, items.features, items.mass, mass, sums)
    return Items(sums / mass[:, None], mass, *_pooled(items, leaf, items.groups, n_leaves))


def regrouped(items: Items, into: IntVec) -> Items:
    """The items after groups were merged: the group at position g is now at `into[g]`."""
    own = np.arange(len(items), dtype=np.int32)
    groups = into[items.groups].astype(np.int32)
    return Items(items.features, items.mass, *_pooled(items, own, groups, len(items)))


def _pooled(
    items: Items, leaf: Labels, groups: Labels, n_leaves: int
) -> tuple[IntVec, Labels, Vec]:
    """`starts`, `groups` and `counts` of the leaves' clumps. `groups` are those of the items."""
    n_groups = int(groups.max(initial=0)) + 1
    keys, counts = np.empty(0, np.int64), np.empty(0)
    for first in range(0, len(items), _POOLED_ITEMS):
        last = min(first + _POOLED_ITEMS, len(items))
        entries = slice(items.starts[first], items.starts[last])
        owner = np.repeat(leaf[first:last], np.diff(items.starts[first : last + 1]))
        inside = owner >= 0
        new = owner[inside].astype(np.int64) * n_groups + groups[entries][inside]
        keys, where = np.unique(np.concatenate([keys, new]), return_inverse=True)
        values = np.concatenate([counts, items.counts[entries][inside]])
        counts = np.bincount(where, values, len(keys)).astype(np.float64)
    starts = np.searchsorted(keys // n_groups, np.arange(n_leaves + 1))
    return starts, (keys % n_groups).astype(np.int32), counts
