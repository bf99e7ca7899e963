"""Join topics, and merge groups of documents.

For each topic, the candidates to join it are the few topics that would explain its points almost as
well. What a join adds to the bound is computed exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.clumps.items import Items
from everlearn.clumps.kernels import joint_entropy
from everlearn.clumps.local import Assignment
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.priors.learned_dirichlet import rising

CANDIDATES = 5
"""Partners that are tried for each topic."""
_ENTRIES = 60_000
"""Numbers computed together, to bound the work space."""


@dataclass(frozen=True, slots=True)
class JoinProposals:
    """Pairs first < second, the entropy that joining loses, and what it adds to the bound."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    entropy_loss: Vec
    gains: Vec


def propose_joins(
    model: GroupedModel, topics: Topics, sizes: Vec, items: Items, found: Assignment
) -> JoinProposals:
    """Joins of each topic with its best candidates, and their exact gains."""
    first, second = _candidates(model, topics)
    loss = _entropy_loss(first, second, topics, items, found)
    gains = _topic_gains(model, topics, first, second) - loss
    gains += _document_gains(topics, sizes, first, second)
    return JoinProposals(first, second, loss, gains)


def _candidates(model: GroupedModel, topics: Topics) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs j < k: each topic with those that would explain its points best."""
    k = len(topics)
    count = min(CANDIDATES, k - 1)
    if count == 0:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    eta, constant = model.family.natural(model.family.posterior(topics.n, topics.t))
    n = np.maximum(topics.n, 1e-10)
    places = topics.t / n[:, None]
    nearest = []
    step = max(1, _ENTRIES // k)
    for start in range(0, k, step):
        rows = np.arange(start, min(start + step, k))
        # The mean score of topic j's points under each topic i, next to that under itself.
        under = places[rows] @ eta.T + constant + np.log1p(n / n[rows, None])
        under[np.arange(len(rows)), rows] = -np.inf
        nearest.append(np.argpartition(-under, count - 1, axis=1)[:, :count].ravel())
    own, other = np.repeat(np.arange(k), count), np.concatenate(nearest)
    keys = np.unique(np.minimum(own, other) * k + np.maximum(own, other))
    return keys // k, keys % k


def _topic_gains(
    model: GroupedModel, topics: Topics, first: NDArray[np.intp], second: NDArray[np.intp]
) -> Vec:
    """What joins add to the bound through the points, without the entropy."""
    own, gains = model.topic_bounds(topics.n, topics.t), np.empty(len(first))
    step = max(1, _ENTRIES // topics.t.shape[1])
    for start in range(0, len(first), step):
        j, k = first[start : start + step], second[start : start + step]
        both = model.topic_bounds(topics.n[j] + topics.n[k], topics.t[j] + topics.t[k])
        gains[start : start + step] = both - own[j] - own[k]
    return gains


def _entropy_loss(
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    topics: Topics,
    items: Items,
    found: Assignment,
) -> Vec:
    loss = np.zeros(len(first))
    starts = np.searchsorted(first, np.arange(len(topics) + 1)).astype(np.int64)
    partners = second.astype(np.int32)
    joint_entropy(found.topics, found.shares, items.mass, starts, partners, loss)
    return loss


def _document_gains(
    topics: Topics, sizes: Vec, first: NDArray[np.intp], second: NDArray[np.intp]
) -> Vec:
    """What joins add to the bound through the mixtures of documents."""
    every = np.arange(len(topics))
    own, gains = np.empty(len(topics)), np.empty(len(first))
    step = max(1, _ENTRIES // max(1, len(sizes)))
    for start in range(0, len(topics), step):
        some = every[start : start + step]
        own[some] = _rising_sums(topics.alpha[some], _per_document(topics, sizes, some), sizes)
    for start in range(0, len(first), step):
        j, k = first[start : start + step], second[start : start + step]
        each = _per_document(topics, sizes, j) + _per_document(topics, sizes, k)
        alpha = topics.alpha[j] + topics.alpha[k]
        gains[start : start + step] = _rising_sums(alpha, each, sizes)
    return gains - own[first] - own[second]


def _per_document(topics: Topics, sizes: Vec, chosen: NDArray[np.intp]) -> Mat:
    """Points per document of some topics, shape (n_chosen, n_groups)."""
    return np.ascontiguousarray(topics.counts[:, chosen].T) / sizes


def _rising_sums(alpha: Vec, each: Mat, sizes: Vec) -> Vec:
    """Log rising factorials summed over documents. Zero counts add nothing."""
    out = np.zeros(each.shape)
    topic, group = np.nonzero(each)
    out[topic, group] = rising(alpha[topic], each[topic, group])
    return np.asarray(out @ sizes)


def apply_joins(topics: Topics, joins: JoinProposals, which: Sequence[int]) -> Topics:
    """The topics after the joins at `which`, which must not share a topic.

    The topic with more points keeps its id.
    """
    w = np.asarray(which, np.int64)
    swap = topics.n[joins.first[w]] < topics.n[joins.second[w]]
    keep = np.where(swap, joins.second[w], joins.first[w])
    drop = np.where(swap, joins.first[w], joins.second[w])
    n, t, counts, alpha = (
        topics.n.copy(),
        topics.t.copy(),
        topics.counts.copy(),
        topics.alpha.copy(),
    )
    n[keep] += n[drop]
    t[keep] += t[drop]
    counts[:, keep] += counts[:, drop]
    alpha[keep] += alpha[drop]
    stay = np.setdiff1d(np.arange(len(topics)), drop)
    entropy = topics.entropy - float(joins.entropy_loss[w].sum())
    return Topics(topics.ids, n, t, counts, alpha, entropy).select(stay)


NEAREST = 10
"""Criterion "free-energy": compare each group with this many, the nearest by cosine."""


def merge_groups(topics: Topics, sizes: Vec, most: int, criterion: str) -> IntVec:
    """Merge groups until at most `most` are left. Return the new position of each.

    Pairs are merged one by one. "cosine" takes the pair with the most similar expected mixtures,
    "free-energy" the pair whose merge lowers the bound least. Positions follow the order of first
    members.
    """
    merging = _Merging(topics.alpha, topics.counts.copy(), sizes.copy(), criterion)
    for _ in range(len(sizes) - most):
        merging.merge_best()
    return np.searchsorted(np.flatnonzero(merging.alive), merging.into)


class _Merging:
    """Groups while they are merged. Each remembers its best partner and the cost of merging."""

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
        """Merge the pair of least cost. The later group becomes part of the earlier one."""
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
        """Find the best partner of a group, and tell partners for which the group is better."""
        row = self.alike[group]
        count = min(1 if self.by_cosine else NEAREST, int(np.isfinite(row).sum()))
        if count == 0:
            self.price[group] = np.inf
            return
        near = np.argpartition(-row, count - 1)[:count]
        prices = -row[near]
        if not self.by_cosine:
            own = np.full(count, group)
            prices = merge_loss(self.alpha, self.counts, self.sizes, own, near)
        best = int(prices.argmin())
        self.partner[group], self.price[group] = near[best], prices[best]
        better = near[prices < self.price[near]]
        self.price[better] = prices[prices < self.price[near]]
        self.partner[better] = group


def _unit_mixtures(alpha: Vec, counts: Mat, sizes: Vec) -> Mat:
    """Expected mixtures of topics, scaled to length one."""
    zeta = alpha + counts / sizes[:, None]
    return np.asarray(zeta / np.linalg.norm(zeta, axis=1, keepdims=True))


def merge_loss(
    alpha: Vec, counts: Mat, sizes: Vec, first: NDArray[np.intp], second: NDArray[np.intp]
) -> Vec:
    """What merging pairs of groups costs the bound at fixed assignments. Never negative."""
    own = _group_terms(alpha, counts[first], sizes[first])
    other = _group_terms(alpha, counts[second], sizes[second])
    both = _group_terms(alpha, counts[first] + counts[second], sizes[first] + sizes[second])
    return own + other - both


def _group_terms(alpha: Vec, counts: Mat, sizes: Vec) -> Vec:
    """What the mixtures of each group's documents add to the bound."""
    each = counts / sizes[:, None]
    topics = rising(alpha, each).sum(axis=1)
    return np.asarray(sizes * (topics - rising(alpha.sum(), each.sum(axis=1))))
