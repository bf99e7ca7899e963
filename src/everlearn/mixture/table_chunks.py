"""Tables in Dask collections. Workers read each chunk twice.

First, workers summarize the columns of their chunks. From the sums, this process chooses kinds and
values, as for a table in memory. Then workers turn each entry into its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from everlearn.core.stats import total
from everlearn.engine.rows import Rows
from everlearn.estimator.collections import (
    OpenRows,
    as_rows,
    held_chunks,
    n_rows_of,
    open_collection,
    open_rows,
    portable_clone,
    row_chunks,
)
from everlearn.mixture.columns import Column, Columns, ColumnSummary, chosen_columns, summaries_of
from everlearn.mixture.inputs import HasFamily, checked_rows, checked_table
from everlearn.mixture.tables import check_names, given_kinds, is_frame, read_table


@dataclass(frozen=True, slots=True)
class OpenTable:
    """Rows on workers for the time of one call, and their columns if they are a table."""

    opened: OpenRows
    columns: Columns | None


@contextmanager
def open_chunks(estimator: Any, X: Any, sample_weight: Any) -> Iterator[OpenTable]:
    """The rows of a collection, checked on their workers."""
    columns = _columns_of(estimator, X, sample_weight) if _is_table(estimator, X) else None
    read = checked_rows if columns is None else partial(_coded_rows, columns=columns)
    with open_rows(estimator, X, sample_weight, read) as opened:
        yield OpenTable(opened, columns)


def _is_table(estimator: HasFamily, X: Any) -> bool:
    """Whether X is learned as a table: by the `family`, or because a frame has a text column."""
    family = estimator.family
    if not isinstance(family, str) or family == "table":
        return True
    if family != "auto" or not is_frame(X):
        return False
    return any(getattr(dtype, "kind", "O") not in "iuf" for dtype in X.dtypes)


@dataclass(frozen=True, slots=True)
class _SummaryCheck:
    """Sums up a chunk where it is. Nothing of it is kept."""

    twin: Any

    def __call__(
        self, chunk: tuple[Any, Any]
    ) -> tuple[None, tuple[Columns, list[ColumnSummary]] | None]:
        table, weights = as_rows(chunk[0]), chunk[1]
        if n_rows_of(table) == 0:
            return None, None
        columns, X = read_table(self.twin, table, None, reset=True)
        if weights is not None and len(weights) == len(X):  # others are refused by the next pass
            X = X[np.asarray(weights) > 0]
        return None, (columns, summaries_of(columns, X, given_kinds(self.twin.family)))


def _columns_of(estimator: Any, X: Any, sample_weight: Any) -> Columns:
    """The columns with the kinds and values that all chunks show."""
    owner, given = type(estimator).__name__, given_kinds(estimator.family)
    chunks = row_chunks(estimator, X, sample_weight)
    with open_collection(estimator) as engine:
        check = _SummaryCheck(portable_clone(estimator))
        found = [info for _, info in held_chunks(estimator, engine, chunks, check, "row")]
    widths = {len(columns) for columns, _ in found}
    if len(widths) > 1:
        raise ValueError(f"X of {owner} must have chunks of one width, got {sorted(widths)}.")
    columns = tuple(
        _joined(owner, [(columns[j], summaries[j]) for columns, summaries in found])
        for j in range(widths.pop())
    )
    check_names(owner, columns, given)
    summaries = [total([own[j] for _, own in found]) for j in range(len(columns))]
    return chosen_columns(owner, columns, summaries, given)


def _joined(owner: str, parts: list[tuple[Column, ColumnSummary]]) -> Column:
    """A column that holds numbers, or text, in all chunks that have a value."""
    kinds = {column.numeric for column, summary in parts if summary.n_seen}
    first = parts[0][0]
    if len(kinds) > 1:
        raise ValueError(
            f"X of {owner} must have either numbers or text in column {first.name!r}, got both in "
            "different chunks."
        )
    numeric = kinds == {True}
    return replace(first, kind="numbers" if numeric else "categories", values=(), numeric=numeric)


def _coded_rows(
    estimator: HasFamily, X: Any, *, columns: Columns, reset: bool, sample_weight: Any = None
) -> Rows:
    return checked_table(estimator, X, columns, reset=reset, sample_weight=sample_weight)[1]
