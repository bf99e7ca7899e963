"""What a model learns from and what it keeps: epochs, compressed points, and the state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from everlearn.clumps.items import Items, joined
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.core.arrays import IntVec, Labels, Mat, Vec

_FEATURE_ROWS = 4096
"""Rows whose features are computed together, to bound the work space."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Documents that are learned together: the points of each."""

    parts: Sequence[Mat]

    @property
    def n_documents(self) -> int:
        return len(self.parts)

    @property
    def n_points(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def documents(self) -> Labels:
        """The position of each point's document, ascending."""
        every = np.arange(self.n_documents, dtype=np.int32)
        return np.repeat(every, [len(part) for part in self.parts])


@dataclass(frozen=True, slots=True)
class Past:
    """All points seen: clumps, and single points with their group."""

    clumps: Items
    singles: Mat
    single_groups: Labels

    @classmethod
    def empty(cls, n_stats: int, n_features: int) -> Past:
        """No points."""
        none = Items.points(np.empty((0, n_stats)), np.empty(0, np.int32))
        return cls(none, np.empty((0, n_features)), np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.clumps) + len(self.singles)

    def items(self, model: GroupedModel) -> Items:
        """Clumps, then single points."""
        return Seen(self).items(model)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self.clumps.nbytes + self.singles.nbytes + self.single_groups.nbytes


@dataclass(frozen=True, slots=True)
class Seen:
    """The past and then an epoch, without a copy. `groups` are those of the epoch's points."""

    past: Past
    epoch: Epoch = Epoch(())
    groups: Labels = field(default_factory=lambda: np.empty(0, np.int32))

    @property
    def n_clumps(self) -> int:
        return len(self.past.clumps)

    def items(self, model: GroupedModel) -> Items:
        """Clumps, single points of the past, points of the epoch. One array holds all features."""
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
        """The points themselves of items at these ascending positions, none of which is a clump."""
        found, end = [], self.n_clumps
        for part in (self.past.singles, *self.epoch.parts):
            start, end = end, end + len(part)
            first, last = np.searchsorted(which, [start, end])
            found.append(part[which[first:last] - start])
        return np.concatenate(found)

    def kept(self, items: Items) -> Past:
        """All points without compression. `items` say which groups they are in by now."""
        now = items[: self.n_clumps]
        groups = {name: getattr(now, name).copy() for name in ("starts", "groups", "counts")}
        singles = np.concatenate([self.past.singles, *self.epoch.parts])
        own = items.groups[items.starts[self.n_clumps : -1]]
        return Past(replace(self.past.clumps, **groups), singles, own)


def _blocks(parts: Sequence[Mat]) -> Iterator[Mat]:
    """Blocks of rows, without copying."""
    for part in parts:
        for row in range(0, len(part), _FEATURE_ROWS):
            yield part[row : row + _FEATURE_ROWS]


@dataclass(frozen=True, slots=True)
class ClumpedState:
    """What a model has learned and needs to continue.

    Attributes
    ----------
    model : family with its prior, and prior of alpha
    price : nats of bound that a topic must earn
    topics : statistics of each topic
    past : all points seen, compressed
    sizes, group_ids : (n_groups,) documents of each group, and the number of its first document
    document_groups : (n_documents,) position of each document's group, or None if not tracked
    base : log base measure of all points seen
    n_points, n_documents, n_epochs : what was learned from
    next_id : id of the next new topic
    compression_loss : nats of bound lost by compression, summed over epochs
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
        """The state before the first epoch: one topic, no documents."""
        p = model.family.n_stats
        topics = Topics(
            np.zeros(1, np.int64), np.zeros(1), np.zeros((1, p)), np.zeros((0, 1)), np.ones(1), 0.0
        )
        past = Past.empty(p, model.family.n_features)
        return cls(model, price, topics, past, np.empty(0), np.empty(0, np.int64))

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence of all points, as clumps where they are compressed."""
        return self.topics.bound(self.model, self.sizes, self.base)

    def regrouped(self, into: IntVec) -> ClumpedState:
        """After groups were merged: the group at position g is now at `into[g]`."""
        documents = self.document_groups
        if documents is not None:
            documents = into[documents].astype(np.int32)
        ids = self.group_ids[np.unique(into, return_index=True)[1]]
        return replace(self, group_ids=ids, document_groups=documents)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(self.memory().values())

    def memory(self) -> dict[str, int]:
        """Bytes of all arrays, by what they are for."""
        groups = self.sizes.nbytes + self.group_ids.nbytes + self.topics.counts.nbytes
        return {
            "clumps": self.past.clumps.nbytes,
            "single points": self.past.singles.nbytes + self.past.single_groups.nbytes,
            "topics": self.topics.nbytes - self.topics.counts.nbytes,
            "groups": groups,
            "documents": 0 if self.document_groups is None else self.document_groups.nbytes,
            "prior": self.model.nbytes,
        }

    @property
    def n_tracked(self) -> int:
        """Documents whose group is remembered."""
        return 0 if self.document_groups is None else len(self.document_groups)
