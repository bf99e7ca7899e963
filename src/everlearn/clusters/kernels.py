"""Compiled loops: nearest prototypes, communities of a graph, and votes of prototypes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.kernels.draws import xorshift64
from everlearn.kernels.jit import kernel

_TINY = 1e-12
"""A move of a node must gain more than this, so that rounding cannot move nodes forever."""
_MOST_SWEEPS = 50


@kernel()
def smallest(scores: Mat, k: int) -> NDArray[np.int32]:
    """Columns of the k smallest scores of each row, the smallest first, (n, k)."""
    n, m = scores.shape
    found = np.empty((n, k), np.int32)
    values = np.empty(k)
    for i in range(n):
        count = 0
        for j in range(m):
            score = scores[i, j]
            if count == k and score >= values[k - 1]:
                continue
            place = count if count < k else k - 1
            while place > 0 and values[place - 1] > score:
                values[place] = values[place - 1]
                found[i, place] = found[i, place - 1]
                place -= 1
            values[place] = score
            found[i, place] = j
            if count < k:
                count += 1
    return found


@kernel()
def votes(near: NDArray[np.int32], groups: Labels, n_groups: int) -> Labels:
    """The group with the largest sum of 1 / rank over the nearest prototypes of each row.

    near : (n_codebooks, n, k) prototypes of each row, the nearest first
    groups : group of each prototype of all codebooks
    """
    n_codebooks, n, k = near.shape
    size = len(groups) // n_codebooks
    chosen = np.empty(n, np.int32)
    tally = np.zeros(n_groups)
    for i in range(n):
        tally[:] = 0.0
        for book in range(n_codebooks):
            for rank in range(k):
                tally[groups[book * size + near[book, i, rank]]] += 1.0 / (rank + 1)
        chosen[i] = np.argmax(tally)
    return chosen


@kernel()
def communities(
    starts: IntVec, ends: IntVec, weights: Vec, resolution: float, word: np.uint64
) -> IntVec:
    """Communities of a graph by Louvain's method on modularity with a resolution.

    starts, ends, weights : symmetric links in CSR form
    word : start of the stream of draws that orders the nodes; not 0
    """
    n_nodes = len(starts) - 1
    group = np.arange(n_nodes)
    total = weights.sum()
    while True:
        n = len(starts) - 1
        order, word = _shuffled(n, word)
        own, n_moved = _moved(starts, ends, weights, order, resolution / total)
        n_groups = _renumber(own)
        for i in range(n_nodes):
            group[i] = own[group[i]]
        if n_groups == n or n_moved == 0:
            return group
        starts, ends, weights = _contracted(starts, ends, weights, own, n_groups)


@kernel()
def _shuffled(n: int, word: np.uint64) -> tuple[IntVec, np.uint64]:
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        word = xorshift64(word)
        j = np.int64((word >> np.uint64(11)) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    return order, word


@kernel()
def _moved(
    starts: IntVec, ends: IntVec, weights: Vec, order: IntVec, price: float
) -> tuple[IntVec, int]:
    """Move single nodes to the community that gains most, until none gains."""
    n = len(starts) - 1
    own = np.arange(n)
    degree = np.zeros(n)
    for i in range(n):
        for p in range(starts[i], starts[i + 1]):
            degree[i] += weights[p]
    volume = degree.copy()
    link, near, n_moved = np.zeros(n), np.empty(n, np.int64), 0
    for _ in range(_MOST_SWEEPS):
        changed = 0
        for i in order:
            old = own[i]
            near[0], count = old, 1
            for p in range(starts[i], starts[i + 1]):
                if ends[p] != i:
                    other = own[ends[p]]
                    if link[other] == 0.0 and other != old:
                        near[count] = other
                        count += 1
                    link[other] += weights[p]
            volume[old] -= degree[i]
            best, best_gain = old, link[old] - price * degree[i] * volume[old]
            for q in range(1, count):
                gain = link[near[q]] - price * degree[i] * volume[near[q]]
                if gain > best_gain + _TINY:
                    best, best_gain = near[q], gain
            for q in range(count):
                link[near[q]] = 0.0
            volume[best] += degree[i]
            if best != old:
                own[i] = best
                changed += 1
        n_moved += changed
        if changed == 0:
            break
    return own, n_moved


@kernel()
def _renumber(own: IntVec) -> int:
    """Number communities from 0 on in the order of their first node, in place."""
    number = np.full(len(own), -1)
    count = 0
    for i in range(len(own)):
        if number[own[i]] < 0:
            number[own[i]] = count
            count += 1
        own[i] = number[own[i]]
    return count


@kernel()
def _contracted(
    starts: IntVec, ends: IntVec, weights: Vec, own: IntVec, n_groups: int
) -> tuple[IntVec, IntVec, Vec]:
    """The graph whose nodes are the communities."""
    n = len(own)
    first = np.zeros(n_groups + 1, np.int64)
    for i in range(n):
        first[own[i] + 1] += 1
    first = np.cumsum(first)
    place, members = first[:-1].copy(), np.empty(n, np.int64)
    for i in range(n):
        members[place[own[i]]] = i
        place[own[i]] += 1
    total, seen, near = (
        np.zeros(n_groups),
        np.zeros(n_groups, np.bool_),
        np.empty(n_groups, np.int64),
    )
    new_starts = np.zeros(n_groups + 1, np.int64)
    new_ends, new_weights, size = np.empty(len(ends), np.int64), np.empty(len(ends)), 0
    for g in range(n_groups):
        count = 0
        for m in range(first[g], first[g + 1]):
            i = members[m]
            for p in range(starts[i], starts[i + 1]):
                other = own[ends[p]]
                if not seen[other]:
                    seen[other] = True
                    near[count] = other
                    count += 1
                total[other] += weights[p]
        for q in range(count):
            other = near[q]
            new_ends[size], new_weights[size] = other, total[other]
            size += 1
            total[other], seen[other] = 0.0, False
        new_starts[g + 1] = size
    return new_starts, new_ends[:size].copy(), new_weights[:size].copy()
