"""Documents laid out for the kernels: some of them side by side, and where their tokens begin."""

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.inference.kernels._jit import kernel

Words = NDArray[np.int32]


@kernel()
def gathered(
    indptr: IntVec, words: Words, counts: Words, rows: IntVec
) -> tuple[IntVec, Words, Words]:
    """The arrays of the documents at these positions, in that order."""
    ends = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        ends[i + 1] = ends[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    some_words, some_counts = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.int32)
    for i in range(rows.size):
        start, stop = indptr[rows[i]], indptr[rows[i] + 1]
        some_words[ends[i] : ends[i + 1]] = words[start:stop]
        some_counts[ends[i] : ends[i + 1]] = counts[start:stop]
    return ends, some_words, some_counts


@kernel()
def token_starts(indptr: IntVec, counts: Words) -> IntVec:
    """Where the tokens of each document begin, and where those of the last one end."""
    starts = np.zeros(indptr.size, np.int64)
    n = 0
    for d in range(indptr.size - 1):
        own = counts[indptr[d] : indptr[d + 1]]
        for place in range(own.size):
            n += own[place]
        starts[d + 1] = n
    return starts
