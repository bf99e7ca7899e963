"""What `OnlinePPCA` accepts as rows, weights and names of tasks, and how it says no."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Final

import numpy as np
from sklearn.utils.validation import validate_data

from everlearn.estimators.base import named_errors
from everlearn.estimators.tables import check_size, checked_weights, plain_numbers
from everlearn.inference.chunks import ChunkedRows
from everlearn.inference.engine import Engine
from everlearn.inference.rows import Rows

_LARGEST_SQUARE: Final = 1e250
_LARGEST_TASK: Final = 2**53


def checked_chunk(estimator: Any, X: Any, *, reset: bool, sample_weight: Any = None) -> Rows:
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


def checked_rows(estimator: Any, X: Any, *, reset: bool, sample_weight: Any = None) -> Rows:
    """As `checked_chunk`, of rows with which learning can begin if it begins with them."""
    rows = checked_chunk(estimator, X, reset=reset, sample_weight=sample_weight)
    if reset:
        _check_known(estimator, _knows(None, rows))
    return rows


def check_chunks(estimator: Any, rows: ChunkedRows, engine: Engine) -> None:
    """Refuse to begin with chunks in which everything is missing."""
    handles = [chunk.handle for chunk in rows.chunks]
    _check_known(estimator, not rows.missing or any(engine.map(_knows, handles, None)))


def _knows(_: None, rows: Rows) -> bool:
    return not np.isnan(rows.X).all()


def _check_known(estimator: Any, known: bool) -> None:
    if not known:
        raise ValueError(
            f"'X' of {type(estimator).__name__} cannot be used: expected some entries that are "
            "not missing to begin with, got none"
        )


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
