"""Documents that share one mixture of topics: groups are merged until there are few enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.clumped_topics import Topics

NEAREST = 10
"""Groups nearest in cosine among which the free energy decides."""


def merge_groups(topics: Topics, sizes: Vec, most: int, criterion: str) -> IntVec:
    """The group that each group becomes, numbered from 0 up in the order of their first members.

    Pairs are merged one after the other: with "cosine" those whose expected mixtures are most
    alike, with "free-energy" those whose merger costs the bound least.
    """
    counts, sizes = topics.counts.copy(), sizes.copy()
    n_groups = len(sizes)
    into = np.arange(n_groups)
    alive = np.ones(n_groups, bool)
    unit = _unit_mixtures(topics.alpha, counts, sizes)
    alike = unit @ unit.T
    np.fill_diagonal(alike, -np.inf)
    for _ in range(n_groups - most):
        s, t = _best_pair(alike, topics.alpha, counts, sizes, criterion)
        counts[s] += counts[t]
        sizes[s] += sizes[t]
        into[into == t] = s
        alive[t] = False
        unit[s] = _unit_mixtures(topics.alpha, counts[s : s + 1], sizes[s : s + 1])[0]
        alike[s] = alike[:, s] = np.where(alive, unit @ unit[s], -np.inf)
        alike[t] = alike[:, t] = alike[s, s] = -np.inf
    return np.searchsorted(np.flatnonzero(alive), into)


def _unit_mixtures(alpha: Vec, counts: Mat, sizes: Vec) -> Mat:
    """Expected mixtures of topics, scaled to length one."""
    zeta = alpha + counts / sizes[:, None]
    return np.asarray(zeta / np.linalg.norm(zeta, axis=1, keepdims=True))


def _best_pair(alike: Mat, alpha: Vec, counts: Mat, sizes: Vec, criterion: str) -> tuple[int, int]:
    """The two groups, lower one first, that are merged next."""
    if criterion == "cosine":
        s, t = divmod(int(alike.argmax()), len(alike))
        return min(s, t), max(s, t)
    count = min(NEAREST, len(alike) - 1)
    near = np.argpartition(-alike, count - 1, axis=1)[:, :count]
    own = np.repeat(np.arange(len(alike)), count)
    pairs = np.stack([np.minimum(own, near.ravel()), np.maximum(own, near.ravel())])
    pairs = pairs[:, np.isfinite(alike[pairs[0], pairs[1]])]
    losses = merge_loss(alpha, counts, sizes, pairs[0], pairs[1])
    best = int(losses.argmin())
    return int(pairs[0, best]), int(pairs[1, best])


def merge_loss(
    alpha: Vec, counts: Mat, sizes: Vec, first: NDArray[np.intp], second: NDArray[np.intp]
) -> Vec:
    """By how much merging pairs of groups lowers the bound at fixed assignments; never negative."""
    own = _document_terms(alpha, counts, sizes)
    both = _document_terms(alpha, counts[first] + counts[second], sizes[first] + sizes[second])
    return own[first] + own[second] - both


def _document_terms(alpha: Vec, counts: Mat, sizes: Vec) -> Vec:
    """What the documents of each group contribute to the bound."""
    each = counts / sizes[:, None]
    total = alpha.sum()
    topics = (gammaln(alpha + each) - gammaln(alpha)).sum(axis=1)
    return np.asarray(sizes * (topics + gammaln(total) - gammaln(total + each.sum(axis=1))))
