"""Refine a tree by variational inference, with several passes over all documents.

Documents are split into batches, and the statistics of each batch are kept. A visit replaces the
statistics of its batch, then updates topics, sticks and the level prior. With a single batch this
is batch learning. After every visit the bound is that of all documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine
from everlearn.trees.kernels.paths import Posteriors
from everlearn.trees.local import (
    PathStats,
    PathStep,
    expected_table,
    level_constant,
    under_new_prior,
)
from everlearn.trees.model import TreeRules, TreeTopics, level_prior_of_logs, topic_evidence
from everlearn.trees.settings import TreeSettings

CHOOSE_EVERY = 4
"""Every so many passes, each document searches for its best slots."""
_PASSES_AFTER = 2
"""Passes after the last change of the tree, so that documents settle in it."""
Report: TypeAlias = Callable[[int, int], None]
"""Called with the number of sweeps and passes that are done, and the number of nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class VisitedBatch:
    """A batch, and its posteriors and statistics at its last visit.

    documents : the documents
    q : posteriors of paths and levels of the documents
    alpha : (depth,) the level prior at that visit
    stats : None before the first visit
    """

    documents: Documents
    q: Posteriors
    alpha: Vec
    stats: PathStats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PathState:
    """A tree, its batches, and the sum of their statistics."""

    topics: TreeTopics
    batches: tuple[VisitedBatch, ...]
    total: PathStats | None = None

    def bound(self, rules: TreeRules) -> float:
        """Lower bound of the log-evidence. Minus infinity until each batch was visited."""
        if self.total is None or any(batch.stats is None for batch in self.batches):
            return -np.inf
        total, alpha = self.total, self.topics.alpha
        # Topics and sticks are optimal for the statistics, which therefore give their terms, too.
        words = topic_evidence(total.counts, rules.word_prior).sum()
        paths = rules.paths.bound(self.topics.tree, total.slots)
        levels = total.n_documents * level_constant(alpha) + (alpha - 1.0) @ total.logs
        return float(words + paths + levels + total.entropy)


def begin(topics: TreeTopics, batches: list[Documents], step: PathStep) -> PathState:
    """The state before the first visit."""
    fresh = [VisitedBatch(b, step.start(b, topics.tree), topics.alpha) for b in batches]
    return PathState(topics, tuple(fresh))


def visit(
    state: PathState, which: int, rules: TreeRules, step: PathStep, engine: Engine, *, choose: bool
) -> PathState:
    """The state after a visit to one batch. With `choose`, its documents search for their slots."""
    state = _ordered(state, rules)
    batch, topics = state.batches[which], state.topics
    paths = expected_table(topics, rules)
    q = under_new_prior(batch.q, topics.alpha - batch.alpha)
    step.run(batch.documents, paths, q, engine, choose=choose)
    stats = step.gathered(batch.documents, paths, q)
    total = stats
    if state.total is not None and len(state.batches) > 1:
        total = state.total.plus(stats)
        if batch.stats is not None:
            total = total.plus(batch.stats, -1)
    batches = list(state.batches)
    batches[which] = VisitedBatch(batch.documents, q, topics.alpha, stats)
    return PathState(_updated(topics, total, batches, rules), tuple(batches), total)


def _updated(
    topics: TreeTopics, total: PathStats, batches: list[VisitedBatch], rules: TreeRules
) -> TreeTopics:
    """The topics and the level prior for new statistics."""
    alpha = topics.alpha
    if rules.learn_levels:
        alpha = level_prior_of_logs(alpha, total.logs, total.n_documents)
    if any(batch.stats is None for batch in batches):
        # Without statistics of all batches, the sampled counts are better.
        return replace(topics, alpha=alpha)
    counts, slots = np.maximum(total.counts, 0.0), np.maximum(total.slots, 0.0)
    return replace(topics, counts=counts, slots=slots, alpha=alpha)


def _ordered(state: PathState, rules: TreeRules) -> PathState:
    """Sort siblings by decreasing mass where that does not lower the bound."""
    before = state.topics.tree
    after = rules.paths.ordered(before, state.topics.slots)
    if after is before or np.array_equal(after.ids, before.ids):
        return state
    return PathState(
        state.topics.arranged(after),
        tuple(_rearranged(batch, before, after) for batch in state.batches),
        None if state.total is None else state.total.arranged(before, after),
    )


def _rearranged(batch: VisitedBatch, before: Tree, after: Tree) -> VisitedBatch:
    places = np.append(after.at(before.ids), -1).astype(np.int32)
    q = batch.q._replace(slots=places[batch.q.slots])
    stats = None if batch.stats is None else batch.stats.arranged(before, after)
    return VisitedBatch(batch.documents, q, batch.alpha, stats)


def refine(
    topics: TreeTopics, documents: Documents, settings: TreeSettings, engine: Engine, report: Report
) -> tuple[PathState, list[float]]:
    """The tree after all variational passes, and the bound after each."""
    memoized, step = settings.learning == "memoized", settings.step
    n_batches = -(-len(documents) // settings.batch_size) if memoized else 1
    size = -(-len(documents) // n_batches)
    batches = [documents[i : i + size] for i in range(0, len(documents), size)]
    if settings.n_passes <= _PASSES_AFTER:
        topics = pruned(topics, settings.min_mass)
    state = begin(topics, batches, step)
    bounds: list[float] = []
    first_pass = 0  # of the tree as it is now
    for done in range(settings.n_passes):
        for which in range(len(batches)):
            choose = (done - first_pass) % CHOOSE_EVERY == 0
            state = visit(state, which, settings.rules, step, engine, choose=choose)
        bounds.append(state.bound(settings.rules))
        report(settings.n_sweeps + done + 1, len(state.topics.tree))
        if done == settings.n_passes - 1 - _PASSES_AFTER:
            smaller = pruned(state.topics, settings.min_mass)
            if smaller is not state.topics:
                state, first_pass = begin(smaller, batches, step), done + 1
    return state, bounds


def pruned(topics: TreeTopics, min_mass: float) -> TreeTopics:
    """The tree without branches of fewer documents, which move to the slot of the parent.

    Nodes of the last level with fewer tokens are removed, too. A path that ends at their parent
    explains the same words.
    """
    tree, mass = topics.tree, topics.mass
    empty = (tree.levels == tree.depth - 1) & (topics.counts.sum(axis=0) < min_mass)
    weak = np.flatnonzero((mass < min_mass)[1:] | empty[1:]) + 1
    if not len(weak):
        return topics
    smaller = tree.without(weak)
    kept = topics.arranged(smaller)
    slots = kept.slots.copy()
    for i in weak:
        if mass[tree.parents[i]] >= min_mass or tree.parents[i] == 0:
            slots[smaller.at([tree.ids[tree.parents[i]]])[0]] += mass[i]
    return TreeTopics(smaller, kept.counts, slots, topics.alpha, topics.next_id)


def without_empty(topics: TreeTopics) -> TreeTopics:
    """The tree without branches of no documents."""
    empty = np.flatnonzero(topics.mass[1:] <= 0.0) + 1
    return topics.arranged(topics.tree.without(empty)) if len(empty) else topics


def level_tokens(state: PathState) -> Mat:
    """Expected tokens of each document at each level, (n_documents, depth)."""
    parts = []
    for batch in state.batches:
        mean = np.einsum("nm,nml->nl", batch.q.shares, batch.q.g)
        parts.append(np.maximum(mean - batch.alpha, 0.0))
    return np.concatenate(parts)
