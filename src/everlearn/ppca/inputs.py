"""What the parameters of `OnlinePPCA` may be, each by itself and together."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Final

import numpy as np
from sklearn.utils.validation import validate_data

from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.estimator.base import COMMON_CONSTRAINTS, named_errors
from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.estimator.tables import check_size, checked_weights, plain_numbers

_TRUTH = (Instance((bool, np.bool_), "a truth value"),)
CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "n_components": (Interval(1, integer=True),),
    "constraint": (Options((None, "step", "task", "previous")),),
    "constraint_form": (Options(("kl", "gain", "ewc", "printed")),),
    "solver": (Options(("moment", "em")),),
    "constraint_weight": (Options(("count",)), Interval(0, 1e12, low_open=True)),
    "max_reference_rows": (Options((None,)), Interval(1)),
    "kept_components": (Options((None,)), Interval(1, integer=True)),
    "step_size": (Options((None,)), Interval(0, 1, low_open=True)),
    "step_power": (Interval(0.5, 1, low_open=True),),
    "step_offset": (Interval(0),),
    "statistics": (Options(("raw", "printed")),),
    "fisher": (Options(("complete", "marginal")),),
    "clip": _TRUTH,
    "align": _TRUTH,
    "n_mixtures": (Interval(1, integer=True),),
    "novelty": (Interval(0, low_open=True),),
    "batch_size": (Options((None,)), Interval(1, integer=True)),
    "fit_method": (Options(("auto", "exact", "em")),),
    "max_iter": (Interval(1, integer=True),),
    "tol": (Interval(0),),
    **COMMON_CONSTRAINTS,
}


def check_combination(estimator: Any) -> None:
    """Refuse parameters that are right one by one but not together."""
    name, constrained = type(estimator).__name__, estimator.constraint is not None
    form = estimator.constraint_form
    for asked, what in (
        (constrained and form == "printed", "constraint_form='printed'"),
        (estimator.constraint == "previous", "constraint='previous'"),
    ):
        if asked and estimator.constraint_weight == "count":
            raise ValueError(
                f"the 'constraint_weight' parameter of {name} must be a number if {what}, because "
                "its reference stands for no number of rows. Got 'count' instead."
            )
    if constrained and form != "kl" and estimator.n_mixtures > 1:
        raise ValueError(
            f"the 'constraint_form' parameter of {name} must be 'kl' if n_mixtures is more than 1. "
            f"Got constraint_form={form!r} instead."
        )
    kept = estimator.kept_components
    if kept is not None and kept < estimator.n_components:
        raise ValueError(
            f"the 'kept_components' parameter of {name} must be at least n_components="
            f"{estimator.n_components}. Got {kept!r} instead."
        )


def check_closed_form(estimator: Any, gaps: bool) -> None:
    """Refuse an exact fit where there is none."""
    if estimator.fit_method == "exact" and (estimator.n_mixtures > 1 or gaps):
        why = "X has missing values" if gaps else "n_mixtures is more than 1"
        raise ValueError(
            f"the 'fit_method' parameter of {type(estimator).__name__} must be 'auto' or 'em' if "
            f"{why}: there is no closed form. Got 'exact' instead."
        )


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
