"""The moves of the variational paper: grow sampled paths, prune empty ones, merge equal ones.

They look at the posteriors of documents' slots alone and are not judged by the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.inference.kernels.tree_paths import Slots
from everlearn.inference.moves.tree_merge import Merger, merged
from everlearn.inference.tree_topics import TreeRules, TreeTopics

PRUNE_BELOW = 1e-6
MERGE_ABOVE = 0.95
DRAWS = 10
"""Documents of which a slot is drawn; those in slots of inner nodes bring new paths."""


class Seen(NamedTuple):
    """Documents, and the slots that they were found in with their probabilities."""

    documents: Documents
    slots: Slots
    shares: Mat


def paper_moves(
    topics: TreeTopics, seen: Sequence[Seen], rules: TreeRules, seed: int, clock: int
) -> TreeTopics:
    """Prune, merge, then grow."""
    shares, before = _slot_shares(seen, len(topics.tree)), topics.tree.ids
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
            topics = _with_path(topics, at, unseen, _row(seen, int(n), topics.n_words))
    return topics


def _slot_shares(seen: Sequence[Seen], n_nodes: int) -> Mat:
    """Posterior of slots of all documents, (n_documents, n_nodes)."""
    parts = []
    for batch in seen:
        dense = np.zeros((len(batch.documents), n_nodes + 1))
        rows = np.arange(len(dense))[:, None]
        np.add.at(dense, (rows, batch.slots), batch.shares)
        parts.append(dense[:, :-1])
    return np.concatenate(parts)


def _merged_equals(topics: TreeTopics, shares: Mat) -> TreeTopics:
    """Leaves of one parent that the same documents share are merged, each once at most."""
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


def _row(seen: Sequence[Seen], n: int, n_words: int) -> Vec:
    """Words of a document, (n_words,)."""
    out = np.zeros(n_words)
    for batch in seen:
        if n < len(batch.documents):
            one = batch.documents[n : n + 1]
            out[one.words] = one.counts
            break
        n -= len(batch.documents)
    return out


def _with_path(topics: TreeTopics, at: int, unseen: int, words: Vec) -> TreeTopics:
    """A chain of new nodes below this one, with a document's words as their first counts."""
    ids = list(range(topics.next_id, topics.next_id + unseen))
    share = topics.alpha[-unseen:] / topics.alpha.sum()
    counts = np.concatenate([topics.counts, words[:, None] * share], axis=1)
    slots = np.append(topics.slots, np.zeros(unseen))
    slots[-1] = 1.0
    tree = topics.tree.grown(at, ids)
    grown = replace(topics, tree=tree, counts=counts, slots=slots, next_id=topics.next_id + unseen)
    return grown.arranged(tree.sorted_by(grown.mass))
