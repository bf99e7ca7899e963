"""Copy this to begin a family: independent Poisson counts with a gamma prior on each rate.

A family gives statistics of rows, the posterior from their sums, and expected log-likelihoods of
rows. All of everlearn uses this identity:

    E_q[log p(x | component k)] = T(x) . eta_k + constant_k + log base of x .

Here T(x) = x, the rates have q = Gamma(a, b), and

    E[log p] = sum_j x_j E[log rate_j] - sum_j E[rate_j] - sum_j log x_j! .

`tests/test_skeletons.py` compares it with sampling and with the exact evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Table, Vec


class Rates(NamedTuple):
    """Posteriors Gamma(a, b) of the rates of K components: shapes (K, D), inverse scales (K, 1)."""

    a: Mat
    b: Mat


class GammaPoisson:
    """Independent Poisson counts in each column, whose rates have a Gamma(shape, rate) prior."""

    def __init__(self, n_features: int, shape: float = 1.0, rate: float = 1.0) -> None:
        self.n_features, self.shape, self.rate = n_features, shape, rate

    @property
    def n_stats(self) -> int:
        """Number of features T(x)."""
        return self.n_features

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Table:
        """T(x) = x."""
        return np.ascontiguousarray(X, dtype)

    def log_base(self, X: Table) -> Vec:
        """The part of the log-likelihood that no component changes, (n,)."""
        return np.asarray(-gammaln(np.asarray(X) + 1.0).sum(axis=1))

    def posterior(self, n: Vec, t: Mat) -> Rates:
        """Posteriors from masses n (K,) and sums of features t (K, D); zeros give the prior."""
        return Rates(self.shape + np.maximum(t, 0.0), self.rate + n[:, None])

    def with_learned_prior(self, n: Vec, t: Mat) -> GammaPoisson:
        """The same family: its prior has no spread that could be learned from components."""
        return self

    def natural(self, q: Rates) -> tuple[Mat, Vec]:
        """eta, (K, D), and constant, (K,), of the identity."""
        return psi(q.a) - np.log(q.b), -(q.a / q.b).sum(axis=1)

    def cumulant(self, q: Rates) -> Vec:
        """Log of the constant in front of the posterior density, (K,)."""
        return np.asarray((q.a * np.log(q.b) - gammaln(q.a)).sum(axis=1))

    def log_predictive(self, X: Table, q: Rates) -> Mat:
        """Log density of a new row, (n, K): a negative binomial."""
        x = np.asarray(X, np.float64)[:, None, :]
        terms = gammaln(q.a + x) - gammaln(q.a) - gammaln(x + 1.0)
        terms += q.a * np.log(q.b / (q.b + 1.0)) - x * np.log(q.b + 1.0)
        return np.asarray(terms.sum(axis=2))

    def log_typical(self, X: Table, q: Rates) -> Mat:
        """Log density of an average row of each component, (n, K), to judge how odd rows are.

        Near its mean a count is nearly Gaussian, and a Gaussian is half a nat below its peak.
        """
        peak = np.diagonal(self.log_predictive(self.means(q), q))
        return np.tile(peak - 0.5 * self.n_features, (X.shape[0], 1))

    def means(self, q: Rates) -> Mat:
        """Expected rows, (K, D)."""
        return np.asarray(q.a / q.b)

    def covariances(self, q: Rates) -> NDArray[np.float64]:
        """Variances of rows, (K, D). That of a Poisson count is its rate."""
        return self.means(q)

    def draw(self, q: Rates, k: int, size: int, rng: np.random.Generator) -> Mat:
        """Rows from the posterior predictive of component k."""
        rates = rng.gamma(q.a[k], 1.0 / q.b[k], (size, self.n_features))
        return rng.poisson(rates).astype(np.float64)

    def embedding(self, X: Table, q: Rates | None = None) -> Table:
        """Points for seeding, whose distances are comparable: the square roots of counts."""
        return np.sqrt(np.asarray(X, np.float64))
