"""Merging siblings of a tree of topics: the judgement is exact and needs no document.

Documents keep their levels, and those of either node get the merged one, with the children of
both. The gain is the difference of log-joints before and after (`tree_topics.log_joint`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.tree import Tree
from everlearn.inference.kernels.tree_merges import add_word_gains
from everlearn.inference.tree_topics import TreeRules, TreeTopics


@dataclass(frozen=True, slots=True)
class Merger:
    """`gone` becomes part of `kept`; both are ids. `gain` is in nats."""

    kept: int
    gone: int
    gain: float


def judge(
    found: TreeTopics, rules: TreeRules, level: int, below: IntVec | None = None
) -> list[Merger]:
    """Mergers of siblings on this level that gain something, the best first, each node once.

    `below` are the positions of the parents to look at; all, if not given.
    """
    tree, mass, totals = found.tree, found.mass, found.counts.sum(axis=0)
    guests = mass - found.slots
    judged: list[Merger] = []
    for parent in np.flatnonzero(tree.levels == level - 1) if below is None else below:
        children = tree.children(int(parent))
        if len(children) < 2:
            continue
        gains = _word_gains(found.counts, totals[children], children, rules.word_prior)
        gains += _seat_gains(mass[children], guests[children], rules.paths.gamma)
        for i, j in zip(*np.nonzero(np.triu(gains, 1) > 0), strict=True):
            pair = int(tree.ids[children[i]]), int(tree.ids[children[j]])
            judged.append(Merger(*pair, float(gains[i, j])))
    chosen: list[Merger] = []
    used: set[int] = set()
    for merger in sorted(judged, key=lambda m: -m.gain):
        if used.isdisjoint((merger.kept, merger.gone)):
            chosen.append(merger)
            used |= {merger.kept, merger.gone}
    return chosen


def merged(found: TreeTopics, mergers: Sequence[Merger]) -> TreeTopics:
    """The tree after mergers of different nodes, siblings by decreasing mass."""
    tree = found.tree
    kept = tree.at([merger.kept for merger in mergers])
    gone = tree.at([merger.gone for merger in mergers])
    slots, parents = found.slots.copy(), tree.parents.copy()
    slots[kept] += slots[gone]
    heirs = np.arange(len(tree) + 1)
    heirs[gone] = kept
    parents[1:] = heirs[parents[1:]]
    left = np.delete(np.arange(len(tree)), gone)
    order = left[np.argsort(tree.levels[left], kind="stable")]
    smaller = Tree(tree.ids, parents, tree.depth).taken(order)
    final = smaller.sorted_by(smaller.through(slots[order]))
    at = tree.at(final.ids)
    counts = np.take(found.counts, at, axis=1)
    counts[:, final.at(tree.ids[kept])] += found.counts[:, gone]
    return TreeTopics(final, counts, slots[at], found.alpha, found.next_id)


def merge_all(found: TreeTopics, rules: TreeRules) -> tuple[TreeTopics, list[Merger]]:
    """Merge siblings, from the top of the tree down, until no merger gains anything."""
    done: list[Merger] = []
    for level in range(1, rules.depth):
        below = None
        while mergers := judge(found, rules, level, below):
            found = merged(found, mergers)
            done += mergers
            kept = found.tree.at([merger.kept for merger in mergers])
            below = np.unique(found.tree.parents[kept])  # nothing has changed elsewhere
    return found, done


def _word_gains(counts: Mat, n: Vec, members: IntVec, word_prior: float) -> Mat:
    """How much likelier the words of two nodes are from one topic than from two, for i < j.

    `n` is how many tokens each member has.
    """
    width = len(counts) * word_prior
    alone = gammaln(n + width)
    gains = alone[:, None] + alone - gammaln(n[:, None] + n + width) - gammaln(width)
    add_word_gains(counts, members, word_prior, gains)
    return np.asarray(gains)


def _seat_gains(mass: Vec, guests: Vec, gamma: float) -> Mat:
    """How much likelier paths are with one branch instead of two.

    `mass` is that through each node, `guests` the part of it that went on to its children.
    """
    alone = gammaln(mass)
    tables = gammaln(mass[:, None] + mass) - alone[:, None] - alone - np.log(gamma)
    rooms = gammaln(guests + gamma)
    both = rooms[:, None] + rooms - gammaln(guests[:, None] + guests + gamma) - gammaln(gamma)
    used = guests > 0
    return np.asarray(tables + np.where(used[:, None] & used, both, 0.0))
