"""The model: a tree of topics, its priors, and the log-probability of what was learned.

Topics have Dirichlet priors over words, paths a nested Chinese restaurant process, and the levels
of a document's words a Dirichlet prior. Counts and masses may be fractions. Equations:
docs/math/topic_tree.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, polygamma, psi

from everlearn.core.arrays import Mat, Vec
from everlearn.core.priors.learned_dirichlet import GroupCounts, LearnedDirichlet
from everlearn.core.priors.nested import NestedPrior
from everlearn.core.tree import Tree

LEAST_LEVEL = 1e-2
"""Smallest parameter of a learned level prior. Such a level gets next to no tokens."""
LEAST_PRIOR = 0.1
"""The word prior grows from here while topics form, unless it is smaller itself."""
_LEVEL_STEPS = 20


@dataclass(frozen=True, slots=True)
class TreeRules:
    """Prior and limits of a tree of topics.

    Attributes
    ----------
    depth : levels of a path
    paths : prior of paths
    word_prior : Dirichlet parameter of a topic for each word
    max_nodes : most nodes
    learn_levels : whether the prior of levels is learned
    """

    depth: int
    paths: NestedPrior
    word_prior: float
    max_nodes: int
    learn_levels: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class TreeTopics:
    """Statistics of a tree of topics.

    Attributes
    ----------
    tree : the nodes
    counts : (n_words, n_nodes) tokens of each word at each node
    slots : (n_nodes,) documents in the slot of each node: on the path that ends there or, above
        the last level, on paths that leave the tree there
    alpha : (depth,) Dirichlet parameters of a document's levels
    next_id : the id of the next node that is born
    """

    tree: Tree
    counts: Mat
    slots: Vec
    alpha: Vec
    next_id: int

    @classmethod
    def empty(cls, n_words: int, alpha: Vec) -> TreeTopics:
        """A root without documents."""
        return cls(Tree.root(len(alpha)), np.zeros((n_words, 1)), np.zeros(1), alpha, 1)

    @property
    def n_words(self) -> int:
        """Words of the vocabulary."""
        return len(self.counts)

    @property
    def mass(self) -> Vec:
        """Documents whose path passes each node, (n_nodes,)."""
        return self.tree.through(self.slots)

    def with_words(self, n_words: int) -> TreeTopics:
        """The same tree, with topics over a larger vocabulary."""
        new = np.zeros((n_words - self.n_words, len(self.tree)))
        return self if not len(new) else replace(self, counts=np.concatenate([self.counts, new]))

    def arranged(self, tree: Tree) -> TreeTopics:
        """The statistics of the nodes of `tree`, which are some of these, in any order."""
        at = self.tree.at(tree.ids)
        counts = np.take(self.counts, at, axis=1)
        return replace(self, tree=tree, counts=counts, slots=self.slots[at])

    def topics(self, word_prior: float) -> Mat:
        """Expected word probabilities of each node, (n_words, n_nodes)."""
        smoothed = self.counts + word_prior
        return np.asarray(smoothed / smoothed.sum(axis=0))


def growing_prior(word_prior: float, progress: float) -> float:
    """The word prior while topics form: it grows with progress, and is full at 1.

    A new topic competes with n_words * word_prior pseudo-counts, more than a few documents bring.
    Under the full prior, new topics would hardly ever begin.
    """
    return max(min(1.0, progress) * word_prior, min(LEAST_PRIOR, word_prior))


def topic_evidence(counts: Mat, word_prior: float) -> Vec:
    """Log-probability of the words of each node with its topic integrated out, (n_nodes,).

    With expected counts this is what a topic at its optimum contributes to the bound.
    """
    totals, width = counts.sum(axis=0), len(counts)
    used = np.flatnonzero(counts.ravel() > 0.0)
    gains = gammaln(counts.ravel()[used] + word_prior) - gammaln(word_prior)
    words = np.bincount(used % max(counts.shape[1], 1), gains, counts.shape[1])
    return np.asarray(words - gammaln(totals + width * word_prior) + gammaln(width * word_prior))


def level_evidence(level_counts: Mat, alpha: Vec) -> float:
    """Log-probability of all levels, from the tokens of each document at each level."""
    each = gammaln(level_counts + alpha).sum() - len(level_counts) * gammaln(alpha).sum()
    lengths, total = level_counts.sum(axis=1), alpha.sum()
    return float(each - (gammaln(lengths + total) - gammaln(total)).sum())


def log_joint(topics: TreeTopics, level_counts: Mat, rules: TreeRules) -> float:
    """Log-probability of words, levels and paths with topics and sticks integrated out."""
    words = topic_evidence(topics.counts, rules.word_prior).sum()
    paths = rules.paths.log_seating(topics.tree, topics.slots)
    return float(words + paths + level_evidence(level_counts, topics.alpha))


def level_prior_of_counts(alpha: Vec, level_counts: Mat) -> Vec:
    """The level prior fitted to (n_documents, depth) token counts, by a few steps from `alpha`."""
    used = level_counts[level_counts.sum(axis=1) > 0]
    if not len(used):
        return alpha
    counts = GroupCounts.of(used, np.ones(len(used)))
    return np.maximum(LearnedDirichlet(0.0).improved(alpha, counts), LEAST_LEVEL)


def level_prior_of_logs(alpha: Vec, log_shares: Vec, n_documents: float) -> Vec:
    """The level prior fitted to expected log-shares, at least `LEAST_LEVEL` at each level.

    `log_shares` is the sum of E[log theta] over documents, (depth,).
    """
    if n_documents <= 0:
        return alpha
    mean = log_shares / n_documents
    for _ in range(_LEVEL_STEPS):
        alpha = np.maximum(_inverse_psi(psi(alpha.sum()) + mean), LEAST_LEVEL)
    return alpha


def _inverse_psi(y: Vec) -> Vec:
    """The x with psi(x) = y, by Newton's method from Minka's start."""
    x = np.where(y >= -2.22, np.exp(np.minimum(y, 50.0)) + 0.5, -1.0 / (y - psi(1.0)))
    for _ in range(6):
        x = np.maximum(x - (psi(x) - y) / polygamma(1, x), 1e-12)
    return np.asarray(x)
