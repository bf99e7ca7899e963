"""Copy this to begin a family: independent Poisson counts with a gamma prior on each rate.

The identity that all of everlearn rests on is

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
    """Gamma posteriors of the rates of K components: shapes a (K, D), inverse scales b (K, 1)."""

    a: Mat
    b: Mat


class GammaPoisson:
    """Counts that are independent in each column, with a Gamma(shape, rate) prior."""

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
        """What depends on the row alone."""
        return -gammaln(np.asarray(X) + 1.0).sum(axis=1)

    def posterior(self, n: Vec, t: Mat) -> Rates:
        """From masses and sums of features; zeros give the prior."""
        return Rates(self.shape + np.maximum(t, 0.0), self.rate + n[:, None])

    def natural(self, q: Rates) -> tuple[Mat, Vec]:
        """eta and constant of the identity."""
        return psi(q.a) - np.log(q.b), -(q.a / q.b).sum(axis=1)

    def cumulant(self, q: Rates) -> Vec:
        """Log of the constant in front of the posterior density."""
        return np.asarray((q.a * np.log(q.b) - gammaln(q.a)).sum(axis=1))

    def log_predictive(self, X: Table, q: Rates) -> Mat:
        """Negative binomial."""
        x = np.asarray(X, np.float64)[:, None, :]
        terms = gammaln(q.a + x) - gammaln(q.a) - gammaln(x + 1.0)
        terms += q.a * np.log(q.b / (q.b + 1.0)) - x * np.log(q.b + 1.0)
        return np.asarray(terms.sum(axis=2))

    def means(self, q: Rates) -> Mat:
        """Expected rates."""
        return np.asarray(q.a / q.b)

    def covariances(self, q: Rates) -> NDArray[np.float64]:
        """The variance of a Poisson count is its rate."""
        return self.means(q)

    def draw(self, q: Rates, k: int, size: int, rng: np.random.Generator) -> Mat:
        """Rows of the posterior predictive."""
        rates = rng.gamma(q.a[k], 1.0 / q.b[k], (size, self.n_features))
        return rng.poisson(rates).astype(np.float64)

    def embedding(self, X: Table, q: Rates | None = None) -> Table:
        """Square roots: their variance hardly depends on the rate."""
        return np.sqrt(np.asarray(X, np.float64))
