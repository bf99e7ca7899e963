"""Array operations as loops, which compile faster than NumPy expressions.

For `out[:] = values`, numba also compiles an error message, which takes a second. For
`values.max()` and `values.sum()` it compiles iterators over any number of axes.
"""

from typing import Any

import numpy as np

from everlearn.core.arrays import IntVec, Vec
from everlearn.kernels.jit import kernel


@kernel(inner=True)
def copy_to(out: Any, values: Any) -> None:
    """Copy values of one axis to an array of the same length."""
    for i in range(out.size):
        out[i] = values[i]


@kernel(inner=True)
def largest(values: Vec) -> np.float64:
    """The largest value of an array that is not empty and has no NaN."""
    best: np.float64 = values[0]
    for i in range(1, values.size):
        best = max(best, values[i])
    return best


@kernel(inner=True)
def sum_of(values: Vec) -> float:
    """The sum, from the first value to the last."""
    found = 0.0
    for i in range(values.size):
        found += values[i]
    return found


@kernel()
def longest_run(starts: IntVec) -> int:
    """Length of the longest run. `starts` has the begin of each run, and the end of the last."""
    longest = 0
    for i in range(starts.size - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    return longest
