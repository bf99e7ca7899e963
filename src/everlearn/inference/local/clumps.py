"""The local step of a topic model over items: the few likely topics of each, and their sums."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.inference.clumped_topics import GroupedModel, Topics
from everlearn.inference.clumps import Items
from everlearn.inference.engine import Engine, pieces, runs
from everlearn.inference.kernels.clumps import best_topics, summarize

WIDTH = 8
"""Topics that an item may share at most."""
_BLOCK_SCORES = 125_000
_LEAST_ROWS, _MOST_ROWS = 64, 4096


@dataclass(frozen=True, slots=True)
class Assignment:
    """The likely topics of each item, likeliest first, and their shares, zeros behind.

    `log_norm` is the log normaliser of each item, per point.
    """

    topics: Labels
    shares: Mat
    log_norm: Vec

    def __getitem__(self, where: slice) -> Assignment:
        return Assignment(self.topics[where], self.shares[where], self.log_norm[where])

    def __setitem__(self, where: slice, part: Assignment) -> None:
        self.topics[where], self.shares[where] = part.topics, part.shares
        self.log_norm[where] = part.log_norm


@dataclass(frozen=True, slots=True)
class ClumpStep:
    """Assigns items to topics, in blocks that an engine may run side by side."""

    model: GroupedModel
    engine: Engine

    def assign(self, topics: Topics, sizes: Vec, items: Items) -> Assignment:
        """Optimal assignments, each among the best few topics, at fixed beliefs."""
        return assigned(*topics.beliefs(self.model, sizes), items, self.engine)

    def summarize(self, topics: Topics, items: Items, found: Assignment) -> Topics:
        """Statistics of all items under the assignment; ids and alpha stay."""
        n, t, counts, entropy = summed(items, found, topics.counts.shape)
        return replace(topics, n=n, t=t, counts=counts, entropy=entropy)

    def iterate(self, topics: Topics, sizes: Vec, items: Items) -> tuple[Topics, Assignment]:
        """One round of coordinate ascent: assignments, then topics, mixtures and alpha."""
        found = self.assign(topics, sizes, items)
        better = self.summarize(topics, items, found)
        return better.with_better_alpha(self.model, sizes), found


def assigned(eta: Mat, bias: Mat, items: Items, engine: Engine | None = None) -> Assignment:
    """Optimal assignments for natural parameters `eta` and a bias per group and topic."""
    n, k = len(items), len(eta)
    width = min(WIDTH, k)
    found = Assignment(np.empty((n, width), np.int32), np.empty((n, width)), np.empty(n))
    rows = int(np.clip(_BLOCK_SCORES // k, _LEAST_ROWS, _MOST_ROWS))
    if engine is None:
        for where in runs(n, rows):
            _assign((eta, bias), (items[where], found[where]))
        return found
    parts = engine.map(_assign, pieces(items, rows, found.__getitem__), (eta, bias))
    for where, part in zip((p.whole for p in pieces(items, rows)), parts, strict=True):
        found[where] = part
    return found


def summed(items: Items, found: Assignment, shape: tuple[int, ...]) -> tuple[Vec, Mat, Mat, float]:
    """Points and feature sums of topics, points of groups in topics, of this shape, and entropy."""
    n, t = np.zeros(shape[1]), np.zeros((shape[1], items.features.shape[1]))
    counts = np.zeros(shape)
    entropy = summarize(
        found.topics, found.shares, items.features, items.mass, items.starts, items.groups,
        items.counts, n, t, counts,
    )  # fmt: skip
    return n, t, counts, entropy


def _assign(shared: tuple[Mat, Mat], block: tuple[Items, Assignment]) -> Assignment:
    """The assignment of a block; it is written into the one given, which is room and no more."""
    (eta, bias), (items, found) = shared, block
    scores = np.ascontiguousarray(items.features @ eta.T)
    best_topics(
        scores,
        bias,
        items.starts,
        items.groups,
        items.counts,
        found.topics,
        found.shares,
        found.log_norm,
    )
    return found
