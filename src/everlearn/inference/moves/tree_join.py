"""Joining siblings that have children: what both have in common stays, the rest moves down.

Two branches that should be one often carry their common words twice, each mixed with words of its
own. Adding them up never pays then: their own words have to move to the level below first. A join
tries that on the documents that can still move, lets levels settle, and is kept if words, paths
and levels together are likelier than before.
"""

from __future__ import annotations

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.inference.kernels.tree_merges import add_children
from everlearn.inference.local.tree_sampler import TreeSampler
from everlearn.inference.moves.tree_merge import Merger, merged
from everlearn.inference.tree_topics import (
    TreeRules,
    TreeTopics,
    level_evidence,
    sampled_levels,
    topic_evidence,
)

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
