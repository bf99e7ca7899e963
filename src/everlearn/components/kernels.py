"""Rows on the paths of a tree of components: scores of slots, and sums over likely ones.

The precision of a path's coordinates has a Cholesky factor whose last row belongs to the path's
last node and whose other rows are those of the path of its parent. So one forward substitution
over all nodes, parents first, solves for all paths at once: y_i is the entry of node i, and the
score of a slot is its bias plus half the squares of y along its path.
"""

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.kernels.jit import FUSED, kernel

LIKELY = 40.0
"""Slots that are less likely than exp(-LIKELY) times the best are taken for impossible."""


@kernel(FUSED)
def path_scores(projections: Mat, paths: IntVec, levels: IntVec, factors: Mat, bias: Vec) -> Mat:
    """Scores of all slots, (n, K); `projections` become the entries y of the substitution.

    Parameters
    ----------
    projections : (n, K) precision times w_i . (t - centre)
    paths : (K, L) positions of the nodes of each path
    levels : (K,) of the nodes
    factors : (K, L) row of each node in the factors of the paths that pass it
    bias : (K,) what the score of a slot has besides
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
) -> tuple[float, float]:
    """Entropy of the slots of all rows, and the sum of log-sum-exp of their scores.

    `scores` and `solved` come from `path_scores`. Probabilities are added to `slots`, (K,),
    probability times E[x] E[x]' to the lower triangles of `moments`, (K, L, L), and probability
    times E[x] to the rows of `codes`, (n, K).
    """
    n, k = scores.shape
    entropy, evidence = 0.0, 0.0
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
        evidence += log_norm
        for s in range(k):
            if scores[row, s] <= best - LIKELY:
                continue
            p = np.exp(scores[row, s] - log_norm)
            entropy -= p * (scores[row, s] - log_norm)
            slots[s] += p
            last = levels[s]
            for a in range(last, -1, -1):
                value = solved[row, paths[s, a]]
                for b in range(a + 1, last + 1):
                    value -= factors[paths[s, b], a] * x[b]
                x[a] = value / factors[paths[s, a], a]
            for a in range(last + 1):
                codes[row, paths[s, a]] += p * x[a]
                for b in range(a + 1):
                    moments[s, a, b] += p * x[a] * x[b]
    return entropy, evidence
