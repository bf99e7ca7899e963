"""What `OnlinePPCA` accepts: rows with gaps, weights, names of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Final, Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.estimator.base import named_errors
from everlearn.estimator.tables import check_size, checked_weights, plain_numbers

_LARGEST_SQUARE: Final = 1e250
LARGEST_TASK: Final = 2**53
"""No number of a task is larger, so that files can hold it."""


class HasComponents(Protocol):
    """An estimator with a number of components, which must not exceed that of features."""

    n_components: int


def checked_chunk(
    estimator: HasComponents, X: Any, *, reset: bool, sample_weight: Any = None
) -> Rows:
    """Rows of float64 in which NaN is missing, or a ValueError that says what is wrong.

    Rows of weight zero are left out.
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


def checked_rows(
    estimator: HasComponents, X: Any, *, reset: bool, sample_weight: Any = None
) -> Rows:
    """As `checked_chunk`. With `reset`, also refuse rows in which everything is missing."""
    rows = checked_chunk(estimator, X, reset=reset, sample_weight=sample_weight)
    if reset:
        _check_some_known(estimator, known=_has_entries(None, rows))
    return rows


def check_chunks(estimator: HasComponents, rows: ChunkedRows, engine: Engine) -> None:
    """Refuse to begin with chunks in which everything is missing."""
    handles = [chunk.handle for chunk in rows.chunks]
    known = not rows.missing or any(engine.map(_has_entries, handles, None))
    _check_some_known(estimator, known=known)


def _has_entries(_: None, rows: Rows) -> bool:
    return not np.isnan(rows.X).all()


def _check_some_known(estimator: HasComponents, *, known: bool) -> None:
    if not known:
        raise ValueError(
            f"'X' of {type(estimator).__name__} cannot be used: expected some entries that are "
            "not missing to begin with, got none"
        )


def checked_task(owner: str, task: Any) -> int | str | None:
    """The name of a task, a text or a whole number, as a plain value."""
    if task is None or isinstance(task, str):
        return None if task is None else str(task)
    whole = isinstance(task, Integral) and not isinstance(task, (bool, np.bool_))
    if not whole or abs(int(task)) > LARGEST_TASK:
        raise ValueError(
            f"'task' of {owner} must be None, text, or an integer of at most {LARGEST_TASK} in "
            f"size. Got {task!r:.80} instead."
        )
    return int(task)


def can_be_joined(batches: Sequence[Any]) -> bool:
    """Whether batches are plain arrays of float64, none of them empty, of one width."""
    return len(batches) > 0 and all(
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == batches[0].shape[1]
        for X in batches
    )
