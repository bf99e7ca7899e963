"""What `OnlinePPCA` accepts as rows, weights and names of tasks, and how it says no."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Final

import numpy as np
from sklearn.utils.validation import validate_data

from everlearn.estimators.base import named_errors
from everlearn.estimators.tables import check_size, checked_weights, plain_numbers
from everlearn.inference.rows import Rows

_LARGEST_SQUARE: Final = 1e250
_LARGEST_TASK: Final = 2**53


def checked_rows(estimator: Any, X: Any, *, reset: bool, sample_weight: Any = None) -> Rows:
    """Rows of float64 in which NaN is missing, or a ValueError that says what is wrong.

    Rows of weight zero say nothing and are left out.
    """
    with named_errors(estimator, "X"):
        table = validate_data(
            estimator,
            plain_numbers(X),
            reset=reset,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
        )
        if np.isinf(table).any():
            raise ValueError("expected finite entries or NaN, got infinity")
        if reset and np.isnan(table).all():
            raise ValueError("expected some entries that are not missing to begin with, got none")
        with np.errstate(invalid="ignore"):
            largest = float(np.nanmax(np.abs(table), initial=0.0))
        check_size(largest)
    if reset and estimator.n_components > table.shape[1]:
        raise ValueError(
            f"the 'n_components' parameter of {type(estimator).__name__} must be at most "
            f"n_features={table.shape[1]}. Got {estimator.n_components!r} instead."
        )
    if sample_weight is None:
        return Rows(table)
    weights = checked_weights(estimator, sample_weight, table, largest, _LARGEST_SQUARE)
    rows = Rows(table, weights)
    return rows if weights.all() else rows[np.flatnonzero(weights)]


def checked_task(estimator: Any, task: Any) -> int | str | None:
    """The name of a task, a word or a whole number."""
    if task is None or isinstance(task, str):
        return None if task is None else str(task)
    whole = isinstance(task, Integral) and not isinstance(task, (bool, np.bool_))
    if not whole or abs(int(task)) > _LARGEST_TASK:
        raise ValueError(
            f"'task' of {type(estimator).__name__} must be None, text, or an integer of at most "
            f"{_LARGEST_TASK} in size. Got {task!r:.80} instead."
        )
    return int(task)
