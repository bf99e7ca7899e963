"""The units in which weights are learned: those of standardised columns and targets.

Weights belong to columns x' = (x - origin) / unit and to targets t' = (t - goal) / goal_unit. All
four follow the running mean and spread of what came. docs/math/passive_aggressive.md says how
weights and beliefs are expressed anew when they move.
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
"""A value this many units from its origin asks for new units; these know it."""
_ROUNDING: Final = 1e-14
"""A constant column may differ by this share of itself."""
_MOST_ROWS: Final = 1024
"""Rows that are standardised together."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Running scales, and the units that were taken from them last.

    Attributes
    ----------
    columns, numbers : RunningScale
        Of the columns of rows, and of targets. Those of classes stay blank.
    origin, unit : ndarray of shape (n_features,)
        Of columns. The origin is zero if `thin` or without an intercept.
    goal, goal_unit : ndarray of shape (n_tasks,)
        Of targets: 0 and 1 for classes.
    thin : bool
        Whether the first rows were sparse. Zeros then count as absent: columns are divided by the
        root mean square of their other values, and by `length`, and not centred.
    length : float
        Root of the mean number of entries of a sparse row, so that rows have a length of about 1:
        rows of thousands of rare words would count too much otherwise. 1 for dense rows.
    centred : bool
        Whether there is an intercept, which pays for what centring moves.
    n_rows : int
        Rows at the last renewal.
    """

    columns: RunningScale
    numbers: RunningScale
    origin: Vec
    unit: Vec
    goal: Vec
    goal_unit: Vec
    thin: bool
    length: float
    centred: bool
    n_rows: int

    @classmethod
    def blank(cls, n_features: int, n_tasks: int, *, intercept: bool) -> Frame:
        """Before the first row: all units are 1."""
        zeros, ones = np.zeros(n_features), np.ones(n_features)
        columns, numbers = RunningScale.blank(n_features), RunningScale.blank(n_tasks)
        goal, goal_unit = np.zeros(n_tasks), np.ones(n_tasks)
        return cls(columns, numbers, zeros, ones, goal, goal_unit, False, 1.0, intercept, 0)

    def begun_by(self, X: Table) -> Frame:
        """The frame in the form that the first rows have, dense or sparse."""
        return replace(self, thin=sparse.issparse(X)) if self.n_rows == 0 else self

    def after(self, X: Table, targets: Mat | None) -> Frame:
        """The frame when these rows have come too, in the units that it has.

        A column of sparse rows that is new has its first value as unit: so far, its weights are
        zero, and nothing has to be expressed anew.
        """
        columns = self.columns.after(X)
        numbers = self.numbers if targets is None else self.numbers.after(targets)
        unit = self.unit
        if self.thin:
            seen, first = np.unique(X.indices, return_index=True)
            new = self.columns.count[seen] == 0
            unit = unit.copy()
            unit[seen[new]] = self.length * np.abs(X.data[first[new]])
        return replace(self, columns=columns, numbers=numbers, unit=unit)

    def renewed(self, n_rows: int) -> Frame:
        """The frame in units of what it has seen."""
        columns, numbers = self.columns, self.numbers
        centred = self.centred and not self.thin
        length = np.sqrt(max(columns.count.sum() / n_rows, 1.0)) if self.thin else 1.0
        return replace(
            self,
            length=float(length),
            origin=columns.mean if centred else self.origin,
            unit=columns.unit if centred else length * columns.size,
            goal=numbers.mean if self.centred else self.goal,
            goal_unit=numbers.unit if self.centred else numbers.size,
            n_rows=n_rows,
        )

    def is_due(self, n_rows: int) -> bool:
        """Whether units should be renewed when `n_rows` rows have come."""
        return n_rows >= _GROWTH * self.n_rows

    def _limits(self) -> tuple[Vec, Vec]:
        """How far from their origins values of columns and targets may be in these units.

        Where all values were equal there is no unit yet, and none may differ.
        """
        found = []
        for scale, unit in ((self.columns, self.unit), (self.numbers, self.goal_unit)):
            asleep = scale.is_constant & (self.centred | (scale.mean == 0))
            found.append(np.where(asleep, _ROUNDING * np.abs(scale.mean), _FARTHEST * unit))
        return found[0], found[1]

    def stirs(self, X: Table, targets: Mat | None) -> BoolVec:
        """Which rows ask for other units, because they are far out or first to differ."""
        columns, numbers = self._limits()
        if self.thin:
            known = self.columns.count[X.indices] > 0
            far = known & (np.abs(X.data) > _FARTHEST * self.unit[X.indices])
            stirred = np.zeros(X.shape[0], np.bool_)
            stirred[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[far]] = True
        else:
            stirred = (np.abs(X - self.origin) > columns).any(axis=1)
        if targets is not None:
            stirred |= (np.abs(targets - self.goal) > numbers).any(axis=1)
        return np.asarray(stirred)

    def standard(self, X: Table) -> Table:
        """Rows in these units."""
        if isinstance(X, np.ndarray):
            return np.asarray((X - self.origin) / self.unit)
        return sparse.csr_array((X.data / self.unit[X.indices], X.indices, X.indptr), X.shape)

    def taken(self, X: Table, rows: IntVec) -> Table:
        """Some rows in the form that the model keeps to, dense or sparse."""
        part: Any = X[rows]
        if self.thin:
            part = sparse.csr_array(part)
            if (part.data == 0.0).any():
                part.eliminate_zeros()
            return part
        return np.asarray(part.toarray() if sparse.issparse(part) else part)

    def aims(self, targets: Mat) -> Mat:
        """Targets in these units."""
        return np.ascontiguousarray((targets - self.goal) / self.goal_unit)


class Segment(NamedTuple):
    """Rows that are learned in the units of one frame."""

    frame: Frame
    rows: IntVec
    x: Table
    goals: Mat


def segments(
    frame: Frame,
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
    """Batches of rows in these units, which are renewed on the way unless `fixed`.

    Parameters
    ----------
    size, joined
        Rows of a batch; batches of one row may be `joined`, where each is learned by itself.
    n_rows : int
        Rows before these.
    scaled_targets : bool
        Whether targets have units.
    """
    begun = 0
    frame = frame if fixed else frame.begun_by(X)
    while begun < len(order):
        rows = order[begun : begun + (_MOST_ROWS if joined else size)]
        x, y = frame.taken(X, rows), targets[rows]
        if not fixed:
            numbers = y if scaled_targets else None
            frame, quiet = _advanced(frame, x, numbers, n_rows, joined=joined)
            rows, x, y = rows[:quiet], x[:quiet], y[:quiet]
            n_rows += quiet
        begun += len(rows)
        yield Segment(frame, rows, frame.standard(x), frame.aims(y))


def _advanced(
    frame: Frame, x: Table, numbers: Mat | None, n_rows: int, *, joined: bool
) -> tuple[Frame, int]:
    """The frame for the next batch, and the number of rows that it holds for.

    The batch, or the first of joined rows, may renew the units. Joined rows that do not follow.
    """

    def taught(known: Frame, start: int, stop: int) -> Frame:
        part = None if numbers is None else numbers[start:stop]
        return known.after(x[start:stop], part)

    first = 1 if joined else x.shape[0]
    after = taught(frame, 0, first)
    stirred = frame.stirs(x[:first], None if numbers is None else numbers[:first])
    if after.is_due(n_rows + first) or stirred.any():
        after = after.renewed(n_rows + first)
    if not joined:
        return after, first
    most = max(int(np.ceil(_GROWTH * after.n_rows)) - n_rows - 1, 1)
    stirred = after.stirs(x[1:most], None if numbers is None else numbers[1:most])
    quiet = 1 + int(np.argmax(np.append(stirred, True)))
    return taught(after, 1, quiet), quiet
