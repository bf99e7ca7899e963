"""Where documents belong in a tree of topics, with one posterior of levels for all paths.

The family of the nested Chinese restaurant process' variational paper: path and levels of a
document are independent. `logs` (V, K) are the expected logarithms of word probabilities. Every
document writes to its own places. Equations: docs/math/topic_tree.md.
"""

from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.inference.kernels._jit import SUMMED, kernel
from everlearn.inference.kernels.tree_paths import (
    PathTable,
    Slots,
    Words,
    digamma,
    level_divergence,
    softmax,
)


class Blended(NamedTuple):
    """What was found of documents.

    slots, shares : (N, M) slots that were looked at, and their probabilities
    g : (N, L) Dirichlet parameters of levels
    phi : (n_entries, L) probability of each level for each distinct word of a document
    bounds : (N,) what each document contributes to the bound
    """

    slots: Slots
    shares: Mat
    g: Mat
    phi: Mat
    bounds: Vec


@kernel(SUMMED)
def _split_words(
    words: Words, d: int, paths: PathTable, logs: Mat, found: Blended, scores: Vec
) -> float:
    """Levels of words under the shares of slots; scores of slots under these; their entropy."""
    depth, unseen = paths.alpha.size, np.log(paths.unseen)
    slots, shares, g = found.slots[d], found.shares[d], found.g[d]
    expected = np.empty(depth)
    both = digamma(g.sum())
    for level in range(depth):
        expected[level] = digamma(g[level]) - both
    g[:] = paths.alpha
    entropy = 0.0
    for place in range(words.indptr[d], words.indptr[d + 1]):
        w, count, phi = words.words[place], words.counts[place], found.phi[place]
        phi[:] = expected
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
def blend_paths(
    words: Words, begin: int, end: int, paths: PathTable, logs: Mat, steps: int, found: Blended
) -> None:
    """Levels of each document and probabilities of the slots chosen for it, in turn."""
    most, depth = found.slots.shape[1], paths.alpha.size
    scores = np.empty(most)
    for d in range(begin, end):
        if found.g[d, 0] == 0.0:
            n = 0
            for place in range(words.indptr[d], words.indptr[d + 1]):
                n += words.counts[place]
            found.g[d] = paths.alpha * (1.0 + n / paths.alpha.sum())
            found.shares[d] = 0.0
            found.shares[d, 0] = 1.0
        bound = 0.0
        for _ in range(steps):
            for m in range(most):
                slot = found.slots[d, m]
                scores[m] = paths.log_weights[slot] if slot >= 0 else -np.inf
            bound = _split_words(words, d, paths, logs, found, scores)
            bound += softmax(scores, found.shares[d])
        g = found.g[d]
        both = digamma(g.sum())
        for level in range(depth):
            bound += (g[level] - paths.alpha[level]) * (digamma(g[level]) - both)
        found.bounds[d] = bound - level_divergence(g, paths.alpha)


@kernel()
def gather_blended(
    words: Words, paths: PathTable, found: Blended, counts: Mat, slots: Vec, logs: Vec
) -> None:
    """Add what documents say: words by node, documents by slot, E log theta by level."""
    for d in range(words.indptr.size - 1):
        g = found.g[d]
        both = digamma(g.sum())
        for level in range(g.size):
            logs[level] += digamma(g[level]) - both
        for m in range(found.slots.shape[1]):
            share, slot = found.shares[d, m], found.slots[d, m]
            if slot < 0 or share <= 0.0:
                continue
            slots[slot] += share
            for place in range(words.indptr[d], words.indptr[d + 1]):
                part = share * words.counts[place]
                for level in range(g.size):
                    node = paths.paths[slot, level]
                    if node >= 0:
                        counts[words.words[place], node] += part * found.phi[place, level]
