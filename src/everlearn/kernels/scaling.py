"""Mean and spread of columns, one value at a time (Welford).

Values enter in the order of the rows, so the result has the same bits however rows are cut into
batches.
"""

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.kernels.jit import kernel


@kernel()
def add_rows(values: Mat, count: Vec, mean: Vec, squares: Vec) -> None:
    """Add dense rows to the last three, which are changed. NaN is a missing value."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            x = values[i, j]
            if not np.isnan(x):
                count[j] += 1.0
                apart = x - mean[j]
                mean[j] += apart / count[j]
                squares[j] += apart * (x - mean[j])


@kernel()
def add_entries(data: Vec, indices: np.ndarray, count: Vec, mean: Vec, squares: Vec) -> None:
    """Add the entries of CSR rows that are not zero to the last three, which are changed."""
    for k in range(data.shape[0]):
        x = data[k]
        if x != 0.0:
            j = indices[k]
            count[j] += 1.0
            apart = x - mean[j]
            mean[j] += apart / count[j]
            squares[j] += apart * (x - mean[j])
