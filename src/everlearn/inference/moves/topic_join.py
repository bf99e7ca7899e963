"""Joins: pairs of topics that may be one, and what the bound loses or gains by it.

Candidates are the topics whose points another topic would explain almost as well; for these the
gain is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Vec
from everlearn.core.priors.learned_dirichlet import rising
from everlearn.inference.clumped_topics import GroupedModel, Topics
from everlearn.inference.clumps import Items
from everlearn.inference.kernels.clumps import joint_entropy
from everlearn.inference.local.clumps import Assignment

CANDIDATES = 5
_ENTRIES = 60_000
"""Numbers of pairs of topics that are looked at together."""


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
    """Exact gains of joining each topic with its few likeliest partners."""
    first, second = _candidates(model, topics)
    loss = _entropy_loss(first, second, topics, items, found)
    gains = _topic_gains(model, topics, first, second) - loss
    gains += _document_gains(topics, sizes, first, second)
    return JoinProposals(first, second, loss, gains)


def _candidates(model: GroupedModel, topics: Topics) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs j < k: for each topic, those that would cost its points least to join."""
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
    """What the points of two topics gain by having one for both, but for their assignments."""
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
    """What documents gain when two topics are one."""
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
    """Log rising factorials, taken where counts are not zero, summed over documents."""
    out = np.zeros(each.shape)
    topic, group = np.nonzero(each)
    out[topic, group] = rising(alpha[topic], each[topic, group])
    return np.asarray(out @ sizes)


def apply_joins(topics: Topics, joins: JoinProposals, which: Sequence[int]) -> Topics:
    """Topics with the pairs at `which`, no two of which share a topic, joined.

    The one with more points keeps its id.
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
    return Topics(topics.ids, n, t, counts, alpha, entropy).at(stay)
