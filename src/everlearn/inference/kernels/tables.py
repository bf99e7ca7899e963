"""Tables of a restaurant franchise: how many times topics were ordered anew."""

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.draws import Words, advanced, uniform


@kernel()
def count_tables(tallies: Mat, alpha: Vec, streams: Words) -> Vec:
    """Tables of each topic, summed over documents (B, K); streams are brought up to date.

    The m-th customer of a topic opens a table with probability alpha / (alpha + m), m from 0:
    the law that Stirling numbers give, without them (BayesPA eq. 41).
    """
    totals = np.zeros(alpha.size)
    for d in range(tallies.shape[0]):
        word = streams[d]
        for k in range(alpha.size):
            for m in range(np.int64(tallies[d, k])):
                word = advanced(word)
                if m == 0 or uniform(word) * (alpha[k] + m) < alpha[k]:
                    totals[k] += 1.0
        streams[d] = word
    return totals
