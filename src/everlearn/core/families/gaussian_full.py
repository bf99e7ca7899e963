"""Gaussians with full covariance under a Normal-Wishart prior.

Lambda ~ W(nu0, B0^-1), mu | Lambda ~ N(m0, (kappa0 Lambda)^-1). Derivation:
docs/math/gaussians.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from everlearn.core.arrays import Cube, Mat, Table, Vec
from everlearn.core.families.wishart import (
    Wishart,
    learned_scale,
    packed_quadratic,
    quadratic_features,
)
from everlearn.core.math import LOG_2PI, unpack_symmetric


@dataclass(frozen=True, slots=True)
class NormalWishartPrior:
    """`degrees_of_freedom` > D - 1; `scale` is B0, a (D, D) positive-definite matrix."""

    mean: Vec
    mean_precision: float
    degrees_of_freedom: float
    scale: Mat


@dataclass(frozen=True, slots=True)
class NormalWishart:
    """Posterior of K components: `mean` (K, D), `mean_precision` (K,), and the precision."""

    mean: Mat
    mean_precision: Vec
    wishart: Wishart


@dataclass(frozen=True, slots=True)
class FullGaussian:
    """Full Gaussians; features are the upper triangle of x x', then x, about `origin`."""

    prior: NormalWishartPrior
    origin: Vec

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def n_stats(self) -> int:
        return self.n_features * (self.n_features + 3) // 2

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Mat:
        return quadratic_features(X, self.origin, dtype)

    def log_base(self, X: Table) -> Vec:
        return np.full(X.shape[0], -0.5 * LOG_2PI * self.n_features)

    def posterior(self, n: Vec, t: Mat) -> NormalWishart:
        d, p = self.n_features, self.prior
        m0 = p.mean - self.origin
        weight = p.mean_precision + n
        mean = (p.mean_precision * m0 + t[:, -d:]) / weight[:, None]
        second = unpack_symmetric(t[:, :-d], d) + p.mean_precision * np.outer(m0, m0)
        scatter = second - weight[:, None, None] * mean[:, :, None] * mean[:, None, :]
        wishart = Wishart.from_scatter(p.degrees_of_freedom + n, p.scale, scatter)
        return NormalWishart(mean, weight, wishart)

    def with_learned_prior(self, n: Vec, t: Mat) -> FullGaussian:
        """The family whose prior expects the mean precision of the components."""
        prior, found = self.prior, self.posterior(n, t).wishart
        scale = learned_scale(prior.degrees_of_freedom, prior.scale, found, n)
        return replace(self, prior=replace(prior, scale=scale))

    def natural(self, q: NormalWishart) -> tuple[Mat, Vec]:
        precision = q.wishart.expected_precision()
        linear = np.einsum("kij,kj->ki", precision, q.mean)
        constant = 0.5 * (
            q.wishart.expected_log_det()
            - np.einsum("ki,ki->k", linear, q.mean)
            - self.n_features / q.mean_precision
        )
        return np.hstack([-0.5 * packed_quadratic(precision), linear]), constant

    def cumulant(self, q: NormalWishart) -> Vec:
        d = self.n_features
        return np.asarray(q.wishart.cumulant() + 0.5 * d * np.log(q.mean_precision))

    def log_predictive(self, X: Table, q: NormalWishart) -> Mat:
        x = np.asarray(X, np.float64) - self.origin
        return q.wishart.log_student(x, q.mean, 1.0 + 1.0 / q.mean_precision)

    def log_typical(self, X: Table, q: NormalWishart) -> Mat:
        mean = q.wishart.mean_log_student(1.0 + 1.0 / q.mean_precision)
        return np.tile(mean, (X.shape[0], 1))

    def means(self, q: NormalWishart) -> Mat:
        return q.mean + self.origin

    def covariances(self, q: NormalWishart) -> Cube:
        return np.asarray(q.wishart.scale / q.wishart.dof[:, None, None])

    def draw(self, q: NormalWishart, k: int, size: int, rng: np.random.Generator) -> Mat:
        inflation = 1.0 + 1.0 / q.mean_precision[k]
        return q.wishart.draw_student(k, q.mean[k] + self.origin, inflation, size, rng)

    def embedding(self, X: Table, q: NormalWishart | None = None) -> Mat:
        x = np.asarray(X, np.float64) - self.origin
        return x if q is None else q.wishart.whitened(x - q.mean[0], 0)
