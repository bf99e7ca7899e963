"""Partition items into leaves, always dividing the leaf that gains most.

All items of a leaf become one clump, so they share their topics from then on. `Tying` computes the
cost of sharing under the present topics. The gain of a division is the part of it that is saved.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from everlearn.clumps.items import Items, clumped
from everlearn.clumps.kernels import (
    divide_sets,
    document_terms,
    median_sides,
    scatter_times,
    set_sums,
)
from everlearn.clumps.local import assigned
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.core.arrays import Cube, IntVec, Labels, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_full import FullGaussian

_POWER_STEPS = 4


def principal_axes(
    family: Family[Any],
    n: Vec,
    t: Mat,
    items: Items,
    sets: tuple[IntVec, Labels, Vec],
    count: int,
) -> Cube:
    """Slopes of linear functions of the features along the widest directions of each set.

    Shape (count, n_sets, n_stats). `n`, `t` are the statistics of the sets; `sets` are items
    sorted by set: starts, items, shares. Statistics of a full Gaussian contain the covariance.
    For other families, a few steps of subspace iteration over the items approximate it.
    """
    spread = family.covariances(family.posterior(n, t))
    place = location(family)
    count = min(count, family.n_features)
    if spread.ndim == 3:
        vectors = np.linalg.eigh(spread)[1][:, :, ::-1][:, :, :count].transpose(0, 2, 1)
    else:
        vectors = _widest(spread, count)
        centres = t[:, place] / np.maximum(n, 1e-300)[:, None]
        for _ in range(_POWER_STEPS):
            moved = np.zeros_like(vectors)
            scatter_times(*sets, items.features, place.start, items.mass, centres, vectors, moved)
            vectors = _orthonormal(moved, vectors)
    slopes = np.zeros((count, len(n), family.n_stats))
    slopes[:, :, place] = vectors.transpose(1, 0, 2)
    return slopes


def location(family: Family[Any]) -> slice:
    """The features that are the coordinates of a point."""
    first = family.n_stats - family.n_features if isinstance(family, FullGaussian) else 0
    return slice(first, first + family.n_features)


def _widest(spread: Mat, count: int) -> Cube:
    """Unit vectors along the coordinates of largest variance, shape (n_sets, count, d)."""
    order = np.argsort(-spread, axis=1, kind="stable")[:, :count]
    vectors = np.zeros((len(spread), count, spread.shape[1]))
    np.put_along_axis(vectors, order[:, :, None], 1.0, axis=2)
    return vectors


def _orthonormal(moved: Cube, before: Cube) -> Cube:
    """Orthonormal rows of `moved`, or of `before` for a set without spread."""
    flat = np.abs(moved).sum(axis=(1, 2)) == 0.0
    moved[flat] = before[flat]
    turned = np.linalg.qr(moved.transpose(0, 2, 1))[0]
    return np.ascontiguousarray(turned.transpose(0, 2, 1))


@dataclass(frozen=True, slots=True)
class Tying:
    """Contribution to the bound of items that must share their topics, at fixed topics."""

    items: Items
    eta: Mat
    bias: Mat

    @classmethod
    def of(cls, model: GroupedModel, topics: Topics, sizes: Vec, items: Items) -> Tying:
        """The contribution of these items at these topics."""
        return cls(items, *topics.score_parameters(model, sizes))

    def worth(self, sets: Labels, n_sets: int) -> Vec:
        """What each set adds to the bound as one clump. Items of the set -1 are left out."""
        clumps = clumped(self.items, sets, n_sets)
        return np.asarray(clumps.mass * assigned(self.eta, self.bias, clumps).log_norm)

    def contrast(self, sets: Labels, n_sets: int) -> tuple[Mat, Vec]:
        """Slope and offset of the function of features that divides each set between two topics.

        It is positive for items that prefer the set's best topic to its second-best more strongly
        than the mean item.
        """
        clumps = clumped(self.items, sets, n_sets)
        best = assigned(self.eta, self.bias, clumps).topics
        slope = self.eta[best[:, 0]] - self.eta[best[:, min(1, best.shape[1] - 1)]]
        return slope, -np.einsum("lp,lp->l", slope, clumps.features)


_REFINEMENTS = 2
_FORESIGHT = 0.1
"""Weight of the gain if the halves were topics of their own, relative to the gain under the present
topics. Future topics will have other borders, so leaves are divided even within one topic."""
_ROUND_SHARE = 0.5
"""At most this share of the leaves is divided in one round, as new leaves may gain more."""


@dataclass(frozen=True, slots=True)
class LeafFacts:
    """Statistics of each leaf, or of one half of each leaf.

    Attributes
    ----------
    n, t : (n_leaves,), (n_leaves, n_stats) points and feature sums
    size, clumps : (n_leaves,) items, and items of more than one point
    span : (n_leaves,) groups in which it has points
    alpha : (n_leaves,) its Dirichlet parameter if it were a topic
    term : (n_leaves,) what the mixtures of documents add to the bound if it were a topic
    tied : (n_leaves,) what it adds to the bound as one clump; zeros without `Tying`
    """

    n: Vec
    t: Mat
    size: Vec
    clumps: Vec
    span: Vec
    alpha: Vec
    term: Vec
    tied: Vec

    def __len__(self) -> int:
        return len(self.n)

    def at(self, where: NDArray[np.intp]) -> LeafFacts:
        """The statistics of some leaves."""
        return LeafFacts(*(getattr(self, f.name)[where] for f in fields(self)))

    def replaced(self, where: NDArray[np.intp], new: LeafFacts) -> LeafFacts:
        """These statistics, with those of some leaves replaced."""
        parts = []
        for f in fields(self):
            values = getattr(self, f.name).copy()
            values[where] = getattr(new, f.name)
            parts.append(values)
        return LeafFacts(*parts)

    def followed_by(self, other: LeafFacts) -> LeafFacts:
        """The statistics of these leaves, followed by those of the other ones."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return LeafFacts(*(np.concatenate(pair) for pair in pairs))


class Limit(Protocol):
    """How far a partition may be refined."""

    def costs(self, leaves: Leaves) -> Vec:
        """The cost of dividing each leaf."""

    def take(self, region: int, cost: float) -> bool:
        """Use room for a division in a region. Return False if there is not enough."""


@dataclass(slots=True)
class Leaves:
    """The leaves of a partition, and the best known division of each.

    Attributes
    ----------
    of : (n_items,) leaf of each item
    side : (n_items,) half of its leaf that an item goes to: 0 is the lower one, 1 the upper one
    region : (n_leaves,) the region a leaf lies in, such as a document; limits may count by region
    facts, lower, upper : statistics of the leaves and of their halves
    gain : (n_leaves,) of the division; NaN if not yet computed, -inf if there is none
    """

    of: Labels
    side: Labels
    region: IntVec
    facts: LeafFacts
    lower: LeafFacts
    upper: LeafFacts
    gain: Vec

    @classmethod
    def start(cls, items: Items, of: Labels, region: IntVec, alpha: Vec, sizes: Vec) -> Leaves:
        """The leaves `of` the items. Their divisions are not computed yet."""
        k = len(alpha)
        n, t = np.zeros(k), np.zeros((k, items.features.shape[1]))
        set_sums(of, items.features, items.mass, n, t)
        size = np.bincount(of, minlength=k).astype(np.float64)
        clumps = np.bincount(of, items.mass > 1.0, k).astype(np.float64)
        side = np.zeros(len(of), np.int32)
        both = np.repeat(alpha[:, None], 2, axis=1)
        span, term = _spans_and_terms(items, sorted_by(of, k), side, sizes, both)
        facts = LeafFacts(n, t, size, clumps, span[:, 0], alpha, term[:, 0], np.zeros(k))
        return cls(of.copy(), side, region, facts, facts, facts, _unknown(size))

    def __len__(self) -> int:
        return len(self.gain)

    def divide(self, where: NDArray[np.intp]) -> None:
        """Divide the leaves at `where`: the upper halves become new leaves at the end."""
        n_old = len(self)
        new = np.full(n_old, -1, np.int32)
        new[where] = n_old + np.arange(len(where), dtype=np.int32)
        target = new[self.of]
        moved = (target >= 0) & (self.side == 1)
        self.of[moved] = target[moved]
        upper = self.upper.at(where)
        self.facts = self.facts.replaced(where, self.lower.at(where)).followed_by(upper)
        self.lower, self.upper = self.lower.followed_by(upper), self.upper.followed_by(upper)
        self.region = np.concatenate([self.region, self.region[where]])
        self.gain[where] = _unknown(self.facts.size[where])
        self.gain = np.concatenate([self.gain, _unknown(upper.size)])


def _unknown(size: Vec) -> Vec:
    """The gain before a division is computed. A single item cannot be divided."""
    return np.where(size > 1, np.nan, -np.inf)


def sorted_by(of: Labels, n_leaves: int) -> tuple[IntVec, Labels]:
    """Items sorted by leaf: those of leaf l are members[starts[l] : starts[l + 1]]."""
    members = np.argsort(of, kind="stable").astype(np.int32)
    counts = np.bincount(of, minlength=n_leaves)
    return np.concatenate([[0], np.cumsum(counts)]), members


def _set_of(sets: tuple[IntVec, Labels], n_items: int) -> Labels:
    """The set that each item is in, -1 for none."""
    starts, members = sets
    of = np.full(n_items, -1, np.int32)
    of[members] = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    return of


def _spans_and_terms(
    items: Items, sets: tuple[IntVec, Labels], side: Labels, sizes: Vec, alpha: Mat
) -> tuple[Mat, Mat]:
    """`LeafFacts.span` and `term` of both halves of each set, of shape (n_sets, 2)."""
    spans, terms = np.empty(alpha.shape), np.empty(alpha.shape)
    document_terms(
        *sets, side, items.starts, items.groups, items.counts, sizes, alpha, spans, terms
    )
    return spans, terms


@dataclass(frozen=True, slots=True)
class Refiner:
    """Divides leaves until a limit is reached.

    Attributes
    ----------
    copies : how many times each point and document counts
    documents : whether the mixtures of documents count in the gain of a division
    tying : if given, the gain of a division is mainly the cost of sharing topics that it saves
    """

    model: GroupedModel
    items: Items
    sizes: Vec
    copies: float = 1.0
    documents: bool = True
    tying: Tying | None = None

    def refine(self, leaves: Leaves, limit: Limit) -> None:
        """Divide leaves in rounds, best first, until there is no room for more."""
        if self.tying is not None:
            leaves.facts = replace(leaves.facts, tied=self.tying.worth(leaves.of, len(leaves)))
        while True:
            self._find_divisions(leaves)
            where = _next_round(leaves, limit)
            if len(where) == 0:
                return
            leaves.divide(where)

    def _find_divisions(self, leaves: Leaves) -> None:
        """Compute the divisions of all leaves that have none yet."""
        unknown = np.isnan(leaves.gain)
        chosen = np.flatnonzero(unknown)
        if len(chosen) == 0:
            return
        inside = np.flatnonzero(unknown[leaves.of]).astype(np.int32)
        place = np.searchsorted(chosen, leaves.of[inside]).astype(np.int32)
        starts, order = sorted_by(place, len(chosen))
        sets = (starts, inside[order])
        whole = leaves.facts.at(chosen)
        n, t = self._halved(whole, sets, leaves.side)
        lower, upper = self._both_halves(whole, n, t, sets, leaves.side)
        if self.tying is not None:
            lower, upper = self._between_topics(self.tying, whole, lower, upper, sets, leaves.side)
        leaves.lower = leaves.lower.replaced(chosen, lower)
        leaves.upper = leaves.upper.replaced(chosen, upper)
        leaves.gain[chosen] = self._gains(whole, lower, upper)

    def _gains(self, whole: LeafFacts, lower: LeafFacts, upper: LeafFacts) -> Vec:
        """What the divisions add to the bound of the copies."""
        bounds = self.model.topic_bounds
        gain = bounds(upper.n, upper.t, self.copies) + bounds(lower.n, lower.t, self.copies)
        gain -= bounds(whole.n, whole.t, self.copies)
        if self.documents:
            gain += self.copies * (upper.term + lower.term - whole.term)
        if self.tying is None:
            return gain
        return _FORESIGHT * gain + self.copies * (upper.tied + lower.tied - whole.tied)

    def _between_topics(
        self,
        tying: Tying,
        whole: LeafFacts,
        lower: LeafFacts,
        upper: LeafFacts,
        sets: tuple[IntVec, Labels],
        side: Labels,
    ) -> tuple[LeafFacts, LeafFacts]:
        """Statistics of the better of two divisions, which is written to `side`.

        One is given by `lower` and `upper`, the other divides a leaf between its two best topics.
        The better one adds more to the bound as two clumps.
        """
        starts, members = sets
        lengths = np.diff(starts)
        slope, offset = tying.contrast(_set_of(sets, len(side)), len(whole))
        trial, n, t = side.copy(), np.empty_like(whole.n), np.empty_like(whole.t)
        divide_sets(*sets, self.items.features, self.items.mass, slope, offset, trial, n, t)
        real = (n > 0) & (n < whole.n)
        as_before = members[np.repeat(~real, lengths)]
        trial[as_before] = side[as_before]
        n, t = np.where(real, n, upper.n), np.where(real[:, None], t, upper.t)
        below, above = self._both_halves(whole, n, t, sets, trial)
        better = below.tied + above.tied > lower.tied + upper.tied
        taken = members[np.repeat(better, lengths)]
        side[taken] = trial[taken]
        where = np.flatnonzero(better)
        return lower.replaced(where, below.at(where)), upper.replaced(where, above.at(where))

    def _both_halves(
        self, whole: LeafFacts, n: Vec, t: Mat, sets: tuple[IntVec, Labels], side: Labels
    ) -> tuple[LeafFacts, LeafFacts]:
        """Statistics of both halves. `n`, `t` are points and feature sums of the upper ones."""
        starts, members = sets
        above = side[members] == 1
        size = np.add.reduceat(above.astype(np.float64), starts[:-1])
        many = above & (self.items.mass[members] > 1.0)
        clumps = np.add.reduceat(many.astype(np.float64), starts[:-1])
        share = n / whole.n
        alpha = whole.alpha[:, None] * np.stack([1.0 - share, share], axis=1)
        spans, terms = _spans_and_terms(self.items, sets, side, self.sizes, alpha)
        tied = self._tied(sets, side)
        upper = LeafFacts(n, t, size, clumps, spans[:, 1], alpha[:, 1], terms[:, 1], tied[:, 1])
        rest = (whole.n - n, whole.t - t, whole.size - size, whole.clumps - clumps)
        return LeafFacts(*rest, spans[:, 0], alpha[:, 0], terms[:, 0], tied[:, 0]), upper

    def _tied(self, sets: tuple[IntVec, Labels], side: Labels) -> Mat:
        """What both halves of each set add to the bound as clumps, (n_sets, 2)."""
        n_sets = len(sets[0]) - 1
        if self.tying is None:
            return np.zeros((n_sets, 2))
        of = _set_of(sets, len(side))
        halves = np.where(of < 0, np.int32(-1), 2 * of + side)
        return self.tying.worth(halves, 2 * n_sets).reshape(-1, 2)

    def _halved(
        self, whole: LeafFacts, sets: tuple[IntVec, Labels], side: Labels
    ) -> tuple[Vec, Mat]:
        """Divide each leaf by its points. Return points and feature sums of the upper halves.

        The first cut is at the mean along the widest direction. It then moves so that each item
        goes to the half that explains it better. Where a half would be empty, the cut is at the
        median. Sides are written to `side`.
        """
        starts, members = sets
        data = (starts, members, self.items.features, self.items.mass)
        every = (starts, members, np.ones(len(members)))
        axis = principal_axes(self.model.family, whole.n, whole.t, self.items, every, 1)[0]
        offset = -np.einsum("lp,lp->l", axis, whole.t / whole.n[:, None])
        n, t = np.empty(len(whole)), np.empty_like(whole.t)
        divide_sets(*data, axis, offset, side, n, t)
        halved = (n > 0) & (n < whole.n)
        for _ in range(_REFINEMENTS):
            trial, trial_n, trial_t = side.copy(), np.empty_like(n), np.empty_like(t)
            divide_sets(*data, *self._contrast(whole, n, t), trial, trial_n, trial_t)
            better = halved & (trial_n > 0) & (trial_n < whole.n)
            taken = members[np.repeat(better, np.diff(starts))]
            side[taken] = trial[taken]
            n, t = np.where(better, trial_n, n), np.where(better[:, None], trial_t, t)
        median_sides(np.flatnonzero(~halved), *data, axis, side, n, t)
        return n, t

    def _contrast(self, whole: LeafFacts, n: Vec, t: Mat) -> tuple[Mat, Vec]:
        """The function of features that is positive if the upper half explains a point better."""
        gamma = self.copies
        return self.model.contrast(
            gamma * n, gamma * t, gamma * (whole.n - n), gamma * (whole.t - t)
        )


def _next_round(leaves: Leaves, limit: Limit) -> NDArray[np.intp]:
    """The best divisions within the limit. A division that exceeds it is ruled out for good."""
    order = np.argsort(-leaves.gain, kind="stable")
    order = order[: int(np.isfinite(leaves.gain).sum())]
    most = max(1, int(_ROUND_SHARE * len(leaves)))
    costs, region = limit.costs(leaves).tolist(), leaves.region.tolist()
    taken: list[int] = []
    for leaf in order.tolist():
        if len(taken) == most:
            break
        if limit.take(region[leaf], costs[leaf]):
            taken.append(leaf)
        else:
            leaves.gain[leaf] = -np.inf
    return np.array(taken, np.intp)
