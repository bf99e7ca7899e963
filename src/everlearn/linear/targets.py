"""Check the numbers to predict, and convert them to one column for each task."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from everlearn.core.arrays import Mat
from everlearn.estimator.base import named_errors
from everlearn.estimator.tables import check_size, plain_values


class NumberTargets(NamedTuple):
    """How many numbers are predicted for a row, and whether `y` has one axis only."""

    n_tasks: int
    flat: bool

    def __str__(self) -> str:
        return "a number for each row" if self.flat else f"a matrix with {self.n_tasks} columns"


def read_numbers(estimator: Any, y: Any, n_rows: int) -> tuple[Mat, NumberTargets]:
    """Targets of shape (n_rows, n_tasks), and what they are; errors name the estimator."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    with named_errors(estimator, "y"):
        if np.ma.is_masked(y):
            raise ValueError("expected a number for each row, got masked entries")
        if sparse.issparse(y):
            raise ValueError("expected a dense array, got a sparse one")
        values = plain_values(y)
        shape = np.shape(values)
        if len(shape) not in (1, 2) or shape[0] != n_rows:
            raise ValueError(f"expected a number for each of {n_rows} rows, got shape {shape}")
        numbers = check_array(values, dtype=np.float64, ensure_2d=False, input_name="y")
        check_size(numbers)
    table = np.ascontiguousarray(numbers.reshape(n_rows, -1))
    return table, NumberTargets(table.shape[1], numbers.ndim == 1)
