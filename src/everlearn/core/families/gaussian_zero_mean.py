"""Gaussians with mean zero and full covariance under a Wishart prior.

The mean is the origin of the space the rows come in: centre the data once, globally, before
using this family. It is never centred per component. Derivation: docs/math/gaussians.md.
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
class WishartPrior:
    """`degrees_of_freedom` > D - 1; `scale` is B0, a (D, D) positive-definite matrix."""

    degrees_of_freedom: float
    scale: Mat


@dataclass(frozen=True, slots=True)
class ZeroMeanGaussian:
    """Zero-mean Gaussians; features are the upper triangle of x x'."""

    prior: WishartPrior

    @property
    def n_features(self) -> int:
        return len(self.prior.scale)

    @property
    def n_stats(self) -> int:
        return self.n_features * (self.n_features + 1) // 2

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Mat:
        return quadratic_features(X, None, dtype)

    def log_base(self, X: Table) -> Vec:
        return np.full(X.shape[0], -0.5 * LOG_2PI * self.n_features)

    def posterior(self, n: Vec, t: Mat) -> Wishart:
        scatter = unpack_symmetric(t, self.n_features)
        return Wishart.from_scatter(self.prior.degrees_of_freedom + n, self.prior.scale, scatter)

    def with_learned_prior(self, n: Vec, t: Mat) -> ZeroMeanGaussian:
        """The family whose prior expects the mean precision of the components."""
        prior = self.prior
        scale = learned_scale(prior.degrees_of_freedom, prior.scale, self.posterior(n, t), n)
        return replace(self, prior=replace(prior, scale=scale))

    def natural(self, q: Wishart) -> tuple[Mat, Vec]:
        eta = -0.5 * packed_quadratic(q.expected_precision())
        return eta, 0.5 * q.expected_log_det()

    def cumulant(self, q: Wishart) -> Vec:
        return q.cumulant()

    def log_predictive(self, X: Table, q: Wishart) -> Mat:
        return q.log_student(np.asarray(X, np.float64), self.means(q), np.ones(len(q.dof)))

    def log_typical(self, X: Table, q: Wishart) -> Mat:
        return np.tile(q.mean_log_student(np.ones(len(q.dof))), (X.shape[0], 1))

    def means(self, q: Wishart) -> Mat:
        return np.zeros((len(q.dof), self.n_features))

    def covariances(self, q: Wishart) -> Cube:
        return np.asarray(q.scale / q.dof[:, None, None])

    def draw(self, q: Wishart, k: int, size: int, rng: np.random.Generator) -> Mat:
        return q.draw_student(k, np.zeros(self.n_features), 1.0, size, rng)

    def embedding(self, X: Table, q: Wishart | None = None) -> Mat:
        x = np.asarray(X, np.float64)
        return x if q is None else q.whitened(x, 0)
