"""Moves between sweeps of the sampler: merge siblings where one node is more probable.

A merger adds up the counts of two siblings and the children of both, and documents keep their
levels. Its gain, the difference of `model.log_joint`, is exact and needs no document.

A join also draws the levels of the documents anew: two branches often hold the same common words,
each mixed with words of its own, so that adding them up alone does not pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.tree import Tree
from everlearn.trees.kernels.merges import add_children, add_word_gains
from everlearn.trees.model import (
    TreeRules,
    TreeTopics,
    level_evidence,
    level_prior_of_counts,
    topic_evidence,
)
from everlearn.trees.sampler import TreeSampler


@dataclass(frozen=True, slots=True)
class Merger:
    """Node `gone` becomes part of node `kept`, both by id. `gain` is in nats."""

    kept: int
    gone: int
    gain: float


def gaining_mergers(
    topics: TreeTopics, rules: TreeRules, level: int, below: IntVec | None = None
) -> list[Merger]:
    """Merges of siblings on this level that make the tree more probable, best first, once a node.

    `below` restricts them to the children of these nodes, given by position.
    """
    tree, mass, totals = topics.tree, topics.mass, topics.counts.sum(axis=0)
    passed_on = mass - topics.slots
    found: list[Merger] = []
    for parent in np.flatnonzero(tree.levels == level - 1) if below is None else below:
        children = tree.children(int(parent))
        if len(children) < 2:
            continue
        gains = _word_gains(topics.counts, totals[children], children, rules.word_prior)
        gains += _path_gains(mass[children], passed_on[children], rules.paths.gamma)
        for i, j in zip(*np.nonzero(np.triu(gains, 1) > 0), strict=True):
            pair = int(tree.ids[children[i]]), int(tree.ids[children[j]])
            found.append(Merger(*pair, float(gains[i, j])))
    chosen: list[Merger] = []
    used: set[int] = set()
    for merger in sorted(found, key=lambda m: -m.gain):
        if used.isdisjoint((merger.kept, merger.gone)):
            chosen.append(merger)
            used |= {merger.kept, merger.gone}
    return chosen


def merged(topics: TreeTopics, mergers: Sequence[Merger]) -> TreeTopics:
    """The tree after mergers of different nodes, siblings by decreasing mass."""
    tree = topics.tree
    kept = tree.at([merger.kept for merger in mergers])
    gone = tree.at([merger.gone for merger in mergers])
    slots, parents = topics.slots.copy(), tree.parents.copy()
    slots[kept] += slots[gone]
    heirs = np.arange(len(tree) + 1)
    heirs[gone] = kept
    parents[1:] = heirs[parents[1:]]
    left = np.delete(np.arange(len(tree)), gone)
    order = left[np.argsort(tree.levels[left], kind="stable")]
    smaller = Tree(tree.ids, parents, tree.depth).taken(order)
    final = smaller.sorted_by(smaller.through(slots[order]))
    at = tree.at(final.ids)
    counts = np.take(topics.counts, at, axis=1)
    counts[:, final.at(tree.ids[kept])] += topics.counts[:, gone]
    return TreeTopics(final, counts, slots[at], topics.alpha, topics.next_id)


def merge_all(topics: TreeTopics, rules: TreeRules) -> tuple[TreeTopics, list[Merger]]:
    """Merge siblings, from the top of the tree down, until no merger gains anything."""
    done: list[Merger] = []
    for level in range(1, rules.depth):
        below = None
        while mergers := gaining_mergers(topics, rules, level, below):
            topics = merged(topics, mergers)
            done += mergers
            kept = topics.tree.at([merger.kept for merger in mergers])
            # Only where siblings were merged can a further merger have begun to pay.
            below = np.unique(topics.tree.parents[kept])
    return topics, done


def merge_nodes(sampler: TreeSampler, rules: TreeRules) -> None:
    """Merge siblings of a sampled tree, in place, until no merger gains anything."""
    topics, mergers = merge_all(sampler.topics(), rules)
    if mergers:
        sampler.replace_tree(topics, {merger.gone: merger.kept for merger in mergers})


def _word_gains(counts: Mat, n: Vec, members: IntVec, word_prior: float) -> Mat:
    """Gain in log-probability if the words of two nodes come from one topic, not two, for i < j.

    `n` is how many tokens each member has.
    """
    width = len(counts) * word_prior
    alone = gammaln(n + width)
    gains = alone[:, None] + alone - gammaln(n[:, None] + n + width) - gammaln(width)
    add_word_gains(counts, members, word_prior, gains)
    return np.asarray(gains)


def _path_gains(mass: Vec, passed_on: Vec, gamma: float) -> Mat:
    """Gain in log-probability of the paths with one branch instead of two.

    `mass` is that of each node, `passed_on` the part of it that went on to its children.
    """
    alone = gammaln(mass)
    at_parent = gammaln(mass[:, None] + mass) - alone[:, None] - alone - np.log(gamma)
    below = gammaln(passed_on + gamma)
    together = gammaln(passed_on[:, None] + passed_on + gamma)
    at_node = below[:, None] + below - together - gammaln(gamma)
    used = passed_on > 0
    return np.asarray(at_parent + np.where(used[:, None] & used, at_node, 0.0))


TRIES = 8
"""Most pairs that one call tries on a level."""
PATIENCE = 2
"""A level is done after this many tries in a row without a gain."""
_SETTLING_SWEEPS = 4
_COMMON = 0.3
"""A word is common to two branches if the smaller of its shares in them is at least this part of
the larger one."""


def join_siblings(
    sampler: TreeSampler, rules: TreeRules, seed: int, clock: int
) -> tuple[TreeSampler, list[Merger]]:
    """Try the likeliest joins on each level but the last. Keep those that gain.

    Returns the sampler after the joins, which is another object if there is one.
    """
    done: list[Merger] = []
    for level in range(1, rules.depth - 1):
        tried = failed = 0
        topics = sampler.topics()
        for kept, gone in likely_pairs(topics, level):
            if tried == TRIES or failed == PATIENCE:
                break
            if (topics.tree.at([kept, gone]) < 0).any():
                continue  # one of them has joined another node meanwhile
            tried += 1
            place = (clock * rules.depth + level) * TRIES + tried
            trial = _joined(sampler, topics, (kept, gone), level, seed, place)
            gain = _gain(sampler, trial, topics, (kept, gone), rules)
            failed += 1
            if gain > 0:
                sampler, topics, failed = trial, trial.topics(), 0
                done.append(Merger(kept, gone, gain))
    return sampler, done


def likely_pairs(topics: TreeTopics, level: int) -> list[tuple[int, int]]:
    """Ids of siblings on a level, pairs with the most similar words below them first."""
    tree = topics.tree
    whole = topics.counts.copy()
    add_children(tree.parents, whole)
    pairs = []
    for parent in np.flatnonzero(tree.levels == level - 1):
        children = tree.children(int(parent))
        words = np.sqrt(whole[:, children])
        words /= np.maximum(np.sqrt((words**2).sum(axis=0)), 1e-100)
        alike = words.T @ words
        for i, j in zip(*np.triu_indices(len(children), 1), strict=True):
            pairs.append((-alike[i, j], int(tree.ids[children[i]]), int(tree.ids[children[j]])))
    return [(kept, gone) for _, kept, gone in sorted(pairs)]


def _joined(
    sampler: TreeSampler, topics: TreeTopics, pair: tuple[int, int], level: int, seed: int,
    place: int,
) -> TreeSampler:  # fmt: skip
    """A copy of the sampler with two branches as one, and their documents' levels redrawn."""
    below = [topics.tree.descends(int(i)) for i in topics.tree.at(pair)]
    whole = np.stack([topics.counts[:, nodes].sum(axis=1) for nodes in below], axis=1)
    shares = whole / np.maximum(whole.sum(axis=0), 1e-100)
    common = shares.min(axis=1) >= _COMMON * shares.max(axis=1)
    trial = sampler.copy(merged(topics, [Merger(*pair, 0.0)]))
    rows = trial.through(pair[0])
    trial.move_down(rows, level, common)
    for i in range(_SETTLING_SWEEPS):
        trial.sweep_levels(rows, seed, place * _SETTLING_SWEEPS + i)
    return trial


def _gain(
    before: TreeSampler, after: TreeSampler, topics: TreeTopics, pair: tuple[int, int],
    rules: TreeRules,
) -> float:  # fmt: skip
    """Change of the log-joint by a join, computed from the nodes that it has changed."""
    joined = after.topics()
    at = topics.tree.at(pair)
    touched = topics.tree.descends(int(at[0])) | topics.tree.descends(int(at[1]))
    ids = np.union1d(topics.tree.ids[touched], topics.tree.ids[topics.tree.paths[at[0], :-1]])
    gain = _part(after, joined, ids, rules) - _part(before, topics, ids, rules)
    seats = rules.paths.log_seating(joined.tree, joined.slots)
    return gain + seats - rules.paths.log_seating(topics.tree, topics.slots)


def _part(sampler: TreeSampler, topics: TreeTopics, ids: IntVec, rules: TreeRules) -> float:
    """Log-joint of the words of some nodes, and of all levels under their best prior."""
    at = topics.tree.at(ids)
    words = topic_evidence(topics.counts[:, at[at >= 0]], rules.word_prior).sum()
    levels, alpha = sampler.level_counts, topics.alpha
    if rules.learn_levels:
        alpha = level_prior_of_counts(alpha, levels)
    return float(words) + level_evidence(levels, alpha)
