"""Nats gained if the words of two nodes come from one topic instead of two."""

import math

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.kernels.jit import kernel


@kernel()
def add_word_gains(counts: Mat, members: IntVec, prior: float, gains: Mat) -> None:
    """Add the gain of merging the words of each pair i < j of `members`, without the totals.

    A word that both nodes have, a and b times, adds log gamma(a + b + prior) + log gamma(prior)
    - log gamma(a + prior) - log gamma(b + prior).
    """
    n = members.size
    which, alone = np.empty(n, np.int64), np.empty(n)
    base = math.lgamma(prior)
    for w in range(counts.shape[0]):
        used = 0
        for i in range(n):
            if counts[w, members[i]] > 0.0:
                which[used] = i
                used += 1
        if used < 2:
            continue
        for u in range(used):
            alone[u] = math.lgamma(counts[w, members[which[u]]] + prior)
        for u in range(used):
            a = counts[w, members[which[u]]] + prior
            for v in range(u + 1, used):
                both = math.lgamma(a + counts[w, members[which[v]]])
                gains[which[u], which[v]] += both + base - alone[u] - alone[v]


@kernel()
def add_children(parents: IntVec, counts: Mat) -> None:
    """Add the word counts of each node to its parent's, from the last node to the first."""
    for w in range(counts.shape[0]):
        for i in range(parents.size - 1, 0, -1):
            counts[w, parents[i]] += counts[w, i]
