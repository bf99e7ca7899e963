"""The scale of columns or of targets, followed online."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Table, Vec
from everlearn.kernels.scaling import add_entries, add_rows

_NOISE: Final = 10.0 * np.finfo(np.float64).eps
"""A spread below this share of the mean is rounding: the column counts as constant."""
_LEAST: Final = 1e-140
"""A spread or size below this counts as zero; its square would be."""


@dataclass(frozen=True, slots=True, eq=False)
class RunningScale:
    """Number, mean and sum of squared deviations of the known values of each column.

    The scale follows all values so far. An outlier among the first ones fades, and values that
    come in any batches give the same bits.
    """

    count: Vec
    mean: Vec
    squares: Vec

    @classmethod
    def blank(cls, n_columns: int) -> Self:
        """Before the first value."""
        return cls(np.zeros(n_columns), np.zeros(n_columns), np.zeros(n_columns))

    def after(self, values: Table) -> RunningScale:
        """The scale when these rows have come too.

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
        """The scale of what came after `base`, which is part of this."""
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
        """What values around their mean are divided by: spread, otherwise size, otherwise 1."""
        spread, size = self.spread, np.abs(self.mean)
        return np.where(spread > 0, spread, np.where(size > _LEAST, size, 1.0))

    @property
    def size(self) -> Vec:
        """What values around zero are divided by: their root mean square, or 1."""
        found = np.hypot(self.mean, np.sqrt(self.squares / np.maximum(self.count, 1.0)))
        return np.where(found > _LEAST, found, 1.0)

    def standard(self, values: Any) -> Mat:
        """Values in units of the scale, around its mean."""
        return np.asarray((values - self.mean) / self.unit)
