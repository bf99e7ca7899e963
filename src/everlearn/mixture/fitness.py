"""How well new rows fit: their log densities under what was known before they were learned.

A new kind of rows that a broad component explains makes no strangers. But its rows fit worse than
others. A cumulative sum (CUSUM) of standardised log densities grows while rows fit worse than
usual by more than half a standard deviation. When it is large, the rows since it was zero are a
misfit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.estimator.history import Misfit

_HORIZON: Final = 10_000.0
"""Rows that count for what is usual."""
_LEAST_ROWS: Final = 250.0
"""What is usual is not known from fewer rows."""
_ALLOWANCE: Final = 0.5
"""Standard deviations below the mean that are no sign of a misfit."""
_WORST: Final = 3.0
"""Standard deviations below the mean that one row counts for at most."""
_LIMIT: Final = 100.0
_SMALLEST_SPREAD: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Usual:
    """The mean of usual log densities, and the lowest that counts in full."""

    mean: float = 0.0
    lowest: float = -np.inf

    def sums(self, log_density: Vec, weights: Vec | None) -> Vec:
        """Weight, and sums of deviations from the mean and of their squares, for some rows."""
        away = np.maximum(log_density, self.lowest) - self.mean
        w = np.ones(len(away)) if weights is None else weights
        return np.array([w.sum(), w @ away, w @ away**2])


@dataclass(frozen=True, slots=True)
class Fitness:
    """Log densities of the latest rows of a stream, and whether they are unusually low.

    Attributes
    ----------
    mass : weight of the rows, at most the horizon
    mean, variance : of their log densities
    excess : the cumulative sum, in rows times standard deviations
    rows : weight of the rows since the sum was zero
    drop : sum of how far their log densities are below the mean, in nats
    """

    mass: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    excess: float = 0.0
    rows: float = 0.0
    drop: float = 0.0

    @property
    def usual(self) -> Usual:
        """What the next rows are compared with."""
        if self.mass < _LEAST_ROWS:
            return Usual(self.mean)
        return Usual(self.mean, self.mean - _WORST * self._spread)

    def after(self, sums: Vec) -> Fitness:
        """With more rows, whose `Usual.sums` these are."""
        mass, away, squares = sums.tolist()
        if not (mass > 0.0 and np.isfinite(sums).all()):
            return self
        excess = self.excess - away / self._spread - _ALLOWANCE * mass
        if self.mass < _LEAST_ROWS or excess <= 0.0:
            own = replace(self, excess=0.0, rows=0.0, drop=0.0)
        else:
            own = replace(self, excess=excess, rows=self.rows + mass, drop=self.drop - away)
        kept = max(min(self.mass, _HORIZON - mass), 0.0)
        shift = away / (kept + mass)
        variance = (kept * self.variance + squares) / (kept + mass) - shift**2
        whole = min(self.mass + mass, _HORIZON)
        return replace(own, mass=whole, mean=self.mean + shift, variance=max(variance, 0.0))

    def misfit(self, mass: float) -> Misfit | None:
        """The latest rows as a misfit, if they are one, when rows of this weight have come."""
        if self.excess <= _LIMIT:
            return None
        since = round(max(mass - self.rows, 0.0))
        return Misfit(since, round(self.rows), self.drop / self.rows)

    @property
    def _spread(self) -> float:
        return max(float(np.sqrt(self.variance)), _SMALLEST_SPREAD)
