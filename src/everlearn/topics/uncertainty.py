"""Intervals of the shares of topics among documents, by the Bayesian bootstrap.

Documents are independent, their words are not: so what is uncertain about a share is which
documents come. The bootstrap gives document d the weight g_d / sum g with g_d ~ Exp(1), which is
the posterior under a Dirichlet process without prior evidence (Rubin, 1981).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.random import stream

_DRAWS: Final = 4000
_DRAWS_AT_ONCE: Final = 100


def share_intervals(proportions: Mat, lengths: IntVec, rate: float, seed: int) -> Mat:
    """Lower and upper ends (K, 2) of the share of all tokens that each topic has.

    Parameters
    ----------
    proportions : ndarray of shape (n_documents, n_topics)
    lengths : ndarray of shape (n_documents,)
        Tokens of each document.
    rate : float
        Probability that a share is inside its interval.
    seed : int
        Seed of the draws.
    """
    rng, tokens = stream(seed, "sample", 3), proportions * lengths[:, None]
    found = []
    for _ in range(0, _DRAWS, _DRAWS_AT_ONCE):
        drawn = rng.standard_exponential((_DRAWS_AT_ONCE, len(lengths))) @ tokens
        found.append(drawn / drawn.sum(axis=1, keepdims=True))
    tail = 0.5 * (1.0 - rate)
    return np.asarray(np.quantile(np.concatenate(found), [tail, 1.0 - tail], axis=0).T)
