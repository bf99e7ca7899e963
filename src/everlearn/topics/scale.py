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

_MAX_TARGET = 1e100
MIN_TARGETS = 32
"""Targets after which the scale is fixed."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Mean and standard deviation of the first targets, which set the unit of all others.

    The scale follows the targets until there are `MIN_TARGETS` that are not all equal. A few
    targets say too little about their spread.

    n : number of targets
    mean, spread : their mean and standard deviation
    """

    n: int
    mean: float
    spread: float

    @classmethod
    def of(cls, y: Vec) -> Scale:
        """The scale of these targets. NaN means missing."""
        known = y[~np.isnan(y)]
        if known.size == 0:
            return cls(0, 0.0, 0.0)
        if (known == known[0]).all():  # their mean may be rounded, and the spread then not 0
            return cls(known.size, float(known[0]), 0.0)
        return cls(known.size, float(known.mean()), float(known.std()))

    @property
    def unit(self) -> float:
        """The number that targets are divided by."""
        return self.spread or abs(self.mean) or 1.0

    @property
    def is_fixed(self) -> bool:
        """Whether further targets do not change the scale."""
        return self.n >= MIN_TARGETS and self.spread > 0.0

    def with_numbers(self, y: Vec) -> Scale:
        """The scale of earlier targets and these."""
        new = Scale.of(y)
        if self.is_fixed or new.n == 0 or self.n == 0:
            return self if self.is_fixed or new.n == 0 else new
        n, apart = self.n + new.n, new.mean - self.mean
        own, other = self.n / n, new.n / n
        variance = own * self.spread**2 + other * new.spread**2 + own * other * apart**2
        return Scale(n, self.mean + other * apart, float(np.sqrt(variance)))


def checked_numbers(estimator: BaseEstimator, y: Any, n_documents: int) -> Vec:
    """The targets as float64, NaN where one is masked. Other targets must be finite."""
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
            raise ValueError(
                "Input y contains NaN or infinity. Mask missing numbers: np.ma.masked_invalid(y)"
            )
        if np.abs(values).max(initial=0.0) > _MAX_TARGET:
            raise ValueError(f"expected numbers of at most {_MAX_TARGET:g} in size")
    return np.where(missing, np.nan, values)


def number_targets(scale: Scale, values: Vec) -> Targets:
    """Targets in units of the scale, and which of them are known."""
    known = ~np.isnan(values)
    standard = np.where(known, (values - scale.mean) / scale.unit, 0.0)
    return Targets(known.astype(np.int8)[:, None], np.ascontiguousarray(standard[:, None]))
