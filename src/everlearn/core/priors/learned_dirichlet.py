"""Topic mixtures of documents: a Dirichlet whose parameters are learned from all documents.

pi_j ~ Dir(alpha), alpha_k ~ Exponential(rate), with a point estimate of alpha. The documents of a
group share one posterior, that of their average document: for D documents with N_k points of topic
k it is Dir(alpha + N / D). Unused topics have alpha -> 0 and change nothing, so the number of
topics is not limited. Derivation: docs/math/clumps.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Vec

LEAST = 1e-10
"""The smallest alpha of a topic. It is as good as zero."""
_INNER_STEPS = 5
"""Fixed-point steps of one call."""
_SLACK = 1e-12
"""A relative fall of the bound by less is a rounding error."""


def rising(a: Vec, n: Vec) -> Vec:
    """Log of the rising factorial a (a + 1) ... (a + n - 1), for any n that is not negative."""
    return np.asarray(gammaln(a + n) - gammaln(a))


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Mean points of each topic in a document of each group, n_sk = N_sk / D_s, where not zero.

    Attributes
    ----------
    group, topic : (n_entries,) indices of the entries
    each : (n_entries,) their values n_sk
    sizes : (n_groups,) documents in each group
    lengths : (n_groups,) points per document of each group
    n_topics : number of topics
    """

    group: NDArray[np.intp]
    topic: NDArray[np.intp]
    each: Vec
    sizes: Vec
    lengths: Vec
    n_topics: int

    @classmethod
    def of(cls, counts: Mat, sizes: Vec) -> GroupCounts:
        """From points per group and topic, shape (n_groups, n_topics)."""
        group, topic = np.nonzero(counts)
        each = counts[group, topic] / sizes[group]
        return cls(group, topic, each, sizes, counts.sum(axis=1) / sizes, counts.shape[1])


@dataclass(frozen=True, slots=True)
class LearnedDirichlet:
    """The prior; `rate` is that of the exponential prior of each alpha."""

    rate: float = 0.5

    def bound(self, alpha: Vec, counts: GroupCounts, copies: float = 1.0) -> float:
        """The terms of the bound for alpha and for the documents, each counted `copies` times."""
        total = alpha.sum()
        used = counts.sizes[counts.group] @ rising(alpha[counts.topic], counts.each)
        documents = used - counts.sizes @ rising(total, counts.lengths)
        return float(copies * documents - self.rate * total)

    def improved(self, alpha: Vec, counts: GroupCounts, copies: float = 1.0) -> Vec:
        """Alpha after a few steps that raise the bound, or leave it as it is."""
        quick = self._steps(alpha, counts, copies, safe=False)
        before = self.bound(alpha, counts, copies)
        if self.bound(quick, counts, copies) >= before - _SLACK * abs(before):
            return quick
        return self._steps(alpha, counts, copies, safe=True)

    def _steps(self, alpha: Vec, counts: GroupCounts, copies: float, *, safe: bool) -> Vec:
        """Minka's fixed point; `safe` is the slower form that is proved for counts below one."""
        weight = copies * counts.sizes[counts.group]
        for _ in range(_INNER_STEPS):
            total = alpha.sum()
            a = alpha[counts.topic]
            pull = a * (psi(a + counts.each) - psi(a))
            common = copies * counts.sizes @ (psi(total + counts.lengths) - psi(total))
            down = np.full(counts.n_topics, self.rate + common)
            if safe:
                small = np.where(counts.each < 1.0, 1.0 / (a + counts.each), 0.0)
                pull = pull + a * small
                down += np.bincount(counts.topic, weight * small, counts.n_topics)
            up = np.bincount(counts.topic, weight * pull, counts.n_topics)
            alpha = np.maximum(up / down, LEAST)
        return alpha

    def expected_log(self, alpha: Vec, counts: Mat, sizes: Vec) -> Mat:
        """psi(alpha_k + n_sk), shape (n_groups, n_topics): E[log pi_sk] up to a constant a group.

        psi is computed at non-zero counts only, because a document has few topics.
        """
        entries = GroupCounts.of(counts, sizes)
        out = np.tile(psi(alpha), (len(sizes), 1))
        out[entries.group, entries.topic] = psi(alpha[entries.topic] + entries.each)
        return out
