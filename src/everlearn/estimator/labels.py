"""Read the labels that users pass into arrays: classes, or an indicator matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_ndtr, ndtr, softmax
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _num_samples

from everlearn.core.arrays import Mat
from everlearn.estimator.base import named_errors
from everlearn.estimator.tables import described

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
    if values.ndim == 0:
        raise ValueError(f"expected a label for each row, got {described(y)}")
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


Kind: TypeAlias = Literal["binary", "multiclass", "multilabel"]
_NEVER_CERTAIN = np.finfo(np.float64).eps


@dataclass(frozen=True, slots=True, eq=False)
class LabelSpace:
    """The labels that a classifier knows.

    Attributes
    ----------
    kind : {"binary", "multiclass", "multilabel"}
        Whether an item has one of two classes, one of several, or any number of labels.
    classes : ndarray of shape (n_classes,)
        The classes in ascending order, or the names of the columns of an indicator matrix.
    """

    kind: Kind
    classes: NDArray[Any]

    @property
    def n_tasks(self) -> int:
        """Number of binary tasks."""
        return 1 if self.kind == "binary" else len(self.classes)

    def signs(self, y: Any) -> Signs:
        """The answer of each task for each item, and 0 where the label is missing.

        Parameters
        ----------
        y : array-like of shape (n_items,), or array-like or sparse of shape (n_items, n_classes)
            Classes, or an indicator matrix of 0 and 1. Masked entries, and NaN in a matrix, are
            missing labels.

        Returns
        -------
        signs : ndarray of shape (n_items, n_tasks) and dtype int8
        """
        labels = read_labels(y)
        if self.kind == "multilabel":
            if labels.values.ndim != 2 or labels.values.shape[1] != len(self.classes):
                raise ValueError(
                    f"expected an indicator matrix with {len(self.classes)} columns, "
                    f"got an array of shape {labels.values.shape}"
                )
            return indicator_signs(labels)
        if labels.values.ndim != 1:
            raise ValueError(
                f"expected one of {listed(self.classes)} for each row, "
                f"got an array of shape {labels.values.shape}"
            )
        values = discrete(labels.values, labels.missing)
        positions = self._positions(values, labels.missing)
        if self.kind == "binary":
            signs: Signs = (2 * positions - 1).astype(np.int8)[:, None]
        else:
            signs = np.full((len(values), len(self.classes)), -1, np.int8)
            signs[np.arange(len(values)), positions] = 1
        signs[labels.missing] = 0
        return signs

    def decide(self, scores: Mat) -> NDArray[Any]:
        """Labels for scores of shape (n_items, n_tasks).

        Returns
        -------
        y : ndarray of shape (n_items,), or (n_items, n_classes) if labels are many
            Classes of largest score, or an indicator matrix with 1 where the score is positive.
        """
        if self.kind == "multilabel":
            return (scores > 0).astype(np.int64)
        if self.kind == "binary":
            return np.asarray(self.classes[(scores[:, 0] > 0).astype(np.intp)])
        return np.asarray(self.classes[scores.argmax(axis=1)])

    def position(self, label: Any) -> int:
        """Where a label is among the classes."""
        known: list[Any] = self.classes.tolist()
        if np.ndim(label) != 0 or label not in known:
            raise ValueError(f"expected one of {listed(self.classes)}, got {label!r}")
        return known.index(label)

    def votes(self, standard: Mat) -> Mat:
        """How classifiers drawn from a posterior would vote, (n_items, n_classes).

        `standard` (n_items, n_tasks) are mean scores in posterior standard deviations. Of several
        classes one alone gets a yes; columns of an indicator matrix vote each for itself.
        """
        if self.kind == "multiclass":
            return np.asarray(softmax(log_ndtr(standard) - log_ndtr(-standard), axis=1))
        if self.kind == "multilabel":
            return np.asarray(np.clip(ndtr(standard), _NEVER_CERTAIN, 1.0 - _NEVER_CERTAIN))
        return np.hstack([ndtr(-standard), ndtr(standard)])

    def shaped(self, scores: Mat) -> Mat:
        """Scores as scikit-learn wants them: of one axis if there is one task."""
        return scores[:, 0] if self.kind == "binary" else scores

    def _positions(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Where each value is among the classes; anything for missing ones."""
        if is_text(values) != is_text(self.classes) and not missing.all():
            raise self._unknown(values[~missing])
        values = np.where(missing, self.classes[0], values)
        positions = np.minimum(np.searchsorted(self.classes, values), len(self.classes) - 1)
        wrong = self.classes[positions] != values
        if wrong.any():
            raise self._unknown(values[wrong])
        return np.asarray(positions)

    def _unknown(self, values: NDArray[Any]) -> ValueError:
        return ValueError(
            f"expected labels among the classes {listed(self.classes)}, "
            f"got {listed(np.unique(values))}"
        )


def label_space(estimator: object, y: Any, classes: Any = None) -> LabelSpace:
    """The labels of `y`, or `classes` if they are given; errors name the estimator.

    Parameters
    ----------
    estimator : object
        Whose name errors shall have.
    y : array-like
        As in `LabelSpace.signs`; a matrix with one column is taken for a list of classes.
    classes : array-like of shape (n_classes,), default=None
        All classes, or the names of the columns of `y`, which are by default those that a data
        frame has, or numbers.

    Returns
    -------
    space : LabelSpace
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    with named_errors(estimator, "y"):
        labels = read_labels(y)
        if labels.values.ndim == 2:
            indicator_signs(labels)
            seen = np.arange(labels.values.shape[1])
        else:
            seen = np.unique(discrete(labels.values, labels.missing)[~labels.missing])
    if labels.values.ndim == 2:
        return _multilabel(estimator, len(seen), _columns(y) if classes is None else classes)
    if classes is not None:
        seen = np.unique(_class_list(estimator, classes))
    if len(seen) < 2:
        where = "'y'" if classes is None else "'classes'"
        raise ValueError(
            f"{where} of {name} must have at least 2 classes. Got {len(seen)} class: "
            f"{listed(seen)}."
        )
    return LabelSpace("binary" if len(seen) == 2 else "multiclass", seen)


def next_label_space(
    estimator: object, known: LabelSpace | None, y: Any, classes: Any = None
) -> LabelSpace:
    """The labels for a call of `partial_fit`, which the first call must name and none may change.

    Parameters
    ----------
    estimator : object
        Whose name errors shall have.
    known : LabelSpace or None
        What the calls before had; None at the first.
    y, classes : array-like
        As in `label_space`; an indicator matrix needs no `classes`.

    Returns
    -------
    space : LabelSpace
    """
    name = type(estimator).__name__
    if known is None:
        if classes is None and y is not None:
            with named_errors(estimator, "y"):
                flat = read_labels(y).values.ndim == 1
            if flat:
                raise ValueError(
                    f"'classes' of {name} must be passed on the first call to partial_fit: all "
                    "classes that will ever come, for example np.unique(y). Got None."
                )
        return label_space(estimator, y, classes)
    columns = _columns(y) if known.kind == "multilabel" and is_text(known.classes) else None
    if columns is not None and classes is None:
        classes = columns
    if classes is not None:
        given = _class_list(estimator, classes)
        given = given if known.kind == "multilabel" else np.unique(given)
        if not equal_labels(given, known.classes):
            raise ValueError(
                f"'classes' of {name} must be the same on every call to partial_fit: "
                f"{listed(known.classes)}. Got {listed(given)}."
            )
    return known


def checked_signs(estimator: object, space: LabelSpace, y: Any, n_rows: int) -> Signs:
    """`space.signs(y)` for `n_rows` rows; errors name the estimator."""
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    with named_errors(estimator, "y"):
        if _num_samples(y) != n_rows:
            raise ValueError(f"expected a label for each of {n_rows} rows, got {_num_samples(y)}")
        return space.signs(y)


def _multilabel(estimator: object, n_columns: int, classes: Any) -> LabelSpace:
    if n_columns < 2:
        raise ValueError(
            f"'y' of {type(estimator).__name__} must have two columns or more as an indicator "
            f"matrix. Got {n_columns}."
        )
    if classes is None:
        return LabelSpace("multilabel", np.arange(n_columns))
    names = _class_list(estimator, classes)
    if len(np.unique(names)) != n_columns or len(names) != n_columns:
        raise ValueError(
            f"'classes' of {type(estimator).__name__} must be {n_columns} different names, one for "
            f"each column of y. Got {listed(names)}."
        )
    return LabelSpace("multilabel", names)


def _columns(y: Any) -> list[Any] | None:
    """The names of the columns, if `y` is a data frame and they are texts."""
    names = getattr(y, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return list(names)


def _class_list(estimator: object, classes: Any) -> NDArray[Any]:
    with named_errors(estimator, "classes"):
        values = np.asarray(classes)
        if values.ndim != 1:
            raise ValueError(f"expected a list of classes, got an array of shape {values.shape}")
        return discrete(values, np.zeros(len(values), bool))
