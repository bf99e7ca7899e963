"""Read a table with text columns into an array: from a data frame, a structured array, or lists.

Each entry becomes a number; see `mixture/columns.py`. Errors name the columns of dates and objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.opening import is_collection
from everlearn.estimator.base import named_errors
from everlearn.estimator.tables import refuse_collection
from everlearn.mixture.columns import (
    Column,
    Columns,
    check_counts,
    text_of,
)

_CATEGORICAL: Final = ("category", "Categorical", "Enum")
"""How dtypes of pandas and polars begin that name categories."""
_DATES: Final = (date, time, timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True, slots=True)
class RawColumn:
    """A column as it was read: numbers, or texts of which a missing one is None."""

    name: str
    numbers: Vec | None = None
    texts: list[str | None] | None = None


def is_table(X: Any) -> bool:
    """Whether rows have categories: text, or in a data frame truth values or a category dtype."""
    if is_collection(X):
        return False
    if is_frame(X):
        return any(_is_categorical(column) for _, column in _columns_of(X))
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X)
        except ValueError:  # rows of different lengths, which are refused later
            return False
    if not isinstance(X, np.ndarray):
        return False
    is_record = X.dtype.names is not None and X.ndim == 1
    return is_record or X.dtype.kind in "UT" or _has_text(X)


def read_table(
    estimator: Any, X: Any, known: Columns | None, *, reset: bool, grow: bool = False
) -> tuple[Columns, Mat]:
    """The columns, and one number for each entry.

    Parameters
    ----------
    estimator : gets `n_features_in_` and `feature_names_in_` if `reset`, and names errors
    X : data frame, structured array, or array or lists of texts and numbers
    known : the columns that the model has, or None to find them
    reset : whether the columns are those of a new model
    grow : whether new values get a code; `limit_values` in `mixture/columns.py` drops what is
        too many
    """
    owner = type(estimator).__name__
    with named_errors(estimator, "X"):
        refuse_collection(X)
        raws = _raw_columns(X)
        if len(X) == 0:
            raise ValueError(f"expected one or more rows for {owner}, got none")
        table = X if is_frame(X) else np.empty((len(X), len(raws)), np.int8)
        validate_data(estimator, table, reset=reset, skip_check_array=True)
        columns, entries = [], []
        for j, raw in enumerate(raws):
            column, coded = _coded(owner, raw, None if known is None else known[j], grow=grow)
            columns.append(column)
            entries.append(coded)
    return tuple(columns), np.stack(entries, axis=1)


def given_kinds(family: str | Mapping[str, str]) -> Mapping[str, str]:
    """Kinds of columns that the user named."""
    return {} if isinstance(family, str) else {str(name): kind for name, kind in family.items()}


def check_names(owner: str, columns: Columns, given: Mapping[str, str]) -> None:
    """Refuse kinds of columns that the table does not have, or that cannot have them."""
    known = {column.name: column for column in columns}
    for name, kind in given.items():
        if name not in known:
            raise ValueError(
                f"the 'family' parameter of {owner} names column {name!r}, which X does not have. "
                f"Its columns are {', '.join(map(repr, known))}."
            )
        if kind != "categories" and not (known[name].numeric or known[name].is_unknown):
            raise ValueError(
                f"the 'family' parameter of {owner} says that column {name!r} holds {kind}, but "
                "it holds text. Turn it into numbers, such as by pandas.to_numeric."
            )


def decoded(columns: Columns, X: Mat) -> NDArray[np.object_]:
    """The entries as users gave them; a missing one and one without a code are None."""
    out = np.empty(X.shape, object)
    for j, column in enumerate(columns):
        out[:, j] = [column.value(number) for number in X[:, j].tolist()]
    return out


def _coded(owner: str, raw: RawColumn, known: Column | None, *, grow: bool) -> tuple[Column, Vec]:
    """A column, and its entries as numbers: in codes of `known`, or in new codes if it is None."""
    if known is None:
        return _coded(owner, raw, Column(raw.name, "categories"), grow=True)
    if grow and known.is_unknown and raw.numbers is not None and not np.isnan(raw.numbers).all():
        return replace(known, kind="numbers", numeric=True), raw.numbers
    texts = raw.texts
    if known.numeric and texts is not None:
        sample = next((text for text in texts if text is not None), None)
        if sample is not None:
            raise ValueError(
                f"expected numbers in column {known.name!r}, as in the rows before, got "
                f"{sample!r:.40}"
            )
        return known, np.full(len(texts), np.nan)
    if known.kind != "categories":
        assert raw.numbers is not None
        if not grow:  # the first rows of a stream may show that these are no counts
            check_counts(owner, known, raw.numbers)
        return known, raw.numbers
    if texts is None:
        assert raw.numbers is not None
        texts = [None if np.isnan(number) else text_of(number) for number in raw.numbers.tolist()]
    if grow:
        new = sorted({text for text in texts if text is not None} - set(known.values))
        known = replace(known, values=(*known.values, *new))
    codes: dict[str | None, float] = {value: code for code, value in enumerate(known.values, 1)}
    codes[None] = np.nan
    return known, np.array([codes.get(text, 0.0) for text in texts], np.float64)


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas, polars or Dask."""
    # A lazy frame has no shape, and warns if asked for columns. Delayed values have all names.
    if not isinstance(getattr(X, "shape", None), tuple):
        return False
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def _columns_of(X: Any) -> list[tuple[str, Any]]:
    """Names and columns of a data frame of pandas or polars."""
    names = [str(name) for name in X.columns]
    by_position = hasattr(X, "iloc")
    return [
        (name, X.iloc[:, j] if by_position else X[own])
        for j, (name, own) in enumerate(zip(names, X.columns, strict=True))
    ]


def _is_categorical(column: Any) -> bool:
    if str(column.dtype).startswith(_CATEGORICAL):
        return True
    kind = np.asarray(column.head(0)).dtype.kind
    if kind != "O":
        return kind in "bUT"
    return any(isinstance(value, (str, bool, np.bool_)) for value in np.asarray(column).tolist())


def _has_text(array: NDArray[Any]) -> bool:
    return array.dtype == object and any(isinstance(value, str) for value in array.flat)


def _raw_columns(X: Any) -> list[RawColumn]:
    """The columns of a data frame, of an array, or of lists."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError(
            "expected a table of rows and columns, got a LazyFrame; call collect() first"
        )
    if is_frame(X):
        named = _columns_of(X)
        names = [name for name, _ in named]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"expected columns with different names, got {twice!r} twice")
    else:
        array = X if isinstance(X, np.ndarray) else np.asarray(X, object)
        if array.dtype.names is not None and array.ndim == 1:
            return [_raw_column(name, array[name]) for name in array.dtype.names]
        if array.ndim != 2 or array.dtype.names is not None:
            raise _no_table(array)
        named = [(str(j), array[:, j]) for j in range(array.shape[1])]
    if not named:
        raise ValueError("expected a table with columns, got none")
    return [_raw_column(name, column) for name, column in named]


def _no_table(array: NDArray[Any]) -> ValueError:
    """What to say about a row, a list of records or a mapping in place of a table."""
    hint = ""
    if array.size and isinstance(array.flat[0], Mapping):
        hint = "; pandas.DataFrame(X) makes a table of it"
    elif array.ndim == 1:
        hint = "; a single row is a table too, as [row]"
    return ValueError(
        f"expected a table of rows and columns, got an array of shape {array.shape}{hint}"
    )


def _raw_column(name: str, column: Any) -> RawColumn:
    """A column as numbers or texts, or a ValueError that names it."""
    array = np.asarray(column)
    if str(column.dtype).startswith(_CATEGORICAL) or array.dtype.kind in "bUT":
        return RawColumn(name, texts=[_text(name, value) for value in array.tolist()])
    if array.dtype.kind in "iuf":
        return RawColumn(name, numbers=_finite(name, array.astype(np.float64)))
    if array.dtype.kind in "mM":
        raise _date_error(name)
    if array.dtype != object:
        raise ValueError(f"expected numbers or text in column {name!r}, got dtype {array.dtype}")
    values = array.tolist()
    if any(isinstance(value, (str, bool)) for value in values):
        return RawColumn(name, texts=[_text(name, value) for value in values])
    for value in values:
        if isinstance(value, _DATES):
            raise _date_error(name)
    try:
        numbers = [np.nan if _is_missing(value) else float(value) for value in values]
    except (TypeError, ValueError):
        wrong = next(v for v in values if not _is_missing(v) and not _is_number(v))
        raise ValueError(
            f"expected numbers or text in column {name!r}, got {wrong!r:.40}"
        ) from None
    return RawColumn(name, numbers=_finite(name, np.array(numbers, np.float64)))


def _is_missing(value: object) -> bool:
    """Whether it is None, NaN, or the missing value of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _text(name: str, value: object) -> str | None:
    """A category as text, None if it is missing."""
    if _is_missing(value):
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        raise ValueError(f"expected text in column {name!r}, got bytes {value!r:.40}: decode them")
    if isinstance(value, (dict, list, set, tuple, np.ndarray)):
        raise ValueError(f"expected numbers or text in column {name!r}, got {value!r:.40}")
    return text_of(value)


def _finite(name: str, numbers: Vec) -> Vec:
    if np.isinf(numbers).any():
        raise ValueError(f"expected finite numbers in column {name!r}, got infinity")
    return numbers


def _date_error(name: str) -> ValueError:
    return ValueError(
        f"expected numbers or text in column {name!r}, got dates. Leave it out, or turn it into "
        "numbers or categories, such as days since a date, or the day of the week"
    )
