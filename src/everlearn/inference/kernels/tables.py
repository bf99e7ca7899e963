"""Tables of a restaurant franchise: how many times topics were ordered anew."""

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Vec
from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.draws import Word, Words, advanced, uniform


@kernel()
def open_tables(
    d: int, tally: Vec | NDArray[np.float32], alpha: Vec, word: Word, tables: Mat
) -> Word:
    """Add the tables of a document (K,) to its row of `tables`; the stream is returned.

    The m-th customer of a topic opens a table with probability alpha / (alpha + m), m from 0:
    the law that Stirling numbers give, without them (BayesPA eq. 41).
    """
    for k in range(alpha.size):
        for m in range(np.int64(tally[k])):
            word = advanced(word)
            if m == 0 or uniform(word) * (alpha[k] + m) < alpha[k]:
                tables[d, k] += 1.0
    return word


@kernel()
def count_tables(tallies: Mat, alpha: Vec, streams: Words) -> Mat:
    """Tables of each document and topic (B, K); streams are brought up to date."""
    tables = np.zeros(tallies.shape)
    for d in range(tallies.shape[0]):
        streams[d] = open_tables(d, tallies[d], alpha, streams[d], tables)
    return tables
