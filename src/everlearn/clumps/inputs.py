"""Check the documents that users pass, and refuse all others with clear errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_non_negative, validate_data

from everlearn.core.arrays import IntVec, Labels, Mat
from everlearn.engine.opening import is_collection
from everlearn.estimator.base import named_errors
from everlearn.estimator.collections import fetch_collections, open_chunks
from everlearn.estimator.tables import check_size, plain_numbers


@dataclass(frozen=True, slots=True)
class Grouped:
    """Checked documents.

    Attributes
    ----------
    parts : the points of each document, (n_i, n_features)
    rows : (n_points,) row in the input of each point, document by document; None if unchanged
    listed : whether the input was a list of documents
    """

    parts: tuple[Mat, ...]
    rows: Labels | None = None
    listed: bool = False

    def like_input(self, labels: Sequence[IntVec]) -> IntVec | list[IntVec]:
        """Labels of the points of each document, in the form and order of the input."""
        if self.listed:
            return list(labels)
        together = np.concatenate(labels)
        if self.rows is None:
            return together
        back = np.empty_like(together)
        back[self.rows] = together
        return back


def checked_documents(estimator: BaseEstimator, X: Any, groups: Any, *, reset: bool) -> Grouped:
    """The documents as arrays, or an error that says what is wrong with them."""
    _refuse_no_documents(estimator, X)
    listed = isinstance(X, (list, tuple)) and any(map(_is_table, X))
    if listed:
        _refuse_groups(estimator, groups)
        return Grouped(tuple(_checked_parts(estimator, X, reset=reset)), listed=True)
    table = _checked_table(estimator, X, "X", reset=reset)
    if groups is None:
        return Grouped((table,))
    documents = _positions(estimator, groups, len(table))
    rows = None
    if (np.diff(documents) < 0).any():
        rows = np.argsort(documents, kind="stable").astype(np.int32)
        table, documents = np.ascontiguousarray(table[rows]), documents[rows]
    edges = np.searchsorted(documents, np.arange(1, documents[-1] + 1))
    return Grouped(tuple(np.split(table, edges)), rows)


@contextmanager
def open_documents(estimator: BaseEstimator, X: Any, groups: Any) -> Iterator[Iterable[Mat]]:
    """The documents for `fit`. Those of a Dask bag are fetched part by part."""
    if not is_collection(X) or hasattr(X, "ndim"):
        X, groups = fetch_collections(estimator, X=X, groups=groups)
        yield checked_documents(estimator, X, groups, reset=True).parts
        return
    _refuse_groups(estimator, groups)
    with open_chunks(estimator, X) as chunks:
        yield _checked_parts(estimator, chain.from_iterable(chunks), reset=True)


def _refuse_groups(estimator: BaseEstimator, groups: Any) -> None:
    if groups is not None:
        raise ValueError(
            f"'groups' of {type(estimator).__name__} must be None if X is a list of documents; "
            "it says which points belong to a document if X is one table"
        )


def _refuse_no_documents(estimator: BaseEstimator, X: Any) -> None:
    """Refuse iterators (they can be read only once), mappings and texts."""
    parts: Sequence[Any] = X if isinstance(X, (list, tuple)) else [None]
    if not parts:
        got = f"an empty {type(X).__name__}"
    elif isinstance(X, Iterator):
        kind = type(X).__name__
        got = f"a {kind}; make it a list, or call partial_fit with some at a time"
    elif isinstance(X, Mapping) and not sparse.issparse(X):  # some sparse arrays are mappings
        got = f"a {type(X).__name__}; list(X.values()) makes a list of its documents"
    elif all(isinstance(part, str) for part in parts):
        got = f"texts such as {parts[0]!r:.40}; TopicModel learns from texts"
    elif (
        all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts)
        and len({part.shape for part in parts}) > 1
    ):
        got = f"documents of shape {parts[0].shape}; reshape(-1, 1) makes a point of each number"
    else:
        return
    raise ValueError(
        f"'X' of {type(estimator).__name__} must be a list of documents with at least one, or "
        f"a table of points. Got {got}"
    )


def _is_table(value: Any) -> bool:
    """Whether a value is itself rows of numbers."""
    if hasattr(value, "ndim"):
        return bool(value.ndim == 2)
    return isinstance(value, (list, tuple)) and len(value) > 0 and np.ndim(value[0]) == 1


def _checked_parts(estimator: BaseEstimator, X: Iterable[Any], *, reset: bool) -> Iterator[Mat]:
    """Checked documents one by one. Errors name the position."""
    for position, part in enumerate(X):
        argument = f"X[{position}]"
        try:
            first = reset and position == 0
            yield _checked_table(estimator, part, argument, reset=first)
        except (TypeError, ValueError) as error:
            if argument in str(error):
                raise
            raise type(error)(f"{argument!r}: {error}") from error


def _checked_table(estimator: BaseEstimator, X: Any, argument: str, *, reset: bool) -> Mat:
    """Finite float64 rows. Not negative if the family is multinomial."""
    with named_errors(estimator, argument):
        table: Mat = validate_data(
            estimator, plain_numbers(X), reset=reset, dtype=np.float64, order="C"
        )
        if estimator.family == "multinomial":
            check_non_negative(table, type(estimator).__name__)
        check_size(table)
    return table


def _positions(estimator: BaseEstimator, groups: Any, n_points: int) -> Labels:
    """The document of each point as a number, by order of first appearance."""
    with named_errors(estimator, "groups"):
        labels = check_array(groups, ensure_2d=False, dtype=None)
        if labels.shape != (n_points,):
            raise ValueError(
                f"expected one entry for each of {n_points} points, got {labels.shape}"
            )
        if labels.dtype == object and any(label is None for label in labels):
            raise ValueError("expected the document of each point, got None for some")
        try:
            _, first, which = np.unique(labels, return_index=True, return_inverse=True)
        except TypeError as error:
            raise TypeError(f"expected labels of one kind, such as all text: {error}") from error
    order = np.empty(len(first), np.int32)
    order[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return order[which]
