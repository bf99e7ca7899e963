"""Variational learning of a tree of topics from documents that are visited again and again.

Documents come in batches whose statistics are remembered: a visit replaces those of its batch and
brings topics, sticks and the prior of levels up to date. One batch of all documents is batch
learning. The bound is exact for all documents after every visit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine
from everlearn.trees.local import MeanFieldStep, PathStats, PathStep, expected_table, level_constant
from everlearn.trees.model import (
    TreeRules,
    TreeTopics,
    expected_levels,
    sampled_levels,
    topic_evidence,
    young_prior,
)
from everlearn.trees.moves import Seen, join_siblings, merge_all, paper_moves
from everlearn.trees.sampler import TreeSampler

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


LEVELS_EVERY = 2
JOIN_EVERY, MERGE_EVERY = 5, 10
CHOOSE_EVERY = 4
"""Sweeps between changes of the prior of levels, between joins and mergers, between looks at all
slots."""
_LAPS_AFTER = 2
"""Laps that follow the last change of the tree, so that documents find their places in it."""
Report = Callable[[int, int], None]
"""Is told how many sweeps are done, and how many nodes there are."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How a corpus is learned.

    Attributes
    ----------
    n_sweeps : sweeps of the sampler after each document was drawn once; in the first half of them
        the prior of words is smaller and grows, so that topics can form
    n_iterations : variational visits of each batch
    step : the local step of visits
    n_batches : batches whose statistics are remembered; 1 is batch learning
    moves : "sampled" merges drawn siblings where that is likelier; "paper" grows, prunes and
        merges between visits; None leaves the drawn tree as it is
    min_mass : documents that a branch needs to stay
    """

    n_sweeps: int
    n_iterations: int
    step: Step
    n_batches: int = 1
    moves: str | None = "sampled"
    min_mass: float = 0.5


def drawn(
    documents: Documents, start: TreeTopics, rules: TreeRules, plan: BatchPlan, seed: int,
    report: Report,
) -> tuple[TreeTopics, Mat]:  # fmt: skip
    """A sampled tree of all documents, and the tokens of each document by level.

    Levels are learned under the full prior of words only: while topics form, siblings that will
    be joined hold the words of all levels, and the prior would switch the last one off.
    """
    final, half = rules, max(plan.n_sweeps / 2, 1e-9)
    rules = replace(final, word_prior=young_prior(final.word_prior, float(plan.n_sweeps == 0)))
    sampler = TreeSampler(start, rules)
    sampler.add(documents, seed, 0)
    join_at = wait = JOIN_EVERY
    for done in range(1, plan.n_sweeps + 1):
        rules = replace(final, word_prior=young_prior(final.word_prior, done / half))
        sampler.word_prior = rules.word_prior
        sampler.sweep(seed, done)
        if rules.learn_levels and done >= half and done % LEVELS_EVERY == 0:
            sampler.alpha = sampled_levels(sampler.alpha, sampler.level_counts)
        moving = plan.moves == "sampled" and done < plan.n_sweeps
        if moving and done >= join_at:
            sampler, joined = join_siblings(sampler, rules, seed, done)
            wait = JOIN_EVERY if joined else 2 * wait  # what never pays is tried ever less
            join_at = done + wait
        if moving and done % MERGE_EVERY == 0:
            merge_nodes(sampler, rules)
        report(done, sampler.n_nodes)
    if plan.moves == "sampled":
        sampler, _ = join_siblings(sampler, rules, seed, plan.n_sweeps + 1)
        merge_nodes(sampler, rules)
    return sampler.found(), sampler.level_counts


def merge_nodes(sampler: TreeSampler, rules: TreeRules) -> None:
    """Merge siblings of a drawn tree wherever that makes it likelier."""
    found, mergers = merge_all(sampler.found(), rules)
    if mergers:
        sampler.replace_tree(found, {merger.gone: merger.kept for merger in mergers})


def refined(
    topics: TreeTopics, documents: Documents, rules: TreeRules, plan: BatchPlan, engine: Engine,
    seed: int, report: Report,
) -> tuple[PathState, list[float]]:  # fmt: skip
    """The tree after variational visits, and the bound after each lap over all documents."""
    size = -(-len(documents) // plan.n_batches)
    batches = [documents[i : i + size] for i in range(0, len(documents), size)]
    if plan.n_iterations <= _LAPS_AFTER:
        topics = pruned(topics, plan.min_mass)
    state = begin(topics, batches, plan.step)
    bounds: list[float] = []
    fresh = 0
    for lap in range(plan.n_iterations):
        for which in range(len(batches)):
            choose = (lap - fresh) % CHOOSE_EVERY == 0
            state = visit(state, which, rules, plan.step, engine, choose=choose)
        bounds.append(state.bound(rules))
        report(lap + 1, len(state.topics.tree))
        edited = _edited(state, rules, plan, seed, lap)
        if edited is not state.topics:
            state, fresh = begin(edited, batches, plan.step), lap + 1
    return state, bounds


def _edited(state: PathState, rules: TreeRules, plan: BatchPlan, seed: int, lap: int) -> TreeTopics:
    """The tree after the moves that are due; the last laps are without them."""
    left = plan.n_iterations - 1 - lap
    topics = state.topics
    if plan.moves == "paper" and left >= _LAPS_AFTER and lap % 3 == 2:
        known = [Seen(b.documents, b.found.slots, b.found.shares) for b in state.batches]
        topics = paper_moves(topics, known, rules, seed, lap)
    return pruned(topics, plan.min_mass) if left == _LAPS_AFTER else topics


def pruned(topics: TreeTopics, min_mass: float) -> TreeTopics:
    """Without branches of fewer documents, which the slots of their parents take in.

    A node of the last level that has fewer tokens goes as well: a path that leaves the tree there
    says the same.
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
    """Without branches that no document has a share in: nothing is lost with them."""
    empty = np.flatnonzero(topics.mass[1:] <= 0.0) + 1
    return topics.arranged(topics.tree.without(empty)) if len(empty) else topics


def level_tokens(state: PathState) -> Mat:
    """Expected tokens of each document at each level."""
    parts = []
    for batch in state.batches:
        shares, g = batch.found.shares, batch.found.g
        mean: Vec = g if g.ndim == 2 else np.einsum("nm,nml->nl", shares, g)
        parts.append(np.maximum(mean - batch.alpha, 0.0))
    return np.concatenate(parts)
