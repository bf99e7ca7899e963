"""A partition of items into leaves that is refined, leaf by leaf, where that gains most.

Every leaf is taken for a topic of its own with all its items in it. Its best division in two is
worked out once; rounds of the most useful divisions are then made, until a limit says that
there is no room for more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.inference.axes import principal_axes
from everlearn.inference.clumped_topics import GroupedModel
from everlearn.inference.clumps import Items
from everlearn.inference.kernels.partition import (
    divide_sets,
    document_terms,
    median_sides,
    set_sums,
)

_REFINEMENTS = 2
_TWO_SIDED = ("size", "clumps", "span", "alpha", "term")
_ROUND_SHARE = 0.5
"""Share of the leaves that are divided in one round at most: the others may meet better ones."""


class Limit(Protocol):
    """How far a partition may be refined."""

    def take(self, leaves: Leaves, leaf: int) -> bool:
        """Whether there is room for the division of a leaf, which is then used up."""


@dataclass(slots=True)
class Leaves:
    """The leaves of a partition, and the best division known of each.

    Attributes
    ----------
    of : (n_items,) leaf of each item
    region : (n_leaves,) what a leaf is a part of, for limits that count by regions
    side : (n_items,) side of each item in the division of its leaf
    n, t : (n_leaves,), (n_leaves, n_stats) points and feature sums
    size : (n_leaves,) items
    clumps : (n_leaves,) items of more than one point
    span : (n_leaves,) groups
    alpha : (n_leaves,) Dirichlet parameter, as a topic
    term : (n_leaves,) what documents say to the leaf as a topic
    half_n, half_t : the same of side 1
    half_size, half_clumps, half_span, half_alpha, half_term : of both sides, shape (n_leaves, 2)
    gain : (n_leaves,) of the division; NaN if it is not worked out, -inf if there is none
    """

    of: Labels
    region: IntVec
    side: Labels
    n: Vec
    t: Mat
    size: Vec
    clumps: Vec
    span: Vec
    alpha: Vec
    term: Vec
    half_n: Vec
    half_t: Mat
    half_size: Mat
    half_clumps: Mat
    half_span: Mat
    half_alpha: Mat
    half_term: Mat
    gain: Vec

    @classmethod
    def start(cls, items: Items, of: Labels, region: IntVec, alpha: Vec, sizes: Vec) -> Leaves:
        """Leaves as given, nothing known of their divisions."""
        n_leaves = len(alpha)
        n, t = np.zeros(n_leaves), np.zeros((n_leaves, items.features.shape[1]))
        set_sums(of, items.features, items.mass, n, t)
        size = np.bincount(of, minlength=n_leaves).astype(np.float64)
        clumps = np.bincount(of, items.mass > 1.0, n_leaves)
        side = np.zeros(len(of), np.int32)
        span, term = np.empty((n_leaves, 2)), np.empty((n_leaves, 2))
        both = np.repeat(alpha[:, None], 2, axis=1)
        document_terms(
            np.arange(n_leaves), *_members(of, n_leaves), side, items.starts, items.groups,
            items.counts, sizes, both, span, term,
        )  # fmt: skip
        wide = (n_leaves, 2)
        return cls(
            of.copy(), region, side, n, t, size, clumps, span[:, 0], alpha, term[:, 0],
            np.zeros(n_leaves), np.zeros_like(t), *(np.zeros(wide) for _ in range(5)),
            np.where(size > 1, np.nan, -np.inf),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.n)

    def divide(self, where: NDArray[np.intp]) -> None:
        """Make the known divisions of the leaves at `where`: side 1 becomes a new leaf."""
        n_old = len(self)
        new = np.full(n_old, -1, np.int32)
        new[where] = n_old + np.arange(len(where), dtype=np.int32)
        target = new[self.of]
        moved = (target >= 0) & (self.side == 1)
        self.of[moved] = target[moved]
        kept_n, kept_t = self.n[where] - self.half_n[where], self.t[where] - self.half_t[where]
        self._append("region", where, self.region[where], self.region[where])
        self._append("n", where, kept_n, self.half_n[where])
        self._append("t", where, kept_t, self.half_t[where])
        for name in _TWO_SIDED:
            half = getattr(self, f"half_{name}")[where]
            self._append(name, where, half[:, 0], half[:, 1])
        for name in ("n", "t", *_TWO_SIDED):
            zeros = np.zeros_like(getattr(self, f"half_{name}")[where])
            self._append(f"half_{name}", where, zeros, zeros)
        known = np.where(self.size[where] > 1, np.nan, -np.inf)
        new_known = np.where(self.size[n_old:] > 1, np.nan, -np.inf)
        self._append("gain", where, known, new_known)

    def _append(self, name: str, where: NDArray[np.intp], kept: Vec, added: Vec) -> None:
        values = getattr(self, name)
        values[where] = kept
        setattr(self, name, np.concatenate([values, added]))


def _members(of: Labels, n_leaves: int) -> tuple[IntVec, Labels]:
    """Items sorted by leaf."""
    order = np.argsort(of, kind="stable").astype(np.int32)
    counts = np.bincount(of, minlength=n_leaves)
    return np.concatenate([[0], np.cumsum(counts)]), order


@dataclass(frozen=True, slots=True)
class Refiner:
    """Works out divisions of leaves; every point and document counts `magnified` times.

    Without `documents` a division is judged by the points alone.
    """

    model: GroupedModel
    items: Items
    sizes: Vec
    magnified: float = 1.0
    documents: bool = True

    def refine(self, leaves: Leaves, limit: Limit) -> None:
        """Divide leaves in rounds, best first, until the limit admits no more."""
        while True:
            self._work_out(leaves)
            where = _next_round(leaves, limit)
            if len(where) == 0:
                return
            leaves.divide(where)

    def _work_out(self, leaves: Leaves) -> None:
        """Divisions of all leaves that have none yet: along the widest direction, then refined."""
        chosen = np.flatnonzero(np.isnan(leaves.gain))
        if len(chosen) == 0:
            return
        inside = np.flatnonzero(np.isnan(leaves.gain)[leaves.of]).astype(np.int32)
        starts, order = _members(_renumbered(leaves.of[inside], chosen), len(chosen))
        members = inside[order]
        n, t = leaves.n[chosen], leaves.t[chosen]
        half_n, half_t = self._sides(n, t, starts, members, leaves.side)
        leaves.half_n[chosen], leaves.half_t[chosen] = half_n, half_t
        upper = leaves.side[members] == 1
        many = self.items.mass[members] > 1.0
        for name, counted in (("size", upper), ("clumps", upper & many)):
            positive = np.add.reduceat(counted.astype(np.float64), starts[:-1])
            both = np.stack([getattr(leaves, name)[chosen] - positive, positive], axis=1)
            getattr(leaves, f"half_{name}")[chosen] = both
        share = half_n / n
        alpha = leaves.alpha[chosen, None] * np.stack([1.0 - share, share], axis=1)
        spans, terms = np.empty((len(chosen), 2)), np.empty((len(chosen), 2))
        document_terms(
            np.arange(len(chosen)), starts, members, leaves.side, self.items.starts,
            self.items.groups, self.items.counts, self.sizes, alpha, spans, terms,
        )  # fmt: skip
        leaves.half_alpha[chosen], leaves.half_span[chosen] = alpha, spans
        leaves.half_term[chosen] = terms
        bounds = self.model.topic_bounds
        gain = bounds(half_n, half_t, self.magnified)
        gain += bounds(n - half_n, t - half_t, self.magnified) - bounds(n, t, self.magnified)
        if self.documents:
            gain += self.magnified * (terms.sum(axis=1) - leaves.term[chosen])
        leaves.gain[chosen] = gain

    def _sides(
        self, n: Vec, t: Mat, starts: IntVec, members: Labels, side: Labels
    ) -> tuple[Vec, Mat]:
        """Write the side of each member; points and sums of side 1 of each set."""
        items = self.items
        family = self.model.family
        sets = (starts, members, np.ones(len(members)))
        axis = principal_axes(family, n, t, items, sets, 1)[0]
        offset = -np.einsum("lp,lp->l", axis, t / n[:, None])
        chosen = np.arange(len(n))
        half_n, half_t = np.empty(len(n)), np.empty_like(t)
        data = (starts, members, items.features, items.mass)
        divide_sets(chosen, *data, axis, offset, side, half_n, half_t)
        alive = (half_n > 0) & (half_n < n)
        for _ in range(_REFINEMENTS):
            slope, bend = self._contrast(n, t, half_n, half_t)
            trial, trial_n, trial_t = side.copy(), np.empty_like(half_n), np.empty_like(half_t)
            divide_sets(chosen, *data, slope, bend, trial, trial_n, trial_t)
            better = alive & (trial_n > 0) & (trial_n < n)
            taken = np.repeat(better, np.diff(starts))
            side[members[taken]] = trial[members[taken]]
            half_n = np.where(better, trial_n, half_n)
            half_t = np.where(better[:, None], trial_t, half_t)
        if not alive.all():
            rest = np.flatnonzero(~alive)
            rest_n, rest_t = np.empty(len(rest)), np.empty((len(rest), t.shape[1]))
            median_sides(rest, *data, axis[rest], side, rest_n, rest_t)
            half_n[rest], half_t[rest] = rest_n, rest_t
        return half_n, half_t

    def _contrast(self, n: Vec, t: Mat, half_n: Vec, half_t: Mat) -> tuple[Mat, Vec]:
        """The function of features that is positive where side 1 suits a point better."""
        family, gamma = self.model.family, self.magnified
        eta, constant = family.natural(family.posterior(gamma * half_n, gamma * half_t))
        rest = family.posterior(gamma * np.maximum(n - half_n, 0.0), gamma * (t - half_t))
        eta2, constant2 = family.natural(rest)
        return eta - eta2, constant - constant2


def _next_round(leaves: Leaves, limit: Limit) -> NDArray[np.intp]:
    """The best divisions that there is room for; those without room are given up for good."""
    order = np.argsort(-leaves.gain, kind="stable")
    order = order[: int(np.isfinite(leaves.gain).sum())]
    most = max(1, int(_ROUND_SHARE * len(leaves)))
    taken: list[int] = []
    for leaf in order.tolist():
        if len(taken) == most:
            break
        if limit.take(leaves, leaf):
            taken.append(leaf)
        else:
            leaves.gain[leaf] = -np.inf
    return np.array(taken, np.intp)


def _renumbered(of: Labels, chosen: NDArray[np.intp]) -> Labels:
    """Leaves by their position among the chosen ones, which are ascending."""
    return np.searchsorted(chosen, of).astype(np.int32)
