"""What `DPMixture` accepts: rows, weights and names of batches."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Final, Protocol

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from everlearn.core.arrays import Table, Vec
from everlearn.engine.rows import Rows
from everlearn.estimator.base import named_errors
from everlearn.estimator.tables import canonical, checked_weights, plain_numbers, refuse_missing
from everlearn.mixture.columns import Columns
from everlearn.mixture.settings import MixtureSettings, family_of
from everlearn.mixture.state import State
from everlearn.mixture.tables import check_names, given_kinds, is_table, read_table

_LARGEST: Final = {"float64": 1e100, "float32": 1e15}
_LARGEST_SQUARE: Final = {"float64": 1e250, "float32": 1e33}
"""Weight times squared entry: sums of these over a block of rows must stay finite."""
_LARGEST_COUNT: Final = 2.0**53
LARGEST_NAME: Final = 2**53
"""No number of a batch is larger, so that files can hold it."""


class HasFamily(Protocol):
    """An estimator of components of a family, which works in a precision."""

    family: str | Mapping[str, str]
    dtype: str


def checked_rows(estimator: HasFamily, X: Any, *, reset: bool, sample_weight: Any = None) -> Rows:
    """Rows of the estimator's family, or a ValueError that says what is wrong.

    Rows of weight zero are left out.
    """
    family = family_of(estimator.family)
    counts = family == "multinomial"
    with named_errors(estimator, "X"):
        X = plain_numbers(X)
        table = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if counts else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            order=None if counts else "C",
        )
        if family != "diagonal":
            refuse_missing(estimator, table, f"{family=}", "'auto', 'diagonal' and 'table'")
    return _weighted(estimator, canonical(table), sample_weight, counts=counts)


def read_rows(
    estimator: HasFamily,
    X: Any,
    known: tuple[Columns | None] | None,
    *,
    grow: bool = False,
    sample_weight: Any = None,
) -> tuple[Columns | None, Rows]:
    """Columns of a table, None for rows of numbers, and the rows.

    `known` holds the columns of a model that has begun, and is None for a new one. With `grow`,
    new values of categories get codes.
    """
    reset = known is None
    as_table = takes_table(estimator.family, X) if known is None else known[0] is not None
    if not as_table:
        return None, checked_rows(estimator, X, reset=reset, sample_weight=sample_weight)
    columns = None if known is None else known[0]
    return checked_table(estimator, X, columns, reset=reset, grow=grow, sample_weight=sample_weight)


def takes_table(family: str | Mapping[str, str], X: Any) -> bool:
    """Whether a new model learns these rows as a table with columns of several kinds."""
    if not isinstance(family, str) or family == "table":
        return True
    return family == "auto" and is_table(X)


def checked_table(
    estimator: HasFamily,
    X: Any,
    known: Columns | None,
    *,
    reset: bool,
    grow: bool = False,
    sample_weight: Any = None,
) -> tuple[Columns, Rows]:
    """Columns and rows of a table with categories; see `read_table`."""
    columns, table = read_table(estimator, X, known, reset=reset, grow=grow)
    if reset:
        check_names(type(estimator).__name__, columns, given_kinds(estimator.family))
    return columns, _weighted(estimator, table, sample_weight, counts=False)


def _weighted(estimator: HasFamily, table: Table, sample_weight: Any, *, counts: bool) -> Rows:
    """Rows with their weights, if these and the entries are in range."""
    largest = _check_range(estimator, table, counts=counts)
    if sample_weight is None:
        return Rows(table)
    square = _LARGEST_SQUARE[estimator.dtype]
    weights = checked_weights(estimator, sample_weight, table, largest, square)
    rows = Rows(table, weights)
    return rows if weights.all() else rows[np.flatnonzero(weights)]


def _check_range(estimator: HasFamily, table: Table, *, counts: bool) -> float:
    """Refuse entries that are too large, and return the size of the largest."""
    values: Vec = table.data if sparse.issparse(table) else table
    if values.size == 0:
        return 0.0
    name = type(estimator).__name__
    low, high = (float(extreme.reduce(values, axis=None)) for extreme in (np.fmin, np.fmax))
    if np.isnan(low):  # nothing but missing values
        return 0.0
    if counts and low < 0:
        raise ValueError(
            f"Negative values in data passed to {name}: counts are 0 or more, got {low:g}."
        )
    largest = _LARGEST_COUNT if counts else _LARGEST[estimator.dtype]
    size = max(-low, high)
    if size > largest:
        raise ValueError(
            f"X of {name} must have entries of at most {largest:g} in size for "
            f"dtype={estimator.dtype!r}, so that sums of squares stay finite. "
            f"Got {max(low, high, key=abs):g}."
        )
    return size


def checked_name(settings: MixtureSettings, batch_id: Any) -> int | str | None:
    """The name of a batch as a plain value, if these settings allow one."""
    if batch_id is None:
        return None
    if not is_name(batch_id):
        raise ValueError(
            f"'batch_id' of {settings.owner} must be None, text, or an integer from 0 to 2**53. "
            f"Got {batch_id!r:.80} instead."
        )
    if settings.learner != "memoized":
        raise ValueError(
            f"'batch_id' of {settings.owner} needs learner='memoized', because other learners "
            f"keep no statistics of a batch. Got learner={settings.learner!r}."
        )
    if settings.memory_budget is not None:
        raise ValueError(
            f"'batch_id' of {settings.owner} needs memory_budget=None, because each name takes "
            f"memory for a set of statistics. Got memory_budget={settings.memory_budget}."
        )
    return str(batch_id) if isinstance(batch_id, str) else int(batch_id)


def is_name(value: Any) -> bool:
    """Whether a batch may have this name."""
    whole = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    return isinstance(value, str) or (whole and 0 <= int(value) <= LARGEST_NAME)


def check_forgettable(owner: str, state: State, batch_id: Any) -> None:
    """Refuse to forget an unknown batch, or all rows."""
    names = {batch.name for batch in state.batches} | set(state.named_parts)
    if batch_id is None or not is_name(batch_id) or batch_id not in names:
        known = ", ".join(repr(n) for n in sorted(names - {None}, key=str)[:8]) or "none"
        raise ValueError(
            f"'batch_id' of {owner}.forget must be the name of a batch that partial_fit has "
            f"learned; known names: {known}. Got {batch_id!r:.80} instead."
        )
    part = state.named_parts.get(batch_id)
    mass = 0.0 if part is None else float(part.sealed.stats.n.sum())
    mass += sum(b.rows.mass for b in state.batches if b.name == batch_id)
    if float(state.total.n.sum()) - mass <= 1e-6 * mass:
        raise ValueError(
            f"{owner} cannot forget batch {batch_id!r}, because it has learned nothing else. Use "
            "a new estimator instead."
        )
