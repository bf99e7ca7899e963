"""Splits: divide topics in two, and compute what that adds to the bound.

Every topic is divided along its three widest directions in a few passes over its items. A division
shares out what each item gives to the topic, and leaves all other topics as they are. So its gain
is exact and needs the sums of this topic only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import psi

from everlearn.clumps.items import Items
from everlearn.clumps.kernels import by_topic, split_shares
from everlearn.clumps.local import Assignment
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.clumps.partition import principal_axes
from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.priors.learned_dirichlet import rising
from everlearn.engine.protocol import Engine

DIRECTIONS = 3
_REFINEMENTS = 5
_CHUNKS = 16
_COUNT_ENTRIES = 125_000
_LEAST_SHARE = 1e-9
"""A half with no more than this share of the topic's points is rounding error."""


@dataclass(frozen=True, slots=True)
class Halves:
    """First halves of divided topics: statistics, points per topic and group, entropy."""

    n: Vec
    t: Mat
    counts: Mat
    entropy: Vec

    def at(self, where: IntVec) -> Halves:
        """Of some topics only."""
        return Halves(self.n[where], self.t[where], self.counts[where], self.entropy[where])

    def take(self, other: Halves, where: NDArray[np.bool_]) -> Halves:
        """The other halves at `where`, these at all other positions."""
        wide = where[:, None]
        return Halves(
            np.where(where, other.n, self.n),
            np.where(wide, other.t, self.t),
            np.where(wide, other.counts, self.counts),
            np.where(where, other.entropy, self.entropy),
        )


@dataclass(frozen=True, slots=True)
class SplitProposals:
    """The best division found of each chosen topic, and what it adds to the bound."""

    chosen: IntVec
    halves: Halves
    gains: Vec

    @classmethod
    def joined(cls, parts: Sequence[SplitProposals]) -> SplitProposals:
        """All proposals of the parts."""
        halves = (
            np.concatenate([getattr(part.halves, f.name) for part in parts]) for f in fields(Halves)
        )
        chosen = np.concatenate([part.chosen for part in parts])
        return cls(chosen, Halves(*halves), np.concatenate([part.gains for part in parts]))


@dataclass(frozen=True, slots=True)
class Divider:
    """Divides several topics at a time. `members` are the items sorted by topic."""

    model: GroupedModel
    engine: Engine
    topics: Topics
    sizes: Vec
    items: Items
    members: tuple[IntVec, Labels, Vec]

    def divided(self, slope: Mat, offset: Vec, tilt: Mat, *, hard: bool) -> Halves:
        """First halves by the sign (`hard`) or the sigmoid of a linear function of each topic."""
        k, n_stats = slope.shape
        halves = Halves(np.empty(k), np.empty((k, n_stats)), np.empty(tilt.shape), np.empty(k))
        edges = np.unique(np.linspace(0, k, min(k, _CHUNKS) + 1).astype(np.int64))
        chunks = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        self.engine.local.map(_divide, chunks, (self, slope, offset, tilt, hard, halves))
        return halves

    def along(self, axis: Mat) -> Halves:
        """First halves above each topic's centre along an axis, then refined in a few passes."""
        topics = self.topics
        centres = topics.t / np.maximum(topics.n, 1e-300)[:, None]
        offset = -np.einsum("kp,kp->k", axis, centres)
        halves = self.divided(axis, offset, np.zeros(topics.counts.T.shape), hard=True)
        for _ in range(_REFINEMENTS):
            halves = self.divided(*self._contrast(halves), hard=False)
        return halves

    def best(self) -> tuple[Halves, Vec]:
        """For each topic the best division along one of its widest directions, and its gain."""
        n, t = self.topics.n, self.topics.t
        axes = principal_axes(self.model.family, n, t, self.items, self.members, DIRECTIONS)
        best = self.along(axes[0])
        gains = self.gains(best)
        for axis in axes[1:]:
            halves = self.along(axis)
            other = self.gains(halves)
            best, gains = best.take(halves, other > gains), np.maximum(gains, other)
        return best, gains

    def _alphas(self, halves: Halves) -> tuple[Vec, Vec]:
        """Alpha of both halves, in proportion to their points."""
        share = _share(halves.n, self.topics.n)
        return self.topics.alpha * share, self.topics.alpha * (1.0 - share)

    def _contrast(self, halves: Halves) -> tuple[Mat, Vec, Mat]:
        """Log-odds of the first half: slope and offset for the features, tilt for the groups."""
        topics = self.topics
        slope, offset = self.model.contrast(
            halves.n, halves.t, topics.n - halves.n, topics.t - halves.t
        )
        alpha, alpha2 = self._alphas(halves)
        topic, group = np.nonzero(topics.counts.T)
        first = halves.counts[topic, group] / self.sizes[group]
        second = topics.counts[group, topic] / self.sizes[group] - first
        tilt = np.zeros(halves.counts.shape)
        tilt[topic, group] = psi(alpha[topic] + first) - psi(
            alpha2[topic] + np.maximum(second, 0.0)
        )
        return slope, offset, tilt

    def gains(self, halves: Halves) -> Vec:
        """Exact gain of dividing each topic so. -inf where a half is empty."""
        topics, model = self.topics, self.model
        n2, t2 = np.maximum(topics.n - halves.n, 0.0), topics.t - halves.t
        gain = model.topic_bounds(halves.n, halves.t) + model.topic_bounds(n2, t2)
        gain += halves.entropy - model.topic_bounds(topics.n, topics.t)
        alpha, alpha2 = self._alphas(halves)
        topic, group = np.nonzero(topics.counts.T)
        whole = topics.counts[group, topic] / self.sizes[group]
        first = halves.counts[topic, group] / self.sizes[group]
        parts = (
            rising(alpha[topic], first)
            + rising(alpha2[topic], np.maximum(whole - first, 0.0))
            - rising(topics.alpha[topic], whole)
        )
        gain += np.bincount(topic, self.sizes[group] * parts, len(topics))
        empty = np.minimum(halves.n, n2) <= _LEAST_SHARE * topics.n
        return np.where(empty, -np.inf, gain)


def _share(part: Vec, whole: Vec) -> Vec:
    """Share of the topic's alpha that a half gets. Both get some, as alpha must be positive."""
    return np.clip(part / np.maximum(whole, 1e-300), 1e-12, 1.0 - 1e-12)


def _divide(shared: tuple[Divider, Mat, Vec, Mat, bool, Halves], chunk: tuple[int, int]) -> None:
    """Write the halves of a range of topics. Ranges do not overlap."""
    divider, slope, offset, tilt, hard, halves = shared
    items = divider.items
    starts, members, each = divider.members
    split_shares(
        *chunk, hard, starts, members, each, items.features, items.mass, items.starts, items.groups,
        items.counts, slope, offset, tilt, halves.n, halves.t, halves.counts, halves.entropy,
    )  # fmt: skip


def sorted_by_topic(found: Assignment, n_topics: int, chosen: IntVec) -> tuple[IntVec, Labels, Vec]:
    """The items of each chosen topic: starts, items, shares."""
    places = np.full(n_topics, -1, np.int32)
    places[chosen] = np.arange(len(chosen), dtype=np.int32)
    return by_topic(found.topics, found.shares, places, len(chosen))


def propose_splits(
    model: GroupedModel,
    engine: Engine,
    topics: Topics,
    sizes: Vec,
    items: Items,
    found: Assignment,
    chosen: IntVec,
    least_gain: float = -np.inf,
) -> SplitProposals:
    """Divisions of the chosen topics that gain more than `least_gain`.

    `topics` must be the statistics of the items under `found`. Topics are worked on in portions,
    so that the work space does not grow with their number.
    """
    step = max(_CHUNKS, _COUNT_ENTRIES // max(1, len(sizes)))
    parts = []
    for start in range(0, max(1, len(chosen)), step):
        some = chosen[start : start + step]
        members = sorted_by_topic(found, len(topics), some)
        divider = Divider(model, engine, topics.select(some), sizes, items, members)
        halves, gains = divider.best()
        good = np.flatnonzero(gains > least_gain)
        parts.append(SplitProposals(some[good], halves.at(good), gains[good]))
    return SplitProposals.joined(parts)


def apply_splits(
    topics: Topics, splits: SplitProposals, which: Sequence[int], next_id: int
) -> Topics:
    """The topics after the splits at `which`.

    The larger half keeps the id and the position, the other one is appended with a new id.
    """
    w = np.asarray(which, np.int64)
    k = splits.chosen[w]
    halves = splits.halves
    first = halves.n[w] >= 0.5 * topics.n[k]
    n1, t1, c1 = halves.n[w], halves.t[w], halves.counts[w]
    n2 = np.maximum(topics.n[k] - n1, 0.0)
    t2, c2 = topics.t[k] - t1, np.maximum(topics.counts[:, k].T - c1, 0.0)
    wide = first[:, None]
    share = _share(np.where(first, n1, n2), topics.n[k])
    n, t, alpha = topics.n.copy(), topics.t.copy(), topics.alpha.copy()
    n[k], t[k] = np.where(first, n1, n2), np.where(wide, t1, t2)
    counts = np.empty((len(topics.counts), len(topics) + len(k)))
    counts[:, : len(topics)] = topics.counts
    counts[:, k] = np.where(wide, c1, c2).T
    counts[:, len(topics) :] = np.where(wide, c2, c1).T
    alpha[k] *= share
    return replace(
        topics,
        ids=np.concatenate([topics.ids, next_id + np.arange(len(k))]),
        n=np.concatenate([n, np.where(first, n2, n1)]),
        t=np.concatenate([t, np.where(wide, t2, t1)]),
        counts=counts,
        alpha=np.concatenate([alpha, topics.alpha[k] * (1.0 - share)]),
        entropy=topics.entropy + float(halves.entropy[w].sum()),
    )
