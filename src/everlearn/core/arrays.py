"""Names for the arrays that pass between modules."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Vec: TypeAlias = NDArray[np.float64]
"""One float per item or per component."""
Mat: TypeAlias = NDArray[np.float64]
"""An array of floats with two axes. The docstring of each use says what they are."""
Cube: TypeAlias = NDArray[np.float64]
"""Three axes of floats, usually one square matrix a component."""
IntVec: TypeAlias = NDArray[np.int64]
"""Permanent ids or positions."""
Labels: TypeAlias = NDArray[np.int32]
"""The position of one component for each row."""
Table: TypeAlias = Any
"""Rows of numbers, a dense array or a SciPy CSR array; SciPy ships no types for the latter."""


def as_dense(table: Table) -> Mat:
    """The same numbers as a dense array."""
    return np.asarray(table.toarray() if sparse.issparse(table) else table)
