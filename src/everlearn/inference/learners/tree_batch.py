"""Learning a tree of topics from a corpus: drawn first, then refined by variational visits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.inference.engine import Engine
from everlearn.inference.learners.tree_visits import PathState, Step, begin, visit
from everlearn.inference.local.tree_sampler import TreeSampler
from everlearn.inference.moves.tree_join import join_siblings
from everlearn.inference.moves.tree_merge import merge_all
from everlearn.inference.moves.tree_paper import Seen, paper_moves
from everlearn.inference.tree_topics import TreeRules, TreeTopics, sampled_levels, young_prior

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
