"""The state of `OnlinePPCA`: all that the next step of online EM depends on."""

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
"""Rows over which log densities are averaged, to find out which rows are unusual."""


@dataclass(frozen=True, slots=True)
class Typical:
    """Log densities of recent rows, each from before it was learned: mass, mean and variance.

    The mass of a row is its weight divided by the average weight, so that the unit of weights does
    not matter.
    """

    mass: float = 0.0
    mean: float = 0.0
    variance: float = 0.0

    @property
    def parts(self) -> tuple[float, float, float]:
        """The three numbers."""
        return self.mass, self.mean, self.variance

    def after(self, sums: Vec) -> Typical:
        """The value after further rows. `sums` are the `likelihoods` of a `LocalSum`."""
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
    """Weight of the entries that each column has, and weighted sums of (x - centre) ** power."""
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
    """The components, what the constraint protects, and what is kept of recent rows.

    Attributes
    ----------
    models, weights : the components and their shares, (K,)
    origin : (d,), the mean of the first rows, where statistics are centred
    reference : moments that the constraint protects, one for each component, or none
    window : moments of recent rows, one for each component, or none
    stats : statistics that online EM blends, divided by their mass
    odd : moments of rows that no component explains and that may become a new one
    typical : log densities of recent rows
    clock : batches learned
    n_rows : rows seen
    mass : sum of their weights
    new_mass : sum of the weights of rows learned since the last consolidation
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
    n_rows: int = 0
    mass: float = 0.0
    new_mass: float = 0.0
    task: int | str | None = None
    seed: int = 0

    @classmethod
    def blank(
        cls, rows: Rows | ChunkedRows, rank: int, seed: int, engine: Engine | None = None
    ) -> PPCAState:
        """The state before the first rows, with their mean and variance, gaps left out.

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
        """Logarithms of the shares. A component without any has minus infinity."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights))

    @property
    def row_weight(self) -> float:
        """Average weight of a row: turns a number of rows into a mass."""
        return self.mass / self.n_rows if self.n_rows else 1.0

    @property
    def reference_mass(self) -> float:
        """Weight of the rows that the reference stands for."""
        return float(sum(part.mass for part in self.reference))

    def is_finite(self) -> bool:
        """Whether all parameters are finite."""
        return all(
            np.isfinite(m.mean).all() and np.isfinite(m.loadings).all() and np.isfinite(m.noise)
            for m in self.models
        ) and bool(np.isfinite([*self.weights, *self.typical.parts]).all())
