"""Labels as users give them, read into plain arrays: classes, or an indicator matrix."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import column_or_1d

Signs: TypeAlias = NDArray[np.int8]
"""One row an item and one column a task: 1 yes, -1 no, 0 not known."""
_SHOWN = 5


class LabelArray(NamedTuple):
    """Values of shape (n,) or (n, Q), and which of them are masked."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]


def read_labels(y: Any) -> LabelArray:
    """Labels as an array, unless they have no shape that labels have."""
    missing = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else np.zeros(1, bool)
    values = _as_array(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values, missing = column_or_1d(values, warn=True), missing.ravel()
    if values.ndim not in (1, 2):
        raise ValueError(f"expected labels of one or two dimensions, got shape {values.shape}")
    return LabelArray(values, np.broadcast_to(missing, values.shape))


def _as_array(y: Any) -> NDArray[Any]:
    if sparse.issparse(y):
        return np.asarray(y.toarray())
    if isinstance(y, (list, tuple)):
        if any(isinstance(label, str) for label in y):
            return np.array(y, dtype=object)  # otherwise a missing one would be a text as well
        sizes = {len(label) for label in y if isinstance(label, (list, tuple, set))}
        if len(sizes) > 1 or any(isinstance(label, set) for label in y):
            raise ValueError(
                "expected one label for each item, or an indicator matrix, got lists of labels; "
                "scikit-learn's MultiLabelBinarizer makes a matrix of them"
            )
    return np.asarray(y)


def _is_absent(value: Any) -> bool:
    """Whether a label is None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or value != value


def discrete(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """The classes in one dimension; objects become numbers unless they are text."""
    if values.dtype.kind in "OT":
        kept = values[~missing].tolist()
        if any(_is_absent(v) for v in kept):
            raise ValueError(
                "Input y contains NaN or None; a missing label is a masked entry "
                "(numpy.ma.masked_array)"
            )
        if all(isinstance(v, str) for v in kept):
            return np.where(missing, "", values).astype(object)
        plain = np.array(kept) if not any(isinstance(v, (str, bytes)) for v in kept) else None
        if plain is None or plain.ndim != 1 or plain.dtype.kind not in "biuf":
            raise ValueError("Unknown label type: expected text only or numbers only, got objects")
        filled = np.zeros(len(values), plain.dtype)
        filled[~missing] = plain
        values = filled
    if values.dtype.kind == "f":
        numbers = values[~missing]
        if not np.isfinite(numbers).all():
            bad = "NaN" if np.isnan(numbers).any() else "infinity"
            raise ValueError(f"Input y contains {bad}; a missing label is a masked entry")
        if (fractions := numbers[numbers % 1 != 0]).size:
            raise ValueError(
                "Unknown label type: continuous. Expected classes, got numbers such as "
                f"{fractions[0]:g}; to predict a number, use a regressor"
            )
    elif values.dtype.kind not in "biuU":
        raise ValueError(f"Unknown label type: expected classes, got dtype {values.dtype}")
    return values


def indicator_signs(labels: LabelArray) -> Signs:
    """1, -1 and 0 for 1, 0 and missing entries of a matrix."""
    values = labels.values
    if values.dtype == object:
        absent = [_is_absent(v) for v in values.ravel()]
        values = np.where(np.reshape(absent, values.shape), np.nan, values)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(values.shape, np.inf)
    missing = labels.missing | np.isnan(numbers)
    strange = ~missing & (numbers != 0) & (numbers != 1)
    if strange.any():
        raise ValueError(
            "Unknown label type: a matrix must be an indicator of 0, 1 and NaN for missing "
            f"labels, got {listed(values[strange])}"
        )
    signs: Signs = np.where(numbers == 1, 1, -1).astype(np.int8)
    signs[missing] = 0
    return signs


def is_text(values: NDArray[Any]) -> bool:
    """Whether these are names."""
    return values.dtype.kind in "OU"


def equal_labels(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether these are the same classes in the same order."""
    return is_text(a) == is_text(b) and a.shape == b.shape and bool((a == b).all())


def listed(values: NDArray[Any]) -> str:
    """The first few values, for a message."""
    few = ", ".join(repr(v)[:40] for v in values[:_SHOWN].tolist())
    return f"[{few}, ...] ({len(values)} in all)" if len(values) > _SHOWN else f"[{few}]"
