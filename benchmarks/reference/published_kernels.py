"""Variational posteriors of paths and levels as published, with one posterior of levels.

Each word has one distribution over levels, whatever the path. The bound is looser than that of
`trees/kernels/paths.py`. Equations: docs/math/topic_tree.md.
"""

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.kernels.arrays import copy_to
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.trees.kernels.paths import (
    PathTable,
    Posteriors,
    Words,
    digamma,
    level_divergence,
    softmax,
)


@kernel(SUMMED)
def _split_words(
    words: Words, d: int, paths: PathTable, logs: Mat, q: Posteriors, levels: Mat, scores: Vec
) -> float:
    """Update levels of words given slots, then scores of slots given levels; return entropy."""
    depth, unseen = paths.alpha.size, np.log(paths.unseen)
    slots, shares, g = q.slots[d], q.shares[d], q.g[d, 0]
    expected = np.empty(depth)
    both = digamma(g.sum())
    for level in range(depth):
        expected[level] = digamma(g[level]) - both
    copy_to(g, paths.alpha)
    entropy = 0.0
    for place in range(words.indptr[d], words.indptr[d + 1]):
        w, count, phi = words.words[place], words.counts[place], levels[place]
        copy_to(phi, expected)
        for m in range(slots.size):
            if slots[m] >= 0 and shares[m] > 0.0:
                for level in range(depth):
                    node = paths.paths[slots[m], level]
                    phi[level] += shares[m] * (logs[w, node] if node >= 0 else unseen)
        softmax(phi.copy(), phi)
        for level in range(depth):
            g[level] += count * phi[level]
            if phi[level] > 0.0:
                entropy -= count * phi[level] * np.log(phi[level])
        for m in range(slots.size):
            if slots[m] >= 0:
                for level in range(depth):
                    node = paths.paths[slots[m], level]
                    seen = logs[w, node] if node >= 0 else unseen
                    scores[m] += count * phi[level] * seen
    return entropy


@kernel()
def infer_meanfield(
    words: Words,
    begin: int,
    end: int,
    paths: PathTable,
    logs: Mat,
    steps: int,
    q: Posteriors,
    phi: Mat,
) -> None:
    """Update levels and probabilities of candidate slots of each document, in turn.

    Writes the levels of each distinct word to `phi`, (n_entries, L).
    """
    most, depth = q.slots.shape[1], paths.alpha.size
    scores = np.empty(most)
    for d in range(begin, end):
        if q.g[d, 0, 0] == 0.0:
            n = 0
            for place in range(words.indptr[d], words.indptr[d + 1]):
                n += words.counts[place]
            q.g[d, 0] = paths.alpha * (1.0 + n / paths.alpha.sum())
            q.shares[d] = 0.0
            q.shares[d, 0] = 1.0
        bound = 0.0
        for _ in range(steps):
            for m in range(most):
                slot = q.slots[d, m]
                scores[m] = paths.log_weights[slot] if slot >= 0 else -np.inf
            bound = _split_words(words, d, paths, logs, q, phi, scores)
            bound += softmax(scores, q.shares[d])
        g = q.g[d, 0]
        both = digamma(g.sum())
        for level in range(depth):
            bound += (g[level] - paths.alpha[level]) * (digamma(g[level]) - both)
        q.bounds[d] = bound - level_divergence(g, paths.alpha)


@kernel()
def gather_meanfield(
    words: Words, paths: PathTable, q: Posteriors, phi: Mat, counts: Mat, slots: Vec, logs: Vec
) -> None:
    """Add each document's expected words by node, its slots, and E log theta by level."""
    for d in range(words.indptr.size - 1):
        g = q.g[d, 0]
        both = digamma(g.sum())
        for level in range(g.size):
            logs[level] += digamma(g[level]) - both
        for m in range(q.slots.shape[1]):
            share, slot = q.shares[d, m], q.slots[d, m]
            if slot < 0 or share <= 0.0:
                continue
            slots[slot] += share
            for place in range(words.indptr[d], words.indptr[d + 1]):
                part = share * words.counts[place]
                for level in range(g.size):
                    node = paths.paths[slot, level]
                    if node >= 0:
                        counts[words.words[place], node] += part * phi[place, level]
