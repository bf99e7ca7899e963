"""Compiled loops over the paths of a tree of components: scores of slots, and sums over rows.

The precision of a path's coordinates has a Cholesky factor whose last row belongs to the path's
last node and whose other rows are those of the path of its parent. So one forward substitution
over all nodes, parents first, solves for all paths at once: y_i is the entry of node i, and the
score of a slot is its bias plus half the squares of y along its path.
"""

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.kernels.jit import FUSED, kernel

LIKELY = 40.0
"""A slot less likely than exp(-LIKELY) times the best one counts as impossible."""


@kernel(FUSED)
def path_scores(projections: Mat, paths: IntVec, levels: IntVec, factors: Mat, bias: Vec) -> Mat:
    """Scores of all slots, (n, K). Overwrites `projections` with the entries y.

    Parameters
    ----------
    projections : (n, K) precision times w_i . (t - centre)
    paths : (K, L) positions of the nodes of each path
    levels : (K,) level of each node
    factors : (K, L) row of each node in the Cholesky factors of the paths through it
    bias : (K,) added to the score of each slot
    """
    n, k = projections.shape
    scores = np.empty((n, k))
    for row in range(n):
        for i in range(k):
            level = levels[i]
            y = projections[row, i]
            for j in range(level):
                y -= factors[i, j] * projections[row, paths[i, j]]
            y /= factors[i, level]
            projections[row, i] = y
            above = scores[row, paths[i, level - 1]] if level > 0 else 0.0
            scores[row, i] = above + 0.5 * y * y
        for i in range(k):
            scores[row, i] += bias[i]
    return scores


@kernel(FUSED)
def path_sums(
    scores: Mat,
    solved: Mat,
    paths: IntVec,
    levels: IntVec,
    factors: Mat,
    codes: Mat,
    slots: Vec,
    moments: Cube,
) -> float:
    """Return the entropy of the slots of all rows. Add what rows contribute to three arrays.

    `scores` and `solved` come from `path_scores`. Adds probabilities to `slots`, (K,),
    probability times E[x] E[x]' to the lower triangles of `moments`, (K, L, L), and probability
    times E[x] to the rows of `codes`, (n, K).
    """
    n, k = scores.shape
    entropy = 0.0
    x = np.empty(paths.shape[1])
    for row in range(n):
        best = -np.inf
        for s in range(k):
            best = max(best, scores[row, s])
        norm = 0.0
        for s in range(k):
            if scores[row, s] > best - LIKELY:
                norm += np.exp(scores[row, s] - best)
        log_norm = best + np.log(norm)
        for s in range(k):
            if scores[row, s] <= best - LIKELY:
                continue
            p = np.exp(scores[row, s] - log_norm)
            entropy -= p * (scores[row, s] - log_norm)
            slots[s] += p
            last = levels[s]
            # Back substitution: E[x] on the levels of this path, the last level first.
            for a in range(last, -1, -1):
                value = solved[row, paths[s, a]]
                for b in range(a + 1, last + 1):
                    value -= factors[paths[s, b], a] * x[b]
                x[a] = value / factors[paths[s, a], a]
            for a in range(last + 1):
                codes[row, paths[s, a]] += p * x[a]
                for b in range(a + 1):
                    moments[s, a, b] += p * x[a] * x[b]
    return entropy
