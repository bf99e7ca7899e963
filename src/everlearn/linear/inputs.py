"""Check the rows of linear models: all at once, or one chunk of a collection at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from everlearn.core.arrays import IntVec, Mat, Table
from everlearn.engine.opening import is_collection
from everlearn.estimator.collections import fetch_collections, n_rows_of, open_chunks
from everlearn.estimator.tables import checked_table


class Visit(NamedTuple):
    """Rows, their targets, and the order in which they are learned."""

    X: Table
    targets: Mat
    order: IntVec


class TrainingRows(NamedTuple):
    """Checked rows, in one table or in several, their targets, and the number of rows."""

    tables: Iterable[Table]
    y: Any
    n_rows: int


def visit_of(X: Table, targets: Mat, order: IntVec) -> Visit:
    """A visit of the rows in this order; a row without target is left out."""
    useful = np.asarray(~np.isnan(targets).all(axis=1))
    return Visit(X, targets, order[useful[order]])


@contextmanager
def open_tables(estimator: Any, X: Any, y: Any) -> Iterator[TrainingRows]:
    """The rows that `fit` learns from; a Dask collection is fetched.

    If each row is visited once and in order, chunks of a collection are fetched one by one. Then
    `y` says how many rows to expect.
    """
    in_order = estimator.max_iter == 1 and not estimator.shuffle
    if y is None or not (is_collection(X) and in_order):
        X, y = fetch_collections(estimator, X=X, y=y)
        rows = checked_table(estimator, X, reset=True)
        yield TrainingRows([rows], y, rows.shape[0])
        return
    (y,) = fetch_collections(estimator, y=y)
    with open_chunks(estimator, X) as chunks:
        filled = (chunk for chunk in chunks if n_rows_of(chunk))
        first = checked_table(estimator, next(filled, []), reset=True)
        others = (checked_table(estimator, chunk, reset=False) for chunk in filled)
        yield TrainingRows(chain([first], others), y, n_rows_of(y))


def in_batches(owner: str, tables: Iterable[Table], targets: Mat, size: int) -> Iterator[Visit]:
    """Visits of the rows in order, each of whole batches of rows that have a target.

    Rows that do not fill a batch wait for the next table, so the batches do not depend on where
    tables end.
    """
    start, waiting = 0, None
    for table in tables:
        own = targets[start : start + table.shape[0]]
        start += table.shape[0]
        if start > len(targets):
            break
        useful = np.flatnonzero(~np.isnan(own).all(axis=1))
        part = (table[useful], own[useful])
        rows, kept = part if waiting is None else _stack(waiting, part)
        whole = len(kept) // size * size
        yield Visit(rows[:whole], kept[:whole], np.arange(whole))
        waiting = (rows[whole:], kept[whole:])
    if start != len(targets):
        raise ValueError(
            f"'y' of {owner} must have an entry for each row. Got {len(targets)} entries and "
            f"{'more' if start > len(targets) else start} rows."
        )
    if waiting is not None:
        yield Visit(*waiting, np.arange(len(waiting[1])))


def _stack(one: tuple[Table, Mat], two: tuple[Table, Mat]) -> tuple[Table, Mat]:
    """Rows and targets, the second ones below the first."""
    X: Any = (one[0], two[0])
    if sparse.issparse(one[0]):
        rows: Table = sparse.csr_array(sparse.vstack(X, format="csr"))
    else:
        rows = np.concatenate(X)
    return rows, np.concatenate([one[1], two[1]])
