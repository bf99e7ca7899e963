"""Everything that the next step of a PPCA learner depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.core.stats import total
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.ppca.model import PPCA, noise_floor
from everlearn.ppca.moments import Moments
from everlearn.ppca.stats import LatentStats

TYPICAL_ROWS: Final = 1000.0
"""Rows over which log-likelihoods are averaged to tell which are unusual."""


@dataclass(frozen=True, slots=True)
class Typical:
    """Log densities of recent rows before these were learned: how many, mean and variance.

    Rows count by their weights in units of the average weight, so that its scale does not matter.
    """

    mass: float = 0.0
    mean: float = 0.0
    variance: float = 0.0

    @property
    def parts(self) -> tuple[float, float, float]:
        """All of them, in order."""
        return self.mass, self.mean, self.variance

    def after(self, sums: Vec) -> Typical:
        """With rows of which the `likelihoods` of a local step are given."""
        mass, _, first, second = (float(value) for value in sums)
        if mass <= 0.0:
            return self
        old = min(self.mass, TYPICAL_ROWS)
        share = mass / (old + mass)
        apart = first / mass - self.mean
        spread = max(second / mass - (first / mass) ** 2, 0.0)
        variance = (1.0 - share) * (self.variance + share * apart**2) + share * spread
        return Typical(old + mass, self.mean + share * apart, variance)


def _power_sums(
    rows: Rows | ChunkedRows, centre: Vec, power: int, engine: Engine | None
) -> tuple[Vec, Vec]:
    """Weight observed in each column, and the weighted sum of a power of x - centre."""
    if not isinstance(rows, ChunkedRows):
        return _powers((centre, power), rows)
    assert engine is not None
    found = engine.map(_powers, [chunk.handle for chunk in rows.chunks], (centre, power))
    return total([part[0] for part in found]), total([part[1] for part in found])


def _powers(shared: tuple[Vec, int], rows: Rows) -> tuple[Vec, Vec]:
    centre, power = shared
    seen = ~np.isnan(rows.X)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    return weights @ seen, weights @ np.where(seen, rows.X - centre, 0.0) ** power


@dataclass(frozen=True, slots=True, eq=False)
class PPCAState:
    """Components, their reference, and the statistics of recent rows.

    Attributes
    ----------
    models, weights : the components as they are believed now, and their shares, (K,)
    origin : (d,), the mean of the first rows; statistics are centred there
    reference : what the constraint protects, a component each, with the rows behind it; may be ()
    window : moments of recent rows, a component each; may be ()
    stats : statistics that online EM blends, divided by their mass
    odd : rows that no component explains, until they make a new one
    typical : log-likelihoods of recent rows
    clock : batches learned
    n_rows, since : weights of all rows seen, and of those learned since the last consolidation
    count : all rows seen, whatever they weigh
    task : name of the task of the latest rows
    seed : of random draws
    """

    models: tuple[PPCA, ...]
    weights: Vec
    origin: Vec
    reference: tuple[Moments, ...] = ()
    window: tuple[Moments, ...] = ()
    stats: LatentStats | None = None
    odd: Moments | None = None
    typical: Typical = Typical()
    clock: int = 0
    n_rows: float = 0.0
    since: float = 0.0
    task: int | str | None = None
    seed: int = 0
    count: int = 0

    @classmethod
    def blank(
        cls, rows: Rows | ChunkedRows, rank: int, seed: int, engine: Engine | None = None
    ) -> PPCAState:
        """Before the first rows are learned; mean and variance are theirs, gaps aside.

        Rows in chunks need the engine that holds them.
        """
        zero = np.zeros(rows.width)
        weight, sums = _power_sums(rows, zero, 1, engine)
        mass = np.maximum(weight, np.finfo(np.float64).tiny)
        mean = sums / mass
        square = _power_sums(rows, mean, 2, engine)[1] / mass
        variance = float(square.mean())
        model = PPCA(mean, np.zeros((len(mean), rank)), max(variance, noise_floor(0.0)))
        return cls((model,), np.ones(1), mean, seed=seed)

    @property
    def log_weights(self) -> Vec:
        """Logarithms of the shares; a component without any has minus infinity."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights))

    @property
    def row_weight(self) -> float:
        """Average weight of a row; numbers of rows are compared with masses by it."""
        return self.n_rows / self.count if self.count else 1.0

    @property
    def evidence(self) -> float:
        """Rows behind the reference."""
        return float(sum(part.mass for part in self.reference))

    def is_finite(self) -> bool:
        """Whether all parameters are numbers that can be worked with."""
        return all(
            np.isfinite(m.mean).all() and np.isfinite(m.loadings).all() and np.isfinite(m.noise)
            for m in self.models
        ) and bool(np.isfinite([*self.weights, *self.typical.parts]).all())
