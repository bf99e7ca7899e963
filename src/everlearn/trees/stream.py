"""Learn a tree from documents that are seen once.

Counts hold all documents seen. The documents of the current batch and of a small reservoir can
still move, and the sampler grows new branches for them. A document that leaves the reservoir leaves
expected counts behind instead of sampled ones. Equations: docs/math/topic_tree.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine
from everlearn.trees.kernels.paths import Posteriors
from everlearn.trees.local import PathStep, mean_table
from everlearn.trees.model import TreeRules, TreeTopics, growing_prior, level_prior_of_counts
from everlearn.trees.moves import join_siblings, merge_nodes
from everlearn.trees.sampler import TreeSampler
from everlearn.trees.settings import TreeSettings

FIRST_SWEEPS = 30
MERGE_EVERY = 4
LEVELS_FROM = 200
"""Documents before the level prior is learned. With fewer, the root would take all words."""
PAST = 2000
"""Documents outside the reservoir whose levels are remembered for the level prior."""
RAMP = 40.0
"""Tokens per word of the vocabulary until topics have the full word prior."""
_EVICTION_STEP = PathStep(most=1, steps=15)


@dataclass(frozen=True, slots=True, eq=False)
class Reservoir:
    """A uniform sample of the documents seen, which can still move.

    documents : the documents
    levels : (n_tokens,) level of each token, equal words side by side
    leaves : (n,) id of the last node of each document's path
    ranks : (n,) random numbers; the documents with the largest stay
    """

    documents: Documents
    levels: IntVec
    leaves: IntVec
    ranks: Vec

    @classmethod
    def empty(cls) -> Reservoir:
        """A reservoir without documents."""
        none = np.empty(0, np.int64)
        return cls(Documents.from_tokens([]), none, none, np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class TreeState:
    """What the next batch depends on.

    Attributes
    ----------
    topics : the tree with the counts of all documents seen
    word_prior : the word prior that has been reached
    reservoir : documents that can still move
    past : (n, depth) tokens by level of the last documents that cannot
    seed : of all draws
    clock : batches learned
    n_documents, n_tokens : learned from
    """

    topics: TreeTopics
    word_prior: float
    reservoir: Reservoir
    past: Mat
    seed: int
    clock: int = 0
    n_documents: int = 0
    n_tokens: int = 0


def stream_word_prior(word_prior: float, n_tokens: int, n_words: int) -> float:
    """The word prior after this many tokens: smaller at first, so that topics can form."""
    return growing_prior(word_prior, n_tokens / (RAMP * n_words))


def learn_batch(
    state: TreeState, batch: Documents, settings: TreeSettings, engine: Engine
) -> TreeState:
    """The state after one more batch."""
    n_documents, n_tokens = state.n_documents + len(batch), state.n_tokens + batch.n_tokens
    word_prior = stream_word_prior(settings.rules.word_prior, n_tokens, state.topics.n_words)
    rules = replace(settings.rules, word_prior=word_prior)
    old = state.reservoir
    sampler = TreeSampler(state.topics, rules)
    sampler.add_known(old.documents, old.levels, old.leaves)
    key = state.clock << 16  # names the random streams of this batch; sweeps add their number
    sampler.add(batch, state.seed, key, informed=state.clock > 0)
    all_move = len(old.documents) == state.n_documents
    n_sweeps = FIRST_SWEEPS if state.clock == 0 else settings.stream_sweeps
    for done in range(1, n_sweeps + 1):
        sampler.sweep(state.seed, key + done)
        due = done == n_sweeps or (all_move and done % MERGE_EVERY == 0)
        if settings.merge and due:
            sampler, _ = join_siblings(sampler, rules, state.seed, key + done)
            merge_nodes(sampler, rules)
    if rules.learn_levels and n_documents >= LEVELS_FROM:
        level_counts = np.concatenate([state.past, sampler.level_counts])
        sampler.alpha = level_prior_of_counts(sampler.alpha, level_counts)
    ranks = stream(state.seed, "subsample", state.clock).random(len(batch))
    full = Reservoir(
        _concatenated(old.documents, batch),
        sampler.levels,
        sampler.leaves,
        np.concatenate([old.ranks, ranks]),
    )
    topics, kept, past = _evict(sampler.topics(), full, rules, settings.reservoir, engine)
    past = np.concatenate([state.past, past])[-PAST:]
    return TreeState(
        topics, word_prior, kept, past, state.seed, state.clock + 1, n_documents, n_tokens
    )


def _concatenated(a: Documents, b: Documents) -> Documents:
    return Documents(
        np.concatenate([a.indptr, a.indptr[-1] + b.indptr[1:]]),
        np.concatenate([a.words, b.words]),
        np.concatenate([a.counts, b.counts]),
    )


def _evict(
    topics: TreeTopics, full: Reservoir, rules: TreeRules, size: int, engine: Engine
) -> tuple[TreeTopics, Reservoir, Mat]:
    """Keep `size` documents.

    Returns the tree with expected counts of the documents that leave, the documents that stay, and
    the tokens by level of those that leave.
    """
    order = np.argsort(-full.ranks, kind="stable")
    staying = np.zeros(len(order), bool)
    staying[order[:size]] = True
    rows = np.repeat(np.arange(len(order)), full.documents.lengths)
    kept = Reservoir(
        full.documents.take(staying),
        full.levels[staying[rows]],
        full.leaves[staying],
        full.ranks[staying],
    )
    if staying.all():
        return topics, kept, np.empty((0, rules.depth))
    out = full.documents.take(~staying)
    leaves = topics.tree.at(full.leaves[~staying])
    sampled = np.zeros_like(topics.counts)
    np.add.at(sampled, _token_places(topics.tree, out, full.levels[~staying[rows]], leaves), 1.0)
    # Levels of each document in expectation, given the path that it was sampled to have.
    paths = mean_table(topics, rules.word_prior, rules.paths)
    q: Posteriors = _EVICTION_STEP.start(out, Tree.root(rules.depth))
    q = q._replace(slots=leaves[:, None].astype(np.int32))
    _EVICTION_STEP.run(out, paths, q, engine, choose=False)
    expected = _EVICTION_STEP.gathered(out, paths, q).counts
    counts = np.maximum(topics.counts - sampled, 0.0) + expected
    return replace(topics, counts=counts), kept, q.g[:, 0] - topics.alpha


def _token_places(
    tree: Tree, documents: Documents, levels: IntVec, leaves: IntVec
) -> tuple[IntVec, IntVec]:
    """Word and node of each token."""
    words = np.repeat(documents.words, documents.counts).astype(np.int64)
    rows = np.repeat(np.arange(len(documents)), documents.lengths)
    return words, tree.paths[leaves[rows], levels]
