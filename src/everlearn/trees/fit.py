"""Run `fit` or `partial_fit` of a `TopicTree`, and return all that it has learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.core.tree import Tree
from everlearn.engine.opening import open_engine
from everlearn.engine.progress import DocumentProgress
from everlearn.text.inputs import WordSpace
from everlearn.trees.model import TreeTopics, growing_prior, level_prior_of_counts
from everlearn.trees.moves import join_siblings, merge_nodes
from everlearn.trees.sampler import TreeSampler
from everlearn.trees.settings import TreeSettings
from everlearn.trees.stream import PAST, Reservoir, TreeState, learn_batch
from everlearn.trees.variational import Report, level_tokens, refine, without_empty

LEVELS_EVERY = 2
"""Sweeps between two changes of the level prior."""
JOIN_EVERY, MERGE_EVERY = 5, 10
"""Sweeps between two rounds of joins, and of mergers."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeFit:
    """What a topic tree has learned.

    Attributes
    ----------
    state : the tree, and what a stream needs to continue
    words : the words that columns stand for
    bounds : the bound after each variational pass of the last `fit`
    """

    state: TreeState
    words: WordSpace
    bounds: tuple[float, ...] = ()

    @classmethod
    def empty(cls, words: WordSpace, settings: TreeSettings, seed: int) -> TreeFit:
        """A root without documents."""
        topics = TreeTopics.empty(words.n_words, settings.first_levels)
        past = np.empty((0, settings.rules.depth))
        state = TreeState(topics, settings.rules.word_prior, Reservoir.empty(), past, seed)
        return cls(state, words)

    @property
    def seed(self) -> int:
        """The seed that was drawn when learning began."""
        return self.state.seed

    @property
    def n_features(self) -> int | None:
        """Number of columns of the tables of counts. None after tokens or texts."""
        return self.words.n_words if self.words.kind == "counts" else None

    def numbered(self) -> TreeFit:
        """The fit with ids from 0: parents first, larger siblings first."""
        state = self.state
        tree, kept = state.topics.tree, state.reservoir
        n = len(tree)
        topics = replace(state.topics, tree=Tree(np.arange(n), tree.parents, tree.depth), next_id=n)
        reservoir = replace(kept, leaves=tree.at(kept.leaves))
        return replace(self, state=replace(state, topics=topics, reservoir=reservoir))

    def with_words(self, words: WordSpace) -> TreeFit:
        """The same tree, with topics over a larger vocabulary."""
        topics = self.state.topics.with_words(words.n_words)
        return replace(self, state=replace(self.state, topics=topics), words=words)


def learn_corpus(fit: TreeFit, documents: Documents, settings: TreeSettings) -> TreeFit:
    """Learn all documents in several passes: sample a tree, then refine it."""
    state, n = fit.state, len(documents)
    with (
        open_engine(settings.engine) as engine,
        DocumentProgress(settings.verbose, (settings.n_sweeps + settings.n_passes) * n) as progress,
    ):

        def report(done: int, n_nodes: int) -> None:
            progress.show(done * n, n_nodes)

        topics, levels = sample_tree(state.topics, documents, settings, state.seed, report)
        bounds: list[float] = []
        if settings.n_passes:
            found, bounds = refine(topics, documents, settings, engine, report)
            topics, levels = without_empty(found.topics), level_tokens(found)
    state = replace(
        state,
        topics=topics,
        past=_subsample(levels, state.seed),
        clock=1,
        n_documents=n,
        n_tokens=documents.n_tokens,
    )
    return TreeFit(state, fit.words, tuple(bounds))


def learn_stream(
    fit: TreeFit, documents: Documents, settings: TreeSettings, order: IntVec | None = None
) -> TreeFit:
    """Learn each document once, batch by batch, in the given order or else in input order."""
    state, done = fit.state, 0
    with (
        open_engine(settings.engine) as engine,
        DocumentProgress(settings.verbose, len(documents)) as progress,
    ):
        for batch in _batches(documents, order, settings.batch_size):
            state = learn_batch(state, batch, settings, engine)
            done += len(batch)
            progress.show(done, len(state.topics.tree))
    return replace(fit, state=state)


def shuffled_order(n_documents: int, seed: int) -> IntVec:
    """A random order of documents."""
    return stream(seed, "order", 0).permutation(n_documents)


def _batches(documents: Documents, order: IntVec | None, size: int) -> Iterator[Documents]:
    for i in range(0, len(documents), size):
        where = slice(i, i + size)
        yield documents[where] if order is None else documents.take(order[where])


def sample_tree(
    start: TreeTopics, documents: Documents, settings: TreeSettings, seed: int, report: Report
) -> tuple[TreeTopics, Mat]:
    """Sample a tree of all documents. Also return their tokens by level, (n_documents, depth).

    The word prior grows to its full value in the first half of the sweeps, so that topics can form.
    The level prior is learned in the second half only. Earlier, siblings that should be joined
    still hold the words of all levels, so learning would switch off the last level.
    """
    full, n_sweeps, merging = settings.rules, settings.n_sweeps, settings.merge
    half = max(n_sweeps / 2, 1e-9)
    rules = replace(full, word_prior=growing_prior(full.word_prior, float(n_sweeps == 0)))
    sampler = TreeSampler(start, rules)
    sampler.add(documents, seed, 0)
    join_at = wait = JOIN_EVERY
    for done in range(1, n_sweeps + 1):
        rules = replace(full, word_prior=growing_prior(full.word_prior, done / half))
        sampler.word_prior = rules.word_prior
        sampler.sweep(seed, done)
        if rules.learn_levels and done >= half and done % LEVELS_EVERY == 0:
            sampler.alpha = level_prior_of_counts(sampler.alpha, sampler.level_counts)
        if merging and done < n_sweeps and done >= join_at:
            sampler, joined = join_siblings(sampler, rules, seed, done)
            wait = JOIN_EVERY if joined else 2 * wait  # a round that finds no join is slow
            join_at = done + wait
        if merging and done < n_sweeps and done % MERGE_EVERY == 0:
            merge_nodes(sampler, rules)
        report(done, sampler.n_nodes)
    if merging:
        sampler, _ = join_siblings(sampler, rules, seed, n_sweeps + 1)
        merge_nodes(sampler, rules)
    return sampler.topics(), sampler.level_counts


def _subsample(levels: Mat, seed: int) -> Mat:
    """A sample of the rows, at most as many as a stream remembers."""
    if len(levels) <= PAST:
        return levels
    rows = stream(seed, "subsample", 0).choice(len(levels), PAST, replace=False)
    return np.asarray(levels[np.sort(rows)])
