"""Checks of tables of numbers and of weights, before any estimator learns from them."""

from __future__ import annotations

from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from everlearn.core.arrays import Table, Vec
from everlearn.engine.opening import is_collection
from everlearn.estimator.base import named_errors

_NOT_NUMBERS = (str, bytes, date, time, timedelta, np.datetime64, np.timedelta64)
LARGEST = 1e100
"""Entries of this size have squares that can still be added up."""


def refuse_collection(X: Any) -> None:
    """Refuse a Dask collection, rather than load all of it into this process."""
    if is_collection(X):
        raise TypeError(
            f"expected data in memory, got a Dask collection ({type(X).__name__}): pass its "
            "chunks one by one, for instance with map_blocks or map_partitions, or call compute()"
        )


def plain_numbers(X: Any) -> Any:
    """The rows, unless they are text, dates or records, which NumPy would turn into numbers.

    Masked entries become NaN.
    """
    refuse_collection(X)
    X = np.asarray(X) if isinstance(X, (list, tuple)) else X
    if isinstance(X, np.ndarray):
        _check_kind(X, "an array")
    elif hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name in X.columns:
            some = np.asarray(X[name].head(0))
            _check_kind(np.asarray(X[name]) if some.dtype == object else some, f"column {name!r}")
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.result_type(X.dtype, np.float32), copy=False), np.nan)
    return X


def _check_kind(array: NDArray[Any], where: str) -> None:
    """Refuse an array that holds something else than numbers."""
    if array.dtype.kind in "USMmV":
        raise ValueError(f"expected numbers, got {where} of dtype {array.dtype}")
    if array.dtype == object:
        for value in array.flat:
            if isinstance(value, _NOT_NUMBERS):
                raise ValueError(f"expected numbers, got {where} with {value!r:.40}")


def canonical(table: Table) -> Table:
    """The table; if sparse, as a CSR array with sorted rows in which no column comes twice."""
    if not sparse.issparse(table):
        return table
    table = sparse.csr_array(table)
    if not table.has_canonical_format:
        table = table.copy()  # the caller's arrays stay as they are
        table.sum_duplicates()
    return table


def checked_table(
    estimator: BaseEstimator, X: Any, *, reset: bool, accept_sparse: bool = True
) -> Table:
    """Finite float64 rows, dense or CSR, or a ValueError that says what is wrong with them."""
    with named_errors(estimator, "X"):
        table = canonical(
            validate_data(
                estimator,
                plain_numbers(X),
                reset=reset,
                accept_sparse="csr" if accept_sparse else False,
                dtype=np.float64,
                ensure_all_finite="allow-nan",
                order="C",
            )
        )
        refuse_missing(estimator, table)
        check_size(table.data if sparse.issparse(table) else table)
    return table


def refuse_missing(
    estimator: object, table: Table, what: str = "it", others: str = "DPMixture and OnlinePPCA"
) -> None:
    """Refuse missing values, which `what` does not take but `others` do."""
    values = table.data if sparse.issparse(table) else table
    if values.size and np.isnan(values.min()):
        raise ValueError(
            f"X of {type(estimator).__name__} contains NaN (a missing value), which {what} does "
            f"not take; {others} do. Fill gaps, such as by sklearn.impute.SimpleImputer, or leave "
            "these rows out."
        )


def check_size(values: Any) -> None:
    """Refuse numbers whose squares cannot be added up."""
    size = float(np.abs(values).max(initial=0.0))
    if size > LARGEST:
        raise ValueError(
            f"expected entries of at most {LARGEST:g} in size, so that sums of squares stay "
            f"finite, got {size:g}"
        )


def checked_weights(
    estimator: BaseEstimator,
    sample_weight: Any,
    table: Table,
    largest: float,
    largest_square: float,
) -> Vec:
    """Weights of the rows, of which the largest entry is `largest` in size.

    Weight times squared entry is at most `largest_square`, so that sums of these stay finite.
    """
    name = type(estimator).__name__
    with named_errors(estimator, "sample_weight"):
        weights: Vec = _check_sample_weight(
            sample_weight, table, dtype=np.float64, ensure_non_negative=True
        )
    if not weights.any():
        raise ValueError(
            f"'sample_weight' of {name} must have a positive entry. Got {len(weights)} zeros."
        )
    limit = largest_square / max(1.0, largest) ** 2
    if weights.max() > limit:
        raise ValueError(
            f"'sample_weight' of {name} must have entries of at most {limit:g} for X with entries "
            f"of up to {largest:g}, so that sums stay finite. Got {weights.max():g}."
        )
    return weights
