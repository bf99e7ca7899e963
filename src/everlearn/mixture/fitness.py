"""Detect misfits: rows of a stream whose log densities are unusually low.

Rows are scored by the model as it was before it learned them. A new kind of rows that a broad
component explains makes no strangers, but its rows fit worse than others. A cumulative sum (CUSUM)
of standardised log densities grows while rows are more than half a standard deviation below the
baseline. When it is large, the rows since it was zero are a misfit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.estimator.history import Misfit

_HORIZON: Final = 10_000.0
"""Rows whose log densities make the baseline: older ones fade."""
_LEAST_ROWS: Final = 250.0
"""Rows that a baseline needs. There are no misfits before."""
_ALLOWANCE: Final = 0.5
"""Standard deviations below the mean that are no sign of a misfit."""
_WORST: Final = 3.0
"""Standard deviations below the mean that one row counts for at most."""
_LIMIT: Final = 100.0
"""The cumulative sum at which rows are a misfit."""
_SMALLEST_SPREAD: Final = 1e-3
"""Smaller standard deviations are raised to this one."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What log densities of new rows are compared with: their mean, and the lowest that counts."""

    mean: float = 0.0
    lowest: float = -np.inf

    def deviation_sums(self, log_density: Vec, weights: Vec | None) -> Vec:
        """Sum of the weights, of deviations from the mean, and of their squares, (3,)."""
        away = np.maximum(log_density, self.lowest) - self.mean
        w = np.ones(len(away)) if weights is None else weights
        return np.array([w.sum(), w @ away, w @ away**2])


@dataclass(frozen=True, slots=True)
class Fitness:
    """The running baseline of log densities, and the cumulative sum below it.

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
    def baseline(self) -> Baseline:
        """The baseline for the next rows."""
        if self.mass < _LEAST_ROWS:
            return Baseline(self.mean)
        return Baseline(self.mean, self.mean - _WORST * self._spread)

    def after(self, sums: Vec) -> Fitness:
        """After more rows. `sums` are their `Baseline.deviation_sums`."""
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
        """The latest rows, if they are a misfit. `mass` is the weight of all rows so far."""
        if self.excess <= _LIMIT:
            return None
        since = round(max(mass - self.rows, 0.0))
        return Misfit(since, round(self.rows), self.drop / self.rows)

    @property
    def _spread(self) -> float:
        return max(float(np.sqrt(self.variance)), _SMALLEST_SPREAD)
