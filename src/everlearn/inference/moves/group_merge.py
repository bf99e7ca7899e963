"""Documents that share one mixture of topics: groups are merged until there are few enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.priors.learned_dirichlet import rising
from everlearn.inference.clumped_topics import Topics

NEAREST = 10
"""Groups nearest in cosine among which the free energy decides."""


def merge_groups(topics: Topics, sizes: Vec, most: int, criterion: str) -> IntVec:
    """The group that each group becomes, numbered from 0 up in the order of their first members.

    Pairs are merged one after the other: with "cosine" those whose expected mixtures are most
    alike, with "free-energy" those whose merger costs the bound least.
    """
    merging = _Merging(topics.alpha, topics.counts.copy(), sizes.copy(), criterion)
    for _ in range(len(sizes) - most):
        merging.merge_best()
    return np.searchsorted(np.flatnonzero(merging.alive), merging.into)


class _Merging:
    """Groups while they are merged; every one remembers its best partner and the price of it."""

    def __init__(self, alpha: Vec, counts: Mat, sizes: Vec, criterion: str) -> None:
        self.alpha, self.counts, self.sizes = alpha, counts, sizes
        self.by_cosine = criterion == "cosine"
        n_groups = len(sizes)
        self.into = np.arange(n_groups)
        self.alive = np.ones(n_groups, bool)
        self.unit = _unit_mixtures(alpha, counts, sizes)
        self.alike = self.unit @ self.unit.T
        np.fill_diagonal(self.alike, -np.inf)
        self.partner = np.zeros(n_groups, np.intp)
        self.price = np.full(n_groups, np.inf)
        for group in range(n_groups):
            self._look_for_partner(group)

    def merge_best(self) -> None:
        """Merge the pair that costs least; the later group becomes a part of the earlier."""
        one = int(self.price.argmin())
        s, t = sorted((one, int(self.partner[one])))
        self.counts[s] += self.counts[t]
        self.sizes[s] += self.sizes[t]
        self.into[self.into == t] = s
        self.alive[t] = False
        here = slice(s, s + 1)
        self.unit[s] = _unit_mixtures(self.alpha, self.counts[here], self.sizes[here])[0]
        self.alike[s] = self.alike[:, s] = np.where(self.alive, self.unit @ self.unit[s], -np.inf)
        self.alike[t] = self.alike[:, t] = self.alike[s, s] = -np.inf
        self.price[t] = np.inf
        stale = self.alive & np.isin(self.partner, (s, t))
        stale[s] = self.alive.sum() > 1
        for group in np.flatnonzero(stale).tolist():
            self._look_for_partner(group)

    def _look_for_partner(self, group: int) -> None:
        """The best partner of a group, which also becomes that of those it is better for."""
        row = self.alike[group]
        count = min(1 if self.by_cosine else NEAREST, int(np.isfinite(row).sum()))
        if count == 0:
            self.price[group] = np.inf
            return
        near = np.argpartition(-row, count - 1)[:count]
        prices = -row[near] if self.by_cosine else self._losses(group, near)
        best = int(prices.argmin())
        self.partner[group], self.price[group] = near[best], prices[best]
        better = near[prices < self.price[near]]
        self.price[better] = prices[prices < self.price[near]]
        self.partner[better] = group

    def _losses(self, group: int, near: NDArray[np.intp]) -> Vec:
        own = np.full(len(near), group)
        return merge_loss(self.alpha, self.counts, self.sizes, own, near)


def _unit_mixtures(alpha: Vec, counts: Mat, sizes: Vec) -> Mat:
    """Expected mixtures of topics, scaled to length one."""
    zeta = alpha + counts / sizes[:, None]
    return np.asarray(zeta / np.linalg.norm(zeta, axis=1, keepdims=True))


def merge_loss(
    alpha: Vec, counts: Mat, sizes: Vec, first: NDArray[np.intp], second: NDArray[np.intp]
) -> Vec:
    """By how much merging pairs of groups lowers the bound at fixed assignments; never negative."""
    own = _group_terms(alpha, counts[first], sizes[first])
    other = _group_terms(alpha, counts[second], sizes[second])
    both = _group_terms(alpha, counts[first] + counts[second], sizes[first] + sizes[second])
    return own + other - both


def _group_terms(alpha: Vec, counts: Mat, sizes: Vec) -> Vec:
    """What the documents of each group contribute to the bound."""
    each = counts / sizes[:, None]
    topics = rising(alpha, each).sum(axis=1)
    return np.asarray(sizes * (topics - rising(alpha.sum(), each.sum(axis=1))))
