"""What a mixture accepts as rows and weights, and how it says no."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, validate_data

from everlearn.core.arrays import Table, Vec
from everlearn.inference.rows import Rows

_LARGEST = {"float64": 1e100, "float32": 1e15}
_LARGEST_COUNT = 2.0**53


def checked_rows(estimator: Any, X: Any, *, reset: bool, sample_weight: Any = None) -> Rows:
    """Rows fit for the estimator's family, or a ValueError that says what is wrong with them."""
    counts = estimator.family == "multinomial"
    table = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr" if counts else False,
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan" if estimator.family == "diagonal" else True,
        order=None if counts else "C",
    )
    if sparse.issparse(table):
        table = sparse.csr_array(table)
        table.sum_duplicates()
    _check_range(estimator, table, counts)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(
            sample_weight, table, dtype=np.float64, ensure_non_negative=True
        )
        if not weights.any():
            raise ValueError(
                f"'sample_weight' of {type(estimator).__name__} must have a positive entry. "
                f"Got {len(weights)} zeros."
            )
    return Rows(table, weights)


def _check_range(estimator: Any, table: Table, counts: bool) -> None:
    values: Vec = table.data if sparse.issparse(table) else table
    if values.size == 0:
        return
    name = type(estimator).__name__
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if counts and low < 0:
        raise ValueError(
            f"Negative values in data passed to {name}: counts are 0 or more, got {low:g}."
        )
    largest = _LARGEST_COUNT if counts else _LARGEST[estimator.dtype]
    if max(-low, high) > largest:
        raise ValueError(
            f"X of {name} must have entries of at most {largest:g} in size for "
            f"dtype={estimator.dtype!r}, so that sums of squares stay finite. "
            f"Got {max(-low, high, key=abs):g}."
        )
