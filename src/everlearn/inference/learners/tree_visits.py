"""Variational learning of a tree of topics from documents that are visited again and again.

Documents come in batches whose statistics are remembered: a visit replaces those of its batch and
brings topics, sticks and the prior of levels up to date. One batch of all documents is batch
learning. The bound is exact for all documents after every visit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.inference.engine import Engine
from everlearn.inference.local.tree_meanfield import MeanFieldStep
from everlearn.inference.local.tree_paths import (
    PathStats,
    PathStep,
    expected_table,
    level_constant,
)
from everlearn.inference.tree_topics import TreeRules, TreeTopics, expected_levels, topic_evidence

Step: TypeAlias = PathStep | MeanFieldStep


@dataclass(frozen=True, slots=True, eq=False)
class Visited:
    """A batch with what was found at its last visit; `stats` is None before the first."""

    documents: Documents
    found: Any
    alpha: Vec
    stats: PathStats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PathState:
    """A tree, the batches that it was learned from, and the sum of their statistics."""

    topics: TreeTopics
    batches: tuple[Visited, ...]
    total: PathStats | None = None

    def bound(self, rules: TreeRules) -> float:
        """Lower bound of the log-evidence of all documents, once each batch was visited."""
        if self.total is None or any(batch.stats is None for batch in self.batches):
            return -np.inf
        return stats_bound(self.total, self.topics, rules)


def stats_bound(total: PathStats, topics: TreeTopics, rules: TreeRules) -> float:
    """The bound at topics and sticks that are best for these statistics."""
    words = topic_evidence(total.counts, rules.word_prior).sum()
    paths = rules.paths.bound(topics.tree, total.slots)
    levels = total.n_documents * level_constant(topics.alpha) + (topics.alpha - 1.0) @ total.logs
    return float(words + paths + levels + total.entropy)


def begin(topics: TreeTopics, batches: list[Documents], step: Step) -> PathState:
    """Batches that were not visited yet, under the tree to begin with."""
    visited = [Visited(b, step.start(b, topics.tree), topics.alpha) for b in batches]
    return PathState(topics, tuple(visited))


def visit(
    state: PathState, which: int, rules: TreeRules, step: Step, engine: Engine, *, choose: bool
) -> PathState:
    """Visit one batch; `choose` looks at all slots for its documents again."""
    state = _ordered(state, rules)
    batch, topics = state.batches[which], state.topics
    paths = expected_table(topics, rules)
    found: Any = step.moved(batch.found, topics.alpha - batch.alpha)
    step.run(batch.documents, paths, found, engine, choose=choose)
    stats = step.gathered(batch.documents, paths, found)
    total = stats
    if state.total is not None and len(state.batches) > 1:
        total = state.total.plus(stats)
        if batch.stats is not None:
            total = total.plus(batch.stats, -1)
    batches = list(state.batches)
    batches[which] = Visited(batch.documents, found, topics.alpha, stats)
    return PathState(_learned(topics, total, batches, rules), tuple(batches), total)


def _learned(
    topics: TreeTopics, total: PathStats, batches: list[Visited], rules: TreeRules
) -> TreeTopics:
    """The tree under new statistics; until all batches were visited, the old ones stand in."""
    alpha = topics.alpha
    if rules.learn_levels:
        alpha = expected_levels(alpha, total.logs, total.n_documents)
    if any(batch.stats is None for batch in batches):
        return replace(topics, alpha=alpha)
    counts, slots = np.maximum(total.counts, 0.0), np.maximum(total.slots, 0.0)
    return replace(topics, counts=counts, slots=slots, alpha=alpha)


def _ordered(state: PathState, rules: TreeRules) -> PathState:
    """Siblings by decreasing mass where that does not lower the bound."""
    before = state.topics.tree
    after = rules.paths.ordered(before, state.topics.slots)
    if after is before or np.array_equal(after.ids, before.ids):
        return state
    return PathState(
        state.topics.arranged(after),
        tuple(_rearranged(batch, before, after) for batch in state.batches),
        None if state.total is None else state.total.arranged(before, after),
    )


def _rearranged(batch: Visited, before: Tree, after: Tree) -> Visited:
    places = np.append(after.at(before.ids), -1).astype(np.int32)
    found = batch.found._replace(slots=places[batch.found.slots])
    stats = None if batch.stats is None else batch.stats.arranged(before, after)
    return Visited(batch.documents, found, batch.alpha, stats)
