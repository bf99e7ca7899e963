"""The local step: where documents belong in a tree of topics, for learning and for predictions.

A document takes one path, named by its slot. The slot of a node on the last level is the path that
ends there. That of any other node is all paths that leave the tree at this node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine, pieces
from everlearn.trees.kernels.paths import (
    PathTable,
    Posteriors,
    Words,
    choose_slots,
    gather,
    infer_paths,
    predict_words,
)
from everlearn.trees.model import TreeRules, TreeTopics

BLOCK = 64
"""Documents of one task."""
# exp of anything lower is 0: probabilities of 0 would make logarithms infinite.
_LOWEST = -700.0
_LEAST_LEVEL = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class PathStats:
    """What a batch of documents adds to a tree.

    counts : (n_words, n_nodes) expected tokens
    slots : (n_nodes,) expected documents
    logs : (depth,) sum of E[log theta] by level
    n_documents : number of documents
    entropy : the part of the bound that does not follow from the fields above
    """

    counts: Mat
    slots: Vec
    logs: Vec
    n_documents: int
    entropy: float

    @classmethod
    def zeros(cls, paths: PathTable, n_documents: int) -> PathStats:
        """Statistics of zero, to which a kernel adds those of `n_documents` documents."""
        counts, slots = np.zeros(paths.table.shape), np.zeros(len(paths.levels))
        return cls(counts, slots, np.zeros(len(paths.alpha)), n_documents, 0.0)

    def plus(self, other: PathStats, sign: int = 1) -> PathStats:
        """The sum of both, or their difference with `sign=-1`."""
        return PathStats(
            self.counts + sign * other.counts,
            self.slots + sign * other.slots,
            self.logs + sign * other.logs,
            self.n_documents + sign * other.n_documents,
            self.entropy + sign * other.entropy,
        )

    def arranged(self, before: Tree, after: Tree) -> PathStats:
        """The statistics for the same nodes in another order."""
        at = before.at(after.ids)
        return replace(self, counts=self.counts[:, at], slots=self.slots[at])


@dataclass(frozen=True, slots=True)
class PathStep:
    """Finds paths and levels of documents under a tree that does not change meanwhile.

    most : slots that are worked out for a document
    steps : most iterations over a document's words in each of these slots
    """

    most: int = 8
    steps: int = 8

    def start(self, documents: Documents, tree: Tree) -> Posteriors:
        """Posteriors of documents before the first step."""
        return empty_posteriors(len(documents), min(self.most, len(tree)), tree.depth)

    def run(
        self, documents: Documents, paths: PathTable, q: Posteriors, engine: Engine, *, choose: bool
    ) -> None:
        """Improve `q` in place. `choose` looks for the best slots among all of the tree first."""

        def part_of(where: slice) -> Posteriors:
            return Posteriors(q.slots[where], q.shares[where], q.g[where], q.bounds[where])

        blocks = pieces(documents, BLOCK, part_of)
        improved = engine.map(_improve, blocks, (paths, self.steps, choose))
        for block, new in zip(blocks, improved, strict=True):
            # In this process the task has written to these arrays already; a worker of a cluster
            # has written to its copy.
            for name, array in part_of(block.whole)._asdict().items():
                array[...] = getattr(new, name)

    def gathered(self, documents: Documents, paths: PathTable, q: Posteriors) -> PathStats:
        """Statistics of the documents under their posteriors."""
        stats = PathStats.zeros(paths, len(documents))
        gather(word_counts(documents), paths, q, stats.counts, stats.slots, stats.logs)
        return with_entropy(stats, paths, q.bounds)


def _improve(
    shared: tuple[PathTable, int, bool], block: tuple[Documents, Posteriors]
) -> Posteriors:
    (paths, steps, choose), (documents, q) = shared, block
    words, n = word_counts(documents), len(documents)
    if choose:
        choose_slots(words, 0, n, paths, q)
    infer_paths(words, 0, n, paths, steps, q)
    return q


def empty_posteriors(n_documents: int, n_slots: int, depth: int) -> Posteriors:
    """Posteriors before the first step: no slot is chosen yet."""
    return Posteriors(
        np.full((n_documents, n_slots), -1, np.int32),
        np.zeros((n_documents, n_slots)),
        np.zeros((n_documents, n_slots, depth)),
        np.zeros(n_documents),
    )


def under_new_prior(q: Posteriors, change: Vec) -> Posteriors:
    """A copy of the posteriors for a prior of levels that has changed by so much."""
    # Levels that are all 0 are not known yet, and stay so.
    g = np.where(q.g > 0.0, np.maximum(q.g + change, _LEAST_LEVEL), 0.0)
    return Posteriors(q.slots.copy(), q.shares.copy(), g, q.bounds.copy())


def with_entropy(stats: PathStats, paths: PathTable, bounds: Vec) -> PathStats:
    """The statistics with the part of the documents' bounds that does not follow from them."""
    used = stats.counts > 0.0
    known = stats.slots @ paths.log_weights + stats.counts[used] @ np.log(paths.table[used])
    known += stats.n_documents * level_constant(paths.alpha) + (paths.alpha - 1.0) @ stats.logs
    return replace(stats, entropy=float(bounds.sum() - known))


def word_counts(documents: Documents) -> Words:
    """The documents as kernels take them."""
    return Words(documents.indptr, documents.words, documents.counts)


def expected_table(topics: TreeTopics, rules: TreeRules) -> PathTable:
    """What documents are compared with in learning: exp of expected log-probabilities."""
    prior, tree = rules.word_prior, topics.tree
    width = topics.n_words * prior
    seen = np.flatnonzero(topics.counts.ravel() > 0.0)
    totals = psi(topics.counts.sum(axis=0) + width)
    table = np.empty(topics.counts.shape)
    table[:] = np.exp(np.maximum(psi(prior) - totals, _LOWEST))
    logs = psi(topics.counts.ravel()[seen] + prior) - totals[seen % len(tree)]
    table.ravel()[seen] = np.exp(np.maximum(logs, _LOWEST))
    unseen = np.exp(max(psi(prior) - psi(width), _LOWEST))
    sticks = rules.paths.posterior(tree, topics.slots)
    log_weights = rules.paths.slot_log_weights(tree, sticks)
    return _table(topics, table, unseen, log_weights)


def mean_table(topics: TreeTopics, word_prior: float, paths: NestedPrior) -> PathTable:
    """What documents are compared with in predictions: expected probabilities."""
    weights = paths.mean_slot_weights(topics.tree, paths.posterior(topics.tree, topics.slots))
    with np.errstate(divide="ignore"):
        log_weights = np.maximum(np.log(weights), _LOWEST)
    return _table(topics, topics.topics(word_prior), 1.0 / topics.n_words, log_weights)


def _table(topics: TreeTopics, table: Mat, unseen: float, log_weights: Vec) -> PathTable:
    tree = topics.tree
    return PathTable(
        np.ascontiguousarray(table), float(unseen), tree.parents, tree.levels, tree.paths,
        log_weights, topics.alpha,
    )  # fmt: skip


def level_constant(alpha: Vec) -> float:
    """Log of the normalizing constant of Dir(alpha)."""
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum())


def predicted_paths(
    paths: PathTable, documents: Documents, engine: Engine, step: PathStep
) -> Posteriors:
    """Posteriors of documents that the model does not learn from."""
    tree = Tree(np.arange(len(paths.levels)), paths.parents, len(paths.alpha))
    q = step.start(documents, tree)
    step.run(documents, paths, q, engine, choose=True)
    return q


def held_out_likelihood(
    paths: PathTable, seen: Documents, held_out: Documents, engine: Engine, step: PathStep
) -> Vec:
    """Log-likelihood of other words of each document, given those in `seen`, (n_documents,)."""
    q = predicted_paths(paths, seen, engine, step)
    out = np.zeros(len(held_out))
    predict_words(word_counts(held_out), paths, q, out)
    return out
