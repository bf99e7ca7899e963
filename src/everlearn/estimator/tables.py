"""Checks of tables of numbers and of weights, before any estimator learns from them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from numbers import Number
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from everlearn.core.arrays import Table, Vec
from everlearn.engine.opening import is_collection
from everlearn.estimator.base import (
    MISSING_VALUES_MESSAGE,
    MODELS_WITH_MISSING_VALUES,
    named_errors,
)

_TEXT_ADVICE = ", learn categories by DPMixture(family='auto')"
_DATE_ADVICE = ", such as days since a date"
_NOT_NUMBERS = (str, bytes, date, time, timedelta, np.datetime64, np.timedelta64)
_NO_TABLE: Final = "rows must be a table, such as [[1.0, 2.0]] or a data frame; got"
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
    """The rows as a table of numbers, checked without a copy. Masked entries become NaN.

    Refuses text, dates and records, which NumPy would turn into numbers.
    """
    refuse_collection(X)
    X = _as_table(X)
    _check_columns(X)
    return _unmasked(X)


def plain_values(y: Any) -> Any:
    """As `plain_numbers`, for values of any shape, such as targets."""
    refuse_collection(y)
    if isinstance(y, Sequence) and not isinstance(y, (str, bytes)):
        y = _stacked(y)
    elif not (hasattr(y, "__array__") or sparse.issparse(y)):
        raise TypeError(f"expected a number for each row, got {described(y)}")
    elif not (hasattr(y, "shape") or hasattr(y, "columns")):
        y = np.asarray(y)
    _check_columns(y)
    return _unmasked(y)


def _as_table(X: Any) -> Any:
    """What has rows and columns; a list of rows becomes an array."""
    if isinstance(X, (str, bytes, os.PathLike)):
        raise TypeError(
            f"{_NO_TABLE} {X!r:.80}; read a file first, as by pandas.read_csv or read_parquet"
        )
    if isinstance(X, Sequence):
        X = _stacked(X)
    elif type(X).__name__ == "LazyFrame":
        raise TypeError(f"{_NO_TABLE} a LazyFrame; call collect() first")
    elif isinstance(X, type) or not (hasattr(X, "__array__") or sparse.issparse(X)):
        hint = ""
        if isinstance(X, Mapping):
            hint = "; pandas.DataFrame(X) makes a table of columns"
        elif isinstance(X, Iterator):
            hint = "; make it a list, or call partial_fit with some rows at a time"
        raise TypeError(f"{_NO_TABLE} {described(X)}{hint}")
    if len(getattr(X, "shape", (0, 0))) != 2:
        _refuse_shape(X)
    return X


def described(value: Any) -> str:
    """What came instead of an array."""
    if value is None or isinstance(value, (Number, str, bytes)):
        return f"{value!r:.40}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a value of type {type(value).__name__}"


def _stacked(X: Sequence[Any]) -> NDArray[Any]:
    """A list of rows as an array."""
    try:
        return np.asarray(X)
    except ValueError:
        sizes = sorted({len(row) if hasattr(row, "__len__") else 1 for row in X})
        if len({getattr(row, "ndim", 0) for row in X}) > 1:
            shapes = " and ".join(str(np.shape(part)) for part in X[:2])
            raise ValueError(
                f"{_NO_TABLE} a {type(X).__name__} of arrays of shape {shapes}; unpack it first, "
                "such as X, y = pair"
            ) from None
        if len(sizes) < 2:
            raise
    few = ", ".join(map(str, sizes[:4]))
    raise ValueError(f"rows must all have the same number of entries, got rows of {few}")


def _refuse_shape(X: Any) -> None:
    """Refuse an array that does not have two axes, and say how to give it two."""
    if isinstance(X, np.ndarray):
        _check_kind(X, "an array")
        _check_items(X)
    shape = tuple(X.shape)
    if shape == (0,):
        raise ValueError(f"{_NO_TABLE} no rows")
    hint = ""
    if len(shape) == 1:
        hint = ". Reshape your data: use reshape(-1, 1) if it is a column, reshape(1, -1) if a row"
    elif shape:
        hint = ". Reshape your data: reshape(len(X), -1) makes a row of each entry"
    raise ValueError(f"{_NO_TABLE} shape {shape}{hint}")


def _check_items(array: NDArray[Any]) -> None:
    """Refuse rows that NumPy keeps as objects: mappings, or lists of different lengths."""
    first = array.flat[0] if array.dtype == object and array.size else None
    if isinstance(first, Mapping):
        raise TypeError(f"{_NO_TABLE} a list of dicts; pandas.DataFrame(X) makes a table of them")
    if isinstance(first, (list, tuple, np.ndarray)):
        _stacked([list(row) for row in array])


def _unmasked(X: Any) -> Any:
    """The same; masked entries become NaN."""
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.result_type(X.dtype, np.float32), copy=False), np.nan)
    return X


def _check_columns(X: Any) -> None:
    """Refuse an array, or a data frame with columns, that hold something else than numbers."""
    names = getattr(X, "columns" if hasattr(X, "dtypes") else "column_names", None)
    if names is not None:
        for name in names:
            column = X[name]
            some = np.asarray(column.head(1) if hasattr(column, "head") else column[:1])
            _check_kind(np.asarray(column) if some.dtype == object else some, f"column {name!r}")
    elif not sparse.issparse(X):
        _check_kind(np.asarray(X), "an array")


def _check_kind(array: NDArray[Any], where: str) -> None:
    """Refuse an array that holds something else than numbers."""
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: expected real numbers, got {where} of dtype "
            f"{array.dtype}; pass real and imaginary parts as columns"
        )
    if kind in "US" and array.size:
        raise _no_numbers(f"{where} with {array.flat[0].item()!r:.40}", _TEXT_ADVICE)
    if kind in "USMmV":
        raise _no_numbers(f"{where} of dtype {array.dtype}", _DATE_ADVICE if kind in "Mm" else "")
    if array.dtype == object:
        for value in array.flat:
            if isinstance(value, _NOT_NUMBERS):
                is_text = isinstance(value, (str, bytes))
                advice = _TEXT_ADVICE if is_text else _DATE_ADVICE
                raise _no_numbers(f"{where} with {value!r:.40}", advice)


def _no_numbers(got: str, advice: str) -> ValueError:
    return ValueError(f"expected numbers, got {got}: make numbers of it{advice}, or leave it out")


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
    estimator: object, table: Table, what: str = "it", others: str = MODELS_WITH_MISSING_VALUES
) -> None:
    """Refuse missing values, which `what` does not take but `others` do."""
    values = table.data if sparse.issparse(table) else table
    if values.size and np.isnan(values.min()):
        gaps = MISSING_VALUES_MESSAGE.format(what=what, others=others)
        raise ValueError(f"X of {type(estimator).__name__} {gaps}")


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
