"""How well the points of a document suit the mixtures of others, each point by its best topic."""

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.scalars import from_rank, to_rank


@kernel()
def best_path_scores(scores: Mat, log_weights: Mat, out: Vec) -> None:
    """out[j] = sum over points i of max over topics k of scores[i, k] + log_weights[j, k].

    scores : (n_points, n_topics); log_weights : (n_mixtures, n_topics); out : (n_mixtures,)
    """
    for j in range(out.size):
        total = 0.0
        for i in range(scores.shape[0]):
            best = to_rank(np.float64(-np.inf))
            for k in range(scores.shape[1]):
                rank = to_rank(scores[i, k] + log_weights[j, k])
                best = rank if rank > best else best
            total += from_rank(best)
        out[j] = total
