"""Where documents belong in a tree of topics: the variational local step, and predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine, pieces
from everlearn.trees.kernels.paths import (
    Blended,
    Found,
    PathTable,
    Words,
    blend_paths,
    choose_slots,
    gather,
    gather_blended,
    infer_paths,
    predict_words,
)
from everlearn.trees.model import TreeRules, TreeTopics

BLOCK = 64
"""Documents of a task."""
_LOWEST = -700.0
_LEAST_LEVEL = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class PathStats:
    """What documents say about a tree; additive.

    counts : (n_words, n_nodes) expected tokens
    slots : (n_nodes,) expected documents
    logs : (depth,) sum of E[log theta] by level
    n_documents : how many
    entropy : what the bound has beyond the parts that follow from the above
    """

    counts: Mat
    slots: Vec
    logs: Vec
    n_documents: int
    entropy: float

    @classmethod
    def zeros(cls, paths: PathTable, n_documents: int) -> PathStats:
        """Nothing, for so many documents, to be added to."""
        counts, slots = np.zeros(paths.table.shape), np.zeros(len(paths.levels))
        return cls(counts, slots, np.zeros(len(paths.alpha)), n_documents, 0.0)

    def plus(self, other: PathStats, sign: int = 1) -> PathStats:
        """The sum, or the difference, of both."""
        return PathStats(
            self.counts + sign * other.counts,
            self.slots + sign * other.slots,
            self.logs + sign * other.logs,
            self.n_documents + sign * other.n_documents,
            self.entropy + sign * other.entropy,
        )

    def arranged(self, before: Tree, after: Tree) -> PathStats:
        """For the same nodes in another order."""
        at = before.at(after.ids)
        return replace(self, counts=self.counts[:, at], slots=self.slots[at])


@dataclass(frozen=True, slots=True)
class PathStep:
    """The local step with a posterior of levels for each path of a document.

    most : slots that are worked out for a document; all, if there are no more
    steps : iterations over a document's words in each of them
    """

    most: int = 8
    steps: int = 8

    def start(self, documents: Documents, tree: Tree) -> Found:
        """Nothing is known of the documents."""
        n, m = len(documents), min(self.most, len(tree))
        return Found(
            np.full((n, m), -1, np.int32), np.zeros((n, m)), np.zeros((n, m, tree.depth)),
            np.zeros(n),
        )  # fmt: skip

    def run(
        self, documents: Documents, paths: PathTable, found: Found, engine: Engine, *, choose: bool
    ) -> None:
        """Bring `found` up to date; `choose` looks at all slots again."""

        def part_of(where: slice) -> Found:
            return Found(
                found.slots[where], found.shares[where], found.g[where], found.bounds[where]
            )

        blocks = pieces(documents, BLOCK, part_of)
        parts = engine.map(_update, blocks, (paths, self.steps, choose))
        for block, part in zip(blocks, parts, strict=True):
            rewrite(part_of(block.whole), part)

    def moved(self, found: Found, by: Vec) -> Found:
        """A copy of what was found, for a prior of levels that has changed so much."""
        g = moved_levels(found.g, by)
        return Found(found.slots.copy(), found.shares.copy(), g, found.bounds.copy())

    def gathered(self, documents: Documents, paths: PathTable, found: Found) -> PathStats:
        """Statistics of documents that were found under these paths."""
        stats = PathStats.zeros(paths, len(documents))
        gather(bag(documents), paths, found, stats.counts, stats.slots, stats.logs)
        return with_entropy(stats, paths, found.bounds)


def _update(shared: tuple[PathTable, int, bool], block: tuple[Documents, Found]) -> Found:
    """What was found of a block, brought up to date; the one given is written to."""
    (paths, steps, choose), (documents, found) = shared, block
    words, n = bag(documents), len(documents)
    if choose:
        choose_slots(words, 0, n, paths, found)
    infer_paths(words, 0, n, paths, steps, found)
    return found


def rewrite(old: Iterable[Any], new: Iterable[Any]) -> None:
    """Write arrays into arrays; they may be the same ones."""
    for to, what in zip(old, new, strict=True):
        to[...] = what


def moved_levels(g: Vec, by: Vec) -> Vec:
    """Posteriors of levels under a prior that has changed so much; unknown ones stay 0."""
    return np.asarray(np.where(g > 0.0, np.maximum(g + by, _LEAST_LEVEL), 0.0))


def with_entropy(stats: PathStats, paths: PathTable, bounds: Vec) -> PathStats:
    """Statistics with what the documents' bounds have beyond them."""
    used = stats.counts > 0.0
    known = stats.slots @ paths.log_weights + stats.counts[used] @ np.log(paths.table[used])
    known += stats.n_documents * level_constant(paths.alpha) + (paths.alpha - 1.0) @ stats.logs
    return replace(stats, entropy=float(bounds.sum() - known))


def bag(documents: Documents) -> Words:
    """Documents as kernels take them."""
    return Words(documents.indptr, documents.words, documents.counts)


def expected_table(found: TreeTopics, rules: TreeRules) -> PathTable:
    """What documents are compared with while learning: expected logarithms."""
    prior, tree = rules.word_prior, found.tree
    width = found.n_words * prior
    seen = np.flatnonzero(found.counts.ravel() > 0.0)
    totals = psi(found.counts.sum(axis=0) + width)
    table = np.empty(found.counts.shape)
    table[:] = np.exp(np.maximum(psi(prior) - totals, _LOWEST))
    logs = psi(found.counts.ravel()[seen] + prior) - totals[seen % len(tree)]
    table.ravel()[seen] = np.exp(np.maximum(logs, _LOWEST))
    unseen = np.exp(max(psi(prior) - psi(width), _LOWEST))
    sticks = rules.paths.posterior(tree, found.slots)
    log_weights = rules.paths.slot_log_weights(tree, sticks)
    return _table(found, table, unseen, log_weights)


def mean_table(found: TreeTopics, word_prior: float, paths: NestedPrior) -> PathTable:
    """What documents are compared with in predictions: expected probabilities."""
    with np.errstate(divide="ignore"):
        log_weights = np.maximum(np.log(found.slot_weights(paths)), _LOWEST)
    return _table(found, found.topics(word_prior), 1.0 / found.n_words, log_weights)


def _table(found: TreeTopics, table: Mat, unseen: float, log_weights: Vec) -> PathTable:
    tree = found.tree
    return PathTable(
        np.ascontiguousarray(table), float(unseen), tree.parents, tree.levels, tree.paths,
        log_weights, found.alpha,
    )  # fmt: skip


def level_constant(alpha: Vec) -> float:
    """Log of the factor in front of the density Dir(alpha)."""
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum())


def found_under(paths: PathTable, documents: Documents, engine: Engine, step: PathStep) -> Found:
    """Paths and levels of documents that nothing is learned from."""
    tree = Tree(np.arange(len(paths.levels)), paths.parents, len(paths.alpha))
    found = step.start(documents, tree)
    step.run(documents, paths, found, engine, choose=True)
    return found


def held_out_likelihood(
    paths: PathTable, seen: Documents, held_out: Documents, engine: Engine, step: PathStep
) -> Vec:
    """Log-likelihood of further words of documents of which some were seen, (n_documents,)."""
    found = found_under(paths, seen, engine, step)
    out = np.zeros(len(held_out))
    predict_words(bag(held_out), paths, found, out)
    return out


@dataclass(frozen=True, slots=True)
class MeanFieldStep:
    """The local step with one posterior of levels for all paths of a document.

    most : slots that are looked at for a document; all, if there are no more
    steps : iterations over a document's words
    """

    most: int = 8
    steps: int = 8

    def start(self, documents: Documents, tree: Tree) -> Blended:
        """Nothing is known of the documents."""
        n, m = len(documents), min(self.most, len(tree))
        return Blended(
            np.full((n, m), -1, np.int32), np.zeros((n, m)), np.zeros((n, tree.depth)),
            np.zeros((len(documents.words), tree.depth)), np.zeros(n),
        )  # fmt: skip

    def run(
        self,
        documents: Documents,
        paths: PathTable,
        found: Blended,
        engine: Engine,
        *,
        choose: bool,
    ) -> None:
        """Bring `found` up to date; `choose` looks at all slots again."""
        entries = documents.indptr

        def part_of(where: slice) -> Blended:
            phi = found.phi[entries[where.start] : entries[where.stop]]
            return found._replace(
                slots=found.slots[where], shares=found.shares[where], g=found.g[where], phi=phi,
                bounds=found.bounds[where],
            )  # fmt: skip

        blocks = pieces(documents, BLOCK, part_of)
        shared = (paths, np.log(paths.table), self.steps, choose)
        for block, new in zip(blocks, engine.map(_update_meanfield, blocks, shared), strict=True):
            rewrite(part_of(block.whole), new)

    def moved(self, found: Blended, by: Vec) -> Blended:
        """A copy of what was found, for a prior of levels that has changed so much."""
        g = moved_levels(found.g, by)
        slots, shares = found.slots.copy(), found.shares.copy()
        return Blended(slots, shares, g, found.phi.copy(), found.bounds.copy())

    def gathered(self, documents: Documents, paths: PathTable, found: Blended) -> PathStats:
        """Statistics of documents that were found under these paths."""
        stats = PathStats.zeros(paths, len(documents))
        gather_blended(bag(documents), paths, found, stats.counts, stats.slots, stats.logs)
        return with_entropy(stats, paths, found.bounds)


def _update_meanfield(
    shared: tuple[PathTable, Mat, int, bool], block: tuple[Documents, Blended]
) -> Blended:
    """What was found of a block, brought up to date; the one given is written to."""
    (paths, logs, steps, choose), (documents, found) = shared, block
    words, n = bag(documents), len(documents)
    if choose:
        unused = np.zeros((*found.slots.shape, found.g.shape[1]))
        choose_slots(words, 0, n, paths, Found(found.slots, found.shares, unused, found.bounds))
    blend_paths(words, 0, n, paths, logs, steps, found)
    return found
