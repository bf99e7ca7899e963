"""Rows that `ComponentTree` accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from everlearn.core.arrays import Mat
from everlearn.engine.rows import Rows
from everlearn.estimator.base import named_errors
from everlearn.estimator.tables import check_size, plain_numbers, refuse_missing


def checked_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Mat:
    """Finite float64 rows. Raises an error that names `X` and the estimator."""
    with named_errors(estimator, "X"):
        rows: Mat = validate_data(
            estimator,
            plain_numbers(X),
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            order="C",
        )
        refuse_missing(estimator, rows)
        check_size(rows)
    return rows


def checked_chunk(
    estimator: BaseEstimator, X: Any, *, reset: bool, sample_weight: Any = None
) -> Rows:
    """Checked rows of a chunk of a Dask collection. `sample_weight` is always None."""
    return Rows(checked_rows(estimator, X, reset=reset))
