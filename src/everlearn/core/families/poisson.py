"""Columns of Poisson counts, whose rates have a Gamma prior: rate_d ~ Gamma(shape, scale_d).

`inverse_scale` is what many books call the rate of the Gamma. A NaN contributes nothing.
Derivation: docs/math/tables.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Table, Vec

_MOST_SUMMED: Final = 10_000
"""An entropy is a sum over at most this many counts; with more it is that of a Gaussian."""


@dataclass(frozen=True, slots=True)
class GammaPrior:
    """Prior of each column's rate; `inverse_scale` has one entry each."""

    shape: float
    inverse_scale: Vec


class Rates(NamedTuple):
    """Posteriors Gamma(shape, inverse_scale) of the rates of K components, both (K, D)."""

    shape: Mat
    inverse_scale: Mat


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent Poisson counts; features are [x, 1 if observed] per column."""

    prior: GammaPrior

    @property
    def n_features(self) -> int:
        return len(self.prior.inverse_scale)

    @property
    def n_stats(self) -> int:
        return 2 * self.n_features

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Mat:
        x = np.asarray(X, np.float64)
        seen = ~np.isnan(x)
        return np.hstack([np.where(seen, x, 0.0), seen]).astype(dtype)

    def log_base(self, X: Table) -> Vec:
        return np.asarray(-np.nansum(gammaln(np.asarray(X, np.float64) + 1.0), axis=1))

    def posterior(self, n: Vec, t: Mat) -> Rates:
        d = self.n_features
        sums, seen = np.maximum(t[:, :d], 0.0), np.maximum(t[:, d:], 0.0)
        return Rates(self.prior.shape + sums, self.prior.inverse_scale + seen)

    def with_learned_prior(self, n: Vec, t: Mat) -> Poisson:
        """The same family, because its prior has no spread."""
        return self

    def natural(self, q: Rates) -> tuple[Mat, Vec]:
        eta = np.hstack([psi(q.shape) - np.log(q.inverse_scale), -self.means(q)])
        return eta, np.zeros(len(eta))

    def cumulant(self, q: Rates) -> Vec:
        return np.asarray((q.shape * np.log(q.inverse_scale) - gammaln(q.shape)).sum(axis=1))

    def log_predictive(self, X: Table, q: Rates) -> Mat:
        """Negative binomials."""
        x = np.asarray(X, np.float64)
        out = np.empty((len(x), len(q.shape)))
        for k, (a, b) in enumerate(zip(*q, strict=True)):
            out[:, k] = np.nansum(_log_density(x, a, b), axis=1)
        return out

    def log_typical(self, X: Table, q: Rates) -> Mat:
        """Minus the entropies of the negative binomials, over the entries that a row has."""
        parts = [
            [_mean_log_density(a, b) for a, b in zip(*own, strict=True)]
            for own in zip(q.shape.tolist(), q.inverse_scale.tolist(), strict=True)
        ]
        return np.asarray(~np.isnan(np.asarray(X, np.float64)) @ np.array(parts).T)

    def means(self, q: Rates) -> Mat:
        return q.shape / q.inverse_scale

    def covariances(self, q: Rates) -> Mat:
        """The variance of a Poisson count is its rate."""
        return self.means(q)

    def draw(self, q: Rates, k: int, size: int, rng: np.random.Generator) -> Mat:
        rates = rng.gamma(q.shape[k], 1.0 / q.inverse_scale[k], (size, self.n_features))
        return rng.poisson(rates).astype(np.float64)

    def embedding(self, X: Table, q: Rates | None = None) -> Mat:
        """Square roots, whose variance hardly depends on the rate; gaps are in the middle."""
        roots = 2.0 * np.sqrt(np.asarray(X, np.float64))
        seen = ~np.isnan(roots)
        middle = np.sum(roots, axis=0, where=seen) / np.maximum(seen.sum(axis=0), 1)
        return np.where(seen, roots, middle)


def _log_density(x: Vec | Mat, a: float | Vec, b: float | Vec) -> Mat:
    """Negative binomial of counts whose rate is Gamma(a, inverse scale b)."""
    terms = gammaln(a + x) - gammaln(a) - gammaln(x + 1.0)
    return np.asarray(terms + a * np.log(b / (b + 1.0)) - x * np.log1p(b))


def _mean_log_density(a: float, b: float) -> float:
    """Mean of `_log_density` over counts that are drawn from it."""
    mean = a / b
    variance = mean * (1.0 + 1.0 / b)
    largest = np.ceil(mean + 12.0 * np.sqrt(variance) + 40.0)
    if largest > _MOST_SUMMED:
        return float(-0.5 * (np.log(2.0 * np.pi * variance) + 1.0))
    logs = _log_density(np.arange(largest + 1.0), a, b)
    return float(np.exp(logs) @ logs)
