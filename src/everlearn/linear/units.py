"""The units in which weights are learned: those of standardised columns and targets.

Weights belong to columns x' = (x - origin) / unit and to targets y' = (y - target_origin) /
target_unit. All four follow the running mean and spread of the data. `conversion.py` expresses
what was learned in new units; docs/math/passive_aggressive.md derives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Mat, Table, Vec
from everlearn.estimator.scaling import RunningScale

BoolVec: TypeAlias = NDArray[np.bool_]
_GROWTH: Final = 1.25
"""Units are renewed when the number of rows has grown by this factor."""
_FARTHEST: Final = 100.0
"""A value this many units from its origin makes the units be renewed at once."""
_ROUNDING: Final = 1e-14
"""A constant column may differ by this share of itself."""
_MOST_ROWS: Final = 1024
"""Rows that are standardised together."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Running scales of columns and targets, and the units that were last taken from them.

    Attributes
    ----------
    column_scale, target_scale : RunningScale
        Of all rows so far. Classes have no target scale: it stays blank.
    origin, unit : ndarray of shape (n_features,)
        Of columns. The origin is zero for sparse rows, and without an intercept.
    target_origin, target_unit : ndarray of shape (n_tasks,)
        Of targets: 0 and 1 for classes.
    is_sparse : bool
        Whether the first rows were sparse. Zeros then count as absent: columns are divided by the
        root mean square of their other values, and by `row_length`, and not centred.
    row_length : float
        Root of the mean number of entries of a sparse row, so that rows have a length of about 1.
        Rows of thousands of rare words would count too much otherwise. 1 for dense rows.
    has_intercept : bool
        Whether there is an intercept. It makes up for the origin.
    n_rows : int
        Rows at the last renewal.
    """

    column_scale: RunningScale
    target_scale: RunningScale
    origin: Vec
    unit: Vec
    target_origin: Vec
    target_unit: Vec
    is_sparse: bool
    row_length: float
    has_intercept: bool
    n_rows: int

    @classmethod
    def blank(cls, n_features: int, n_tasks: int, *, intercept: bool) -> Units:
        """The units before the first row: all are 1."""
        return cls(
            column_scale=RunningScale.blank(n_features),
            target_scale=RunningScale.blank(n_tasks),
            origin=np.zeros(n_features),
            unit=np.ones(n_features),
            target_origin=np.zeros(n_tasks),
            target_unit=np.ones(n_tasks),
            is_sparse=False,
            row_length=1.0,
            has_intercept=intercept,
            n_rows=0,
        )

    def for_rows(self, X: Table) -> Units:
        """Sparse units if the first rows are sparse; later rows change nothing here."""
        return replace(self, is_sparse=sparse.issparse(X)) if self.n_rows == 0 else self

    def observe(self, X: Table, targets: Mat | None) -> Units:
        """Add rows to the running scales, and keep the units.

        Only a column that sparse rows have for the first time gets a unit at once, its first
        value: its weights are still zero, so nothing has to be converted.
        """
        column_scale = self.column_scale.after(X)
        target_scale = self.target_scale if targets is None else self.target_scale.after(targets)
        unit = self.unit
        if self.is_sparse:
            seen, first = np.unique(X.indices, return_index=True)
            new = self.column_scale.count[seen] == 0
            unit = unit.copy()
            unit[seen[new]] = self.row_length * np.abs(X.data[first[new]])
        return replace(self, column_scale=column_scale, target_scale=target_scale, unit=unit)

    def renewed(self, n_rows: int) -> Units:
        """Take new units from the running scales, after `n_rows` rows."""
        columns, targets = self.column_scale, self.target_scale
        centred = self.has_intercept and not self.is_sparse
        length = np.sqrt(max(columns.count.sum() / n_rows, 1.0)) if self.is_sparse else 1.0
        return replace(
            self,
            row_length=float(length),
            origin=columns.mean if centred else self.origin,
            unit=columns.unit if centred else length * columns.size,
            target_origin=targets.mean if self.has_intercept else self.target_origin,
            target_unit=targets.unit if self.has_intercept else targets.size,
            n_rows=n_rows,
        )

    def is_due(self, n_rows: int) -> bool:
        """Whether units should be renewed after `n_rows` rows."""
        return n_rows >= _GROWTH * self.n_rows

    def out_of_range(self, X: Table, targets: Mat | None) -> BoolVec:
        """Which rows make units be renewed at once.

        They are far out, or the first to differ in a column that was constant so far.
        """
        column_limit = self._limit(self.column_scale, self.unit)
        if self.is_sparse:
            known = self.column_scale.count[X.indices] > 0
            far = known & (np.abs(X.data) > _FARTHEST * self.unit[X.indices])
            found = np.zeros(X.shape[0], np.bool_)
            found[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[far]] = True
        else:
            found = (np.abs(X - self.origin) > column_limit).any(axis=1)
        if targets is not None:
            target_limit = self._limit(self.target_scale, self.target_unit)
            found |= (np.abs(targets - self.target_origin) > target_limit).any(axis=1)
        return np.asarray(found)

    def _limit(self, scale: RunningScale, unit: Vec) -> Vec:
        """How far from their origin values may be in these units."""
        constant = scale.is_constant & (self.has_intercept | (scale.mean == 0))
        return np.where(constant, _ROUNDING * np.abs(scale.mean), _FARTHEST * unit)

    def standardize(self, X: Table) -> Table:
        """Rows in these units."""
        if isinstance(X, np.ndarray):
            return np.asarray((X - self.origin) / self.unit)
        return sparse.csr_array((X.data / self.unit[X.indices], X.indices, X.indptr), X.shape)

    def standardize_targets(self, targets: Mat) -> Mat:
        """Targets in these units."""
        return np.ascontiguousarray((targets - self.target_origin) / self.target_unit)

    def select(self, X: Table, rows: IntVec) -> Table:
        """Some rows, sparse or dense as the first rows were."""
        part: Any = X[rows]
        if self.is_sparse:
            part = sparse.csr_array(part)
            if (part.data == 0.0).any():
                part.eliminate_zeros()
            return part
        return np.asarray(part.toarray() if sparse.issparse(part) else part)


class Segment(NamedTuple):
    """Rows that are learned in the same units; `x` and `y` are standardised."""

    units: Units
    rows: IntVec
    x: Table
    y: Mat


def segments(
    units: Units,
    X: Table,
    targets: Mat,
    order: IntVec,
    size: int,
    n_rows: int,
    *,
    scaled_targets: bool,
    joined: bool,
    fixed: bool,
) -> Iterator[Segment]:
    """Batches of rows, with units that are renewed on the way unless `fixed`.

    Parameters
    ----------
    size, joined
        Rows of a batch; batches of one row may be `joined`, where each is learned by itself.
    n_rows : int
        Rows before these.
    scaled_targets : bool
        Whether targets have units.
    """
    start = 0
    units = units if fixed else units.for_rows(X)
    while start < len(order):
        rows = order[start : start + (_MOST_ROWS if joined else size)]
        x, y = units.select(X, rows), targets[rows]
        if not fixed:
            measured = y if scaled_targets else None
            units, n_kept = _next_units(units, x, measured, n_rows, joined=joined)
            rows, x, y = rows[:n_kept], x[:n_kept], y[:n_kept]
            n_rows += n_kept
        start += len(rows)
        yield Segment(units, rows, units.standardize(x), units.standardize_targets(y))


def _next_units(
    units: Units, x: Table, targets: Mat | None, n_rows: int, *, joined: bool
) -> tuple[Units, int]:
    """Units for the next batch, and the number of its rows that can be learned in them.

    A batch can renew the units, and is learned whole. Of joined rows, only the first can renew
    them: the batch ends before the next row that would.
    """

    def observed(units: Units, start: int, stop: int) -> Units:
        return units.observe(x[start:stop], None if targets is None else targets[start:stop])

    def out_of_range(units: Units, start: int, stop: int) -> BoolVec:
        return units.out_of_range(x[start:stop], None if targets is None else targets[start:stop])

    first = 1 if joined else x.shape[0]
    after = observed(units, 0, first)
    if after.is_due(n_rows + first) or out_of_range(units, 0, first).any():
        after = after.renewed(n_rows + first)
    if not joined:
        return after, first
    most = max(int(np.ceil(_GROWTH * after.n_rows)) - n_rows - 1, 1)
    far = out_of_range(after, 1, most)
    n_kept = 1 + int(np.argmax(np.append(far, True)))
    return observed(after, 1, n_kept), n_kept
