"""Learning a tree of topics from documents that come once.

Counts hold everything seen. Documents of the batch at hand and of a small reservoir can still
move; new branches are those that the sampler draws. A document that leaves the reservoir leaves
expected counts behind instead of drawn ones. Equations: docs/math/topic_tree.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine
from everlearn.trees.batch import merge_nodes
from everlearn.trees.kernels.paths import Found
from everlearn.trees.local import PathStep, mean_table
from everlearn.trees.model import TreeRules, TreeTopics, sampled_levels, young_prior
from everlearn.trees.moves import join_siblings
from everlearn.trees.sampler import TreeSampler

FIRST_SWEEPS = 30
MERGE_EVERY = 4
LEVELS_FROM = 200
"""Documents before the prior of levels is learned: with fewer the root would take everything."""
PAST = 2000
"""Documents whose levels are remembered for that prior."""
RAMP = 40.0
"""Tokens for each word of the vocabulary before topics have the full prior of words."""
_LEAVING = PathStep(most=1, steps=15)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Documents that can still move.

    documents : the documents
    levels : (n_tokens,) level of each token, equal words side by side
    leaves : (n,) id of the last node of each path
    ranks : (n,) random numbers; those with the largest are kept
    """

    documents: Documents
    levels: IntVec
    leaves: IntVec
    ranks: Vec

    @classmethod
    def none(cls) -> Kept:
        """No documents."""
        empty = np.empty(0, np.int64)
        return cls(Documents.from_tokens([]), empty, empty, np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class TreeState:
    """A tree that goes on learning.

    Attributes
    ----------
    topics : counts of all documents seen, those kept included
    word_prior : the one that counts are smoothed with now
    kept : documents that can still move
    past : (n, depth) tokens by level of documents that cannot, the last ones
    seed : of all draws
    clock : batches learned
    n_documents, n_tokens : learned from
    """

    topics: TreeTopics
    word_prior: float
    kept: Kept
    past: Mat
    seed: int
    clock: int = 0
    n_documents: int = 0
    n_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How a batch is learned: sweeps over it, documents kept, whether siblings are merged."""

    n_sweeps: int = 8
    reservoir: int = 300
    merge: bool = True


def ramped(word_prior: float, n_tokens: int, n_words: int) -> float:
    """A prior of words that grows with the tokens seen, so that early topics can form."""
    return young_prior(word_prior, n_tokens / (RAMP * n_words))


def learn_batch(
    state: TreeState, batch: Documents, rules: TreeRules, plan: StreamPlan, engine: Engine
) -> TreeState:
    """The state after one more batch."""
    n_documents, n_tokens = state.n_documents + len(batch), state.n_tokens + batch.n_tokens
    rules = replace(rules, word_prior=ramped(rules.word_prior, n_tokens, state.topics.n_words))
    sampler = TreeSampler(state.topics, rules)
    sampler.seat(state.kept.documents, state.kept.levels, state.kept.leaves)
    place = state.clock << 16
    sampler.add(batch, state.seed, place, informed=state.clock > 0)
    young = len(state.kept.documents) == state.n_documents  # all documents can still move
    n_sweeps = FIRST_SWEEPS if state.clock == 0 else plan.n_sweeps
    for done in range(1, n_sweeps + 1):
        sampler.sweep(state.seed, place + done)
        if plan.merge and (done == n_sweeps or (young and done % MERGE_EVERY == 0)):
            sampler, _ = join_siblings(sampler, rules, state.seed, place + done)
            merge_nodes(sampler, rules)
    if rules.learn_levels and n_documents >= LEVELS_FROM:
        known = np.concatenate([state.past, sampler.level_counts])
        sampler.alpha = sampled_levels(sampler.alpha, known)
    ranks = stream(state.seed, "subsample", state.clock).random(len(batch))
    active = Kept(
        _joined(state.kept.documents, batch),
        sampler.levels,
        sampler.leaves,
        np.concatenate([state.kept.ranks, ranks]),
    )
    topics, kept, past = _evicted(sampler.found(), active, rules, plan.reservoir, engine)
    past = np.concatenate([state.past, past])[-PAST:]
    return TreeState(
        topics, rules.word_prior, kept, past, state.seed, state.clock + 1, n_documents, n_tokens
    )


def _joined(a: Documents, b: Documents) -> Documents:
    return Documents(
        np.concatenate([a.indptr, a.indptr[-1] + b.indptr[1:]]),
        np.concatenate([a.words, b.words]),
        np.concatenate([a.counts, b.counts]),
    )


def _evicted(
    topics: TreeTopics, active: Kept, rules: TreeRules, size: int, engine: Engine
) -> tuple[TreeTopics, Kept, Mat]:
    """Counts with expected levels of the documents that leave, those that stay, their levels."""
    order = np.argsort(-active.ranks, kind="stable")
    staying = np.zeros(len(order), bool)
    staying[order[:size]] = True
    rows = np.repeat(np.arange(len(order)), active.documents.lengths)
    kept = Kept(
        active.documents.take(staying),
        active.levels[staying[rows]],
        active.leaves[staying],
        active.ranks[staying],
    )
    if staying.all():
        return topics, kept, np.empty((0, rules.depth))
    out = active.documents.take(~staying)
    leaves = topics.tree.at(active.leaves[~staying])
    drawn = _drawn_counts(topics.tree, out, active.levels[~staying[rows]], leaves)
    paths = mean_table(topics, rules.word_prior, rules.paths)
    found = _LEAVING.start(out, Tree.root(rules.depth))
    found = Found(leaves[:, None].astype(np.int32), found.shares, found.g, found.bounds)
    _LEAVING.run(out, paths, found, engine, choose=False)
    stats = _LEAVING.gathered(out, paths, found)
    counts = np.zeros_like(topics.counts)
    np.add.at(counts, drawn, 1.0)
    soft = np.maximum(topics.counts - counts, 0.0) + stats.counts
    return replace(topics, counts=soft), kept, found.g[:, 0] - topics.alpha


def _drawn_counts(
    tree: Tree, documents: Documents, levels: IntVec, leaves: IntVec
) -> tuple[IntVec, IntVec]:
    """Word and node of each token."""
    words = np.repeat(documents.words, documents.counts).astype(np.int64)
    rows = np.repeat(np.arange(len(documents)), documents.lengths)
    return words, tree.paths[leaves[rows], levels]
