"""Running mean and spread of columns or targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Table, Vec
from everlearn.kernels.scaling import add_entries, add_rows

_NOISE: Final = 10.0 * np.finfo(np.float64).eps
"""A column whose spread is below this share of its mean counts as constant: it is rounding."""
_LEAST: Final = 1e-140
"""A spread or size below this counts as zero, because its square is close to underflow."""


@dataclass(frozen=True, slots=True, eq=False)
class RunningScale:
    """Number, mean and sum of squared deviations of the known values of each column.

    All values so far count equally, so an early outlier fades. The result has the same bits however
    rows are divided into batches.
    """

    count: Vec
    mean: Vec
    squares: Vec

    @classmethod
    def blank(cls, n_columns: int) -> Self:
        """The scale before the first value."""
        return cls(np.zeros(n_columns), np.zeros(n_columns), np.zeros(n_columns))

    def after(self, values: Table) -> RunningScale:
        """The scale after these rows.

        NaN is a missing value. In a sparse table, a zero is a missing value.
        """
        count, mean, squares = self.count.copy(), self.mean.copy(), self.squares.copy()
        if isinstance(values, np.ndarray):
            add_rows(np.ascontiguousarray(values), count, mean, squares)
        else:
            add_entries(values.data, values.indices, count, mean, squares)
        return RunningScale(count, mean, squares)

    def plus(self, other: RunningScale) -> RunningScale:
        """The scale of both parts of a stream."""
        n = np.maximum(self.count + other.count, 1.0)
        apart = other.mean - self.mean
        mean = self.mean + other.count / n * apart
        squares = self.squares + other.squares + self.count * (other.count / n) * apart**2
        return RunningScale(self.count + other.count, mean, squares)

    def minus(self, base: RunningScale) -> RunningScale:
        """The scale of the values learned after `base`, an earlier state of this scale."""
        n = self.count - base.count
        known = n > 0
        some = np.where(known, n, 1.0)
        mean = np.where(known, (self.count * self.mean - base.count * base.mean) / some, 0.0)
        apart = base.mean - mean
        between = n * (base.count / np.maximum(self.count, 1.0)) * apart**2
        squares = np.where(known, np.maximum(self.squares - base.squares - between, 0.0), 0.0)
        return RunningScale(np.maximum(n, 0.0), mean, squares)

    @property
    def spread(self) -> Vec:
        """Standard deviation of each column, zero if all its values are equal."""
        found = np.sqrt(self.squares / np.maximum(self.count, 1.0))
        return np.where(found > np.maximum(_NOISE * np.abs(self.mean), _LEAST), found, 0.0)

    @property
    def is_constant(self) -> NDArray[np.bool_]:
        """Which columns have had values, all of them equal."""
        return np.asarray((self.count > 0) & (self.spread == 0))

    @property
    def unit(self) -> Vec:
        """Divisor of centred values: the spread, or the size of the mean if that is 0, or 1."""
        spread, size = self.spread, np.abs(self.mean)
        return np.where(spread > 0, spread, np.where(size > _LEAST, size, 1.0))

    @property
    def size(self) -> Vec:
        """Divisor of values that are not centred: their root mean square, or 1."""
        found = np.hypot(self.mean, np.sqrt(self.squares / np.maximum(self.count, 1.0)))
        return np.where(found > _LEAST, found, 1.0)

    def standard(self, values: Any) -> Mat:
        """Values in units of the scale, around its mean."""
        return np.asarray((values - self.mean) / self.unit)
