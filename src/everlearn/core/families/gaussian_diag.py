"""Gaussians with diagonal covariance under a Normal-Gamma prior (Par-InGMM, section 3).

tau_d ~ Gamma(shape, rate_d), mu_d | tau_d ~ N(mean_d, 1 / (mean_precision tau_d)).
The family bnpy calls diagonal Gaussian with a Wishart prior per dimension is the same one with
other hyper-parameters, see `NormalGammaPrior.wishart`. Derivation: docs/math/gaussians.md.

Missing values: with `missing=True` a NaN contributes nothing, which is exact because the
dimensions are independent given the component.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Table, Vec
from everlearn.core.families.base import LEARNED_PRIOR_ROWS
from everlearn.core.math import LOG_2PI


@dataclass(frozen=True, slots=True)
class NormalGammaPrior:
    """Prior of each dimension's mean and precision; `mean` and `rate` have one entry each."""

    mean: Vec
    mean_precision: float
    shape: float
    rate: Vec

    @classmethod
    def wishart(
        cls, mean: Vec, mean_precision: float, degrees_of_freedom: float, scale: Vec
    ) -> NormalGammaPrior:
        """A one-dimensional Wishart W(nu, 1 / beta) per dimension is Gamma(nu / 2, beta / 2)."""
        return cls(mean, mean_precision, degrees_of_freedom / 2.0, scale / 2.0)


@dataclass(frozen=True, slots=True)
class NormalGamma:
    """Posterior of K components.

    `mean` and `rate` are (K, D); `mean_precision` and `shape` are (K, 1), or (K, D) when
    values are missing and each dimension has its own count.
    """

    mean: Mat
    mean_precision: Mat
    shape: Mat
    rate: Mat

    @property
    def precision(self) -> Mat:
        """E[tau], shape (K, D)."""
        return self.shape / self.rate

    @property
    def log_precision(self) -> Mat:
        """E[log tau], shape (K, D)."""
        return np.asarray(psi(self.shape) - np.log(self.rate))


@dataclass(frozen=True, slots=True)
class DiagGaussian:
    """Diagonal Gaussians; rows are taken about `origin`, which keeps raw moments accurate.

    Features are [x, x * x], and also [1 if observed] per dimension when `missing`.
    """

    prior: NormalGammaPrior
    origin: Vec
    missing: bool = False

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def n_stats(self) -> int:
        return (3 if self.missing else 2) * self.n_features

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Mat:
        d = self.n_features
        out = np.empty((X.shape[0], self.n_stats), dtype)
        x = out[:, :d]
        np.subtract(X, self.origin, out=x, casting="same_kind")
        if self.missing:
            observed = ~np.isnan(x)
            x[~observed] = 0.0
            out[:, 2 * d :] = observed
        np.square(x, out=out[:, d : 2 * d])
        return out

    def log_base(self, X: Table) -> Vec:
        if self.missing:
            return np.asarray(-0.5 * LOG_2PI * (~np.isnan(np.asarray(X))).sum(axis=1))
        return np.full(X.shape[0], -0.5 * LOG_2PI * self.n_features)

    def posterior(self, n: Vec, t: Mat) -> NormalGamma:
        d, p = self.n_features, self.prior
        count = t[:, 2 * d :] if self.missing else n[:, None]
        m0 = p.mean - self.origin
        weight = p.mean_precision + count
        mean = (p.mean_precision * m0 + t[:, :d]) / weight
        scatter = t[:, d : 2 * d] + p.mean_precision * m0**2 - weight * mean**2
        rate = p.rate + 0.5 * np.maximum(scatter, 0.0)
        return NormalGamma(mean, weight, p.shape + 0.5 * count, rate)

    def with_learned_prior(self, n: Vec, t: Mat) -> DiagGaussian:
        """The family whose prior expects the variance of each feature within components.

        A component of mass n counts as n - 1, because it has a mean of its own: one that has a
        single row says nothing, so cutting finely does not make the spread smaller by itself.
        """
        d = self.n_features
        count = t[:, 2 * d :] if self.missing else n[:, None]
        about_means = t[:, d : 2 * d] - t[:, :d] ** 2 / np.maximum(count, 1e-300)
        scatter = np.maximum(about_means, 0.0).sum(axis=0)
        freedom = np.maximum(count - 1.0, 0.0).sum(axis=0)
        expected = self.prior.rate / self.prior.shape
        spread = (scatter + LEARNED_PRIOR_ROWS * expected) / (freedom + LEARNED_PRIOR_ROWS)
        return replace(self, prior=replace(self.prior, rate=self.prior.shape * spread))

    def natural(self, q: NormalGamma) -> tuple[Mat, Vec]:
        """Par-InGMM eq. 16 with the term -1 / (2 lambda_k) per dimension that it leaves out.

        The term varies with k, and without it the bound can fall.
        """
        tau = q.precision
        per_dim = 0.5 * (q.log_precision - tau * q.mean**2 - 1.0 / q.mean_precision)
        if self.missing:
            return np.hstack([tau * q.mean, -0.5 * tau, per_dim]), np.zeros(len(tau))
        return np.hstack([tau * q.mean, -0.5 * tau]), per_dim.sum(axis=1)

    def cumulant(self, q: NormalGamma) -> Vec:
        per_dim = q.shape * np.log(q.rate) - gammaln(q.shape) + 0.5 * np.log(q.mean_precision)
        return np.asarray(per_dim.sum(axis=1))

    def log_predictive(self, X: Table, q: NormalGamma) -> Mat:
        """Independent Student-t densities, one per dimension."""
        x = np.asarray(X, np.float64) - self.origin
        dof, spread, constant = _student(q)
        out = np.empty((len(x), len(q.rate)))
        for k in range(len(q.rate)):
            per_dim = constant[k] - 0.5 * (dof[k] + 1.0) * np.log1p(
                (x - q.mean[k]) ** 2 / spread[k]
            )
            out[:, k] = np.nansum(per_dim, axis=1) if self.missing else per_dim.sum(axis=1)
        return out

    def log_typical(self, X: Table, q: NormalGamma) -> Mat:
        """Minus the entropies of the Student-t densities, over the entries that a row has."""
        dof, _, constant = _student(q)
        half = 0.5 * (dof + 1.0)
        per_dim = constant - half * (psi(half) - psi(0.5 * dof))
        if self.missing:
            return np.asarray(~np.isnan(np.asarray(X)) @ per_dim.T)
        return np.tile(per_dim.sum(axis=1), (X.shape[0], 1))

    def means(self, q: NormalGamma) -> Mat:
        return q.mean + self.origin

    def covariances(self, q: NormalGamma) -> Mat:
        return np.asarray(q.rate / q.shape)

    def draw(self, q: NormalGamma, k: int, size: int, rng: np.random.Generator) -> Mat:
        scale = np.sqrt(q.rate[k] * (1.0 + 1.0 / q.mean_precision[k]) / q.shape[k])
        noise = rng.standard_t(np.broadcast_to(2.0 * q.shape[k], scale.shape), (size, len(scale)))
        return np.asarray(self.origin + q.mean[k] + scale * noise)

    def embedding(self, X: Table, q: NormalGamma | None = None) -> Mat:
        x = np.asarray(X, np.float64) - self.origin
        if q is not None:
            x = (x - q.mean[0]) * np.sqrt(q.precision[0])
        if self.missing:
            x[np.isnan(x)] = 0.0
        return x


def _student(q: NormalGamma) -> tuple[Mat, Mat, Mat]:
    """Degrees of freedom of each predictive, these times its squared scale, and its log peak."""
    dof = np.broadcast_to(2.0 * q.shape, q.rate.shape)
    spread = q.rate * (1.0 + 1.0 / q.mean_precision) / q.shape * dof
    constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof) - 0.5 * np.log(np.pi * spread)
    return dof, spread, constant
