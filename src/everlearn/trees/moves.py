"""Merging siblings of a tree of topics: the judgement is exact and needs no document.

Documents keep their levels, and those of either node get the merged one, with the children of
both. The gain is the difference of log-joints before and after (`tree_topics.log_joint`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.core.tree import Tree
from everlearn.trees.kernels.paths import Slots
from everlearn.trees.kernels.scores import add_children, add_word_gains
from everlearn.trees.model import (
    TreeRules,
    TreeTopics,
    level_evidence,
    sampled_levels,
    topic_evidence,
)
from everlearn.trees.sampler import TreeSampler


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


TRIES = 8
"""Pairs that are tried on a level at a time."""
PATIENCE = 2
"""So many tries without a gain, one after the other, end them."""
_SETTLING = 4
_COMMON = 0.3
"""A word is common to two branches if its share in one is so much of that in the other."""


def join_siblings(
    sampler: TreeSampler, rules: TreeRules, seed: int, clock: int
) -> tuple[TreeSampler, list[Merger]]:
    """Try the likeliest joins on each level but the last; the sampler after those that gained."""
    done: list[Merger] = []
    for level in range(1, rules.depth - 1):
        tried = failed = 0
        here = sampler.found()
        for kept, gone in likely_pairs(here, level):
            if tried == TRIES or failed == PATIENCE:
                break
            if (here.tree.at([kept, gone]) < 0).any():
                continue  # one of them has joined another meanwhile
            tried += 1
            place = (clock * rules.depth + level) * TRIES + tried
            trial = _joined(sampler, here, (kept, gone), level, seed, place)
            gain = _gain(sampler, trial, here, (kept, gone), rules)
            failed += 1
            if gain > 0:
                sampler, here, failed = trial, trial.found(), 0
                done.append(Merger(kept, gone, gain))
    return sampler, done


def likely_pairs(found: TreeTopics, level: int) -> list[tuple[int, int]]:
    """Ids of siblings on a level, those with the most similar words below them first."""
    tree = found.tree
    whole = found.counts.copy()
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
    sampler: TreeSampler, here: TreeTopics, pair: tuple[int, int], level: int, seed: int, place: int
) -> TreeSampler:
    """A copy in which two branches are one and their documents' levels have settled."""
    below = [here.tree.descends(int(i)) for i in here.tree.at(pair)]
    whole = np.stack([here.counts[:, nodes].sum(axis=1) for nodes in below], axis=1)
    shares = whole / np.maximum(whole.sum(axis=0), 1e-100)
    common = shares.min(axis=1) >= _COMMON * shares.max(axis=1)
    trial = sampler.copy(merged(here, [Merger(*pair, 0.0)]))
    rows = trial.through(pair[0])
    trial.move_down(rows, level, common)
    for i in range(_SETTLING):
        trial.sweep_levels(rows, seed, place * _SETTLING + i)
    return trial


def _gain(
    before: TreeSampler, after: TreeSampler, here: TreeTopics, pair: tuple[int, int],
    rules: TreeRules,
) -> float:  # fmt: skip
    """How much likelier everything is after a join: only what it has touched is looked at."""
    there = after.found()
    rows = after.through(pair[0])
    at = here.tree.at(pair)
    touched = here.tree.descends(int(at[0])) | here.tree.descends(int(at[1]))
    ids = np.union1d(here.tree.ids[touched], here.tree.ids[here.tree.paths[at[0], :-1]])
    gain = _part(after, there, ids, rows, rules) - _part(before, here, ids, rows, rules)
    seats = rules.paths.log_seating(there.tree, there.slots)
    return gain + seats - rules.paths.log_seating(here.tree, here.slots)


def _part(
    sampler: TreeSampler, found: TreeTopics, ids: IntVec, rows: IntVec, rules: TreeRules
) -> float:
    """Words of some nodes and levels of some documents."""
    at = found.tree.at(ids)
    words = topic_evidence(found.counts[:, at[at >= 0]], rules.word_prior).sum()
    levels, alpha = sampler.level_counts, found.alpha
    if rules.learn_levels:
        alpha = sampled_levels(alpha, levels)
    return float(words) + level_evidence(levels, alpha)
