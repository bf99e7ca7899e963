"""Check the targets of `MedLDARegressor`, and convert them to the units it learns in (`Scale`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d

from everlearn.core.arrays import Vec
from everlearn.estimator.base import named_errors
from everlearn.topics.batches import Targets

_LARGEST = 1e100
ENOUGH = 32
"""Numbers after which the scale is fixed."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Number, mean and standard deviation of the first targets, which set the unit of all others.

    One target says nothing about spread, and a few say little. So the scale follows the targets
    until there are enough that are not all equal.

    n : number of targets
    mean, spread : their mean and standard deviation
    """

    n: int
    mean: float
    spread: float

    @classmethod
    def of(cls, y: Vec) -> Scale:
        """The scale of these targets; a missing one is NaN."""
        known = y[~np.isnan(y)]
        if known.size == 0:
            return cls(0, 0.0, 0.0)
        if (known == known[0]).all():  # a rounded mean would seem to differ from them
            return cls(known.size, float(known[0]), 0.0)
        return cls(known.size, float(known.mean()), float(known.std()))

    @property
    def unit(self) -> float:
        """Divisor of the numbers."""
        return self.spread or abs(self.mean) or 1.0

    @property
    def is_fixed(self) -> bool:
        """Whether further numbers leave it as it is."""
        return self.n >= ENOUGH and self.spread > 0.0

    def with_numbers(self, y: Vec) -> Scale:
        """The scale of these targets too."""
        new = Scale.of(y)
        if self.is_fixed or new.n == 0 or self.n == 0:
            return self if self.is_fixed or new.n == 0 else new
        n, apart = self.n + new.n, new.mean - self.mean
        own, other = self.n / n, new.n / n
        variance = own * self.spread**2 + other * new.spread**2 + own * other * apart**2
        return Scale(n, self.mean + other * apart, float(np.sqrt(variance)))


def checked_numbers(estimator: BaseEstimator, y: Any, n_documents: int) -> Vec:
    """The numbers, NaN where one is missing. Raises an error that names `y` and the estimator."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    with named_errors(estimator, "y"):
        missing = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else False
        values = column_or_1d(np.asarray(y), dtype=np.float64, warn=True)
        missing = np.ravel(missing)
        if len(values) != n_documents:
            raise ValueError(f"expected {n_documents} numbers, got {len(values)}")
        values = np.where(missing, 0.0, values)
        if not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity; a missing one is masked")
        if np.abs(values).max(initial=0.0) > _LARGEST:
            raise ValueError(f"expected numbers of at most {_LARGEST:g} in size")
    return np.where(missing, np.nan, values)


def number_targets(scale: Scale, values: Vec) -> Targets:
    """Numbers in units of the scale, and which of them are known."""
    known = ~np.isnan(values)
    standard = np.where(known, (values - scale.mean) / scale.unit, 0.0)
    return Targets(known.astype(np.int8)[:, None], np.ascontiguousarray(standard[:, None]))
