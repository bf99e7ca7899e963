"""How the published algorithm changes a tree of topics.

It grows, prunes and merges between variational passes, by the posterior of paths alone. On text
this hardly ever finds anything to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.trees.kernels.paths import Posteriors
from everlearn.trees.model import TreeRules, TreeTopics
from everlearn.trees.moves import Merger, merged

PRUNE_BELOW = 1e-6
MERGE_ABOVE = 0.95
DRAWS = 10
"""Documents per call for which a slot is drawn; the slot of an inner node starts a new path."""

Batch: TypeAlias = tuple[Documents, Posteriors]


def published_moves(
    topics: TreeTopics, batches: Sequence[Batch], rules: TreeRules, seed: int, clock: int
) -> TreeTopics:
    """The tree after one round of moves: merge, prune, then grow."""
    shares, before = _slot_shares(batches, len(topics.tree)), topics.tree.ids
    topics = _merged_equals(topics, shares)
    weak = topics.mass < PRUNE_BELOW
    weak[0] = False
    if weak.any():
        topics = topics.arranged(topics.tree.without(np.flatnonzero(weak)))
    rng = stream(seed, "birth", clock)
    for n in rng.permutation(len(shares))[:DRAWS]:
        drawn = before[rng.choice(len(before), p=shares[n] / shares[n].sum())]
        at = int(topics.tree.at([drawn])[0])
        unseen = int(topics.tree.n_unseen[at]) if at >= 0 else 0
        if unseen and len(topics.tree) + unseen <= rules.max_nodes:
            topics = _with_path(topics, at, unseen, _row(batches, int(n), topics.n_words))
    return topics


def _slot_shares(batches: Sequence[Batch], n_nodes: int) -> Mat:
    """Posterior of slots of all documents, (n_documents, n_nodes)."""
    parts = []
    for documents, q in batches:
        dense = np.zeros((len(documents), n_nodes + 1))
        rows = np.arange(len(dense))[:, None]
        np.add.at(dense, (rows, q.slots), q.shares)
        parts.append(dense[:, :-1])
    return np.concatenate(parts)


def _merged_equals(topics: TreeTopics, shares: Mat) -> TreeTopics:
    """Merge leaves of one parent that the same documents share, each at most once."""
    tree = topics.tree
    norms = np.maximum(np.sqrt((shares**2).sum(axis=0)), 1e-100)
    alike = (shares.T @ shares) / (norms[:, None] * norms)
    leaves = tree.levels == tree.depth - 1
    same = leaves[:, None] & (tree.parents[:, None] == tree.parents)
    mergers: list[Merger] = []
    used: set[int] = set()
    for i, j in zip(*np.nonzero(np.triu(same & (alike > MERGE_ABOVE), 1)), strict=True):
        if used.isdisjoint((i, j)):
            used |= {i, j}
            mergers.append(Merger(int(tree.ids[i]), int(tree.ids[j]), 0.0))
    return merged(topics, mergers) if mergers else topics


def _row(batches: Sequence[Batch], n: int, n_words: int) -> Vec:
    """Word counts of document `n` of all batches, (n_words,)."""
    out = np.zeros(n_words)
    for documents, _ in batches:
        if n < len(documents):
            one = documents[n : n + 1]
            out[one.words] = one.counts
            break
        n -= len(documents)
    return out


def _with_path(topics: TreeTopics, at: int, unseen: int, words: Vec) -> TreeTopics:
    """Add a chain of new nodes below node `at`, with a document's words as their first counts."""
    ids = list(range(topics.next_id, topics.next_id + unseen))
    share = topics.alpha[-unseen:] / topics.alpha.sum()
    counts = np.concatenate([topics.counts, words[:, None] * share], axis=1)
    slots = np.append(topics.slots, np.zeros(unseen))
    slots[-1] = 1.0
    tree = topics.tree.grown(at, ids)
    grown = replace(topics, tree=tree, counts=counts, slots=slots, next_id=topics.next_id + unseen)
    return grown.arranged(tree.sorted_by(grown.mass))
