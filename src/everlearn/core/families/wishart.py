"""The Wishart factor that the full and the zero-mean Gaussian share.

Lambda ~ W(nu, B^-1), so that E[Lambda] = nu B^-1, for K components at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import gammaln

from everlearn.core.arrays import Cube, Mat, Table, Vec
from everlearn.core.math import digamma_multivariate, log_gamma_multivariate, upper_triangle


@dataclass(frozen=True, slots=True)
class Wishart:
    """Posterior precision of K components: `dof` (K,), `scale` B (K, D, D) and its factors."""

    dof: Vec
    scale: Cube
    log_det: Vec

    @classmethod
    def from_scatter(cls, dof: Vec, base: Mat, scatter: Cube) -> Wishart:
        """B = base + scatter; `base` is positive definite, `scatter` is so up to rounding."""
        scale = base + scatter
        try:
            factor = np.linalg.cholesky(scale)
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(scatter)
            clipped = np.maximum(values, 0.0)[:, None, :]
            scale = base + (vectors * clipped) @ vectors.transpose(0, 2, 1)
            factor = np.linalg.cholesky(scale)
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        return cls(dof, scale, 2.0 * np.log(diagonal).sum(axis=1))

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return int(self.scale.shape[-1])

    def expected_precision(self) -> Cube:
        """E[Lambda], shape (K, D, D)."""
        return np.asarray(self.dof[:, None, None] * np.linalg.inv(self.scale))

    def expected_log_det(self) -> Vec:
        """E[log |Lambda|], shape (K,)."""
        return np.asarray(
            digamma_multivariate(0.5 * self.dof, self.dim) + self.dim * math.log(2.0) - self.log_det
        )

    def cumulant(self) -> Vec:
        """Log of the constant in front of each Wishart density in Lambda."""
        half = 0.5 * self.dof
        return np.asarray(
            half * self.log_det
            - half * self.dim * math.log(2.0)
            - log_gamma_multivariate(half, self.dim)
        )

    def log_student(self, x: Mat, mean: Mat, inflation: Vec) -> Mat:
        """Log multivariate Student-t densities: the Gaussian with Lambda integrated out.

        `inflation` (K,) is by how much uncertainty of the mean widens the covariance.
        """
        d = self.dim
        dof = self.dof - d + 1.0
        constant = (
            gammaln(0.5 * (dof + d))
            - gammaln(0.5 * dof)
            - 0.5 * d * np.log(np.pi * inflation)
            - 0.5 * self.log_det
        )
        out = np.empty((len(x), len(dof)))
        for k, inverse in enumerate(np.linalg.inv(self.scale)):
            centred = x - mean[k]
            distance = np.einsum("nd,nd->n", centred @ inverse, centred) / inflation[k]
            out[:, k] = constant[k] - 0.5 * (dof[k] + d) * np.log1p(np.maximum(distance, 0.0))
        return out

    def draw_student(
        self, k: int, mean: Vec, inflation: float, size: int, rng: np.random.Generator
    ) -> Mat:
        """Rows of the Student-t of component k."""
        dof = self.dof[k] - self.dim + 1.0
        normal = rng.standard_normal((size, self.dim))
        factor = np.linalg.cholesky(self.scale[k] * inflation / dof)
        stretch = np.sqrt(dof / rng.chisquare(dof, (size, 1)))
        return np.asarray(mean + stretch * (normal @ factor.T))


def quadratic_features(X: Table, origin: Vec | None, dtype: DTypeLike) -> Mat:
    """Upper triangle of x x' for each row, then x itself if there is an origin to take it about.

    Computed column by column, along memory, and returned transposed: (n, P) in Fortran order.
    """
    n, d = X.shape
    triangle = d * (d + 1) // 2
    out = np.empty((triangle + (0 if origin is None else d), n), dtype)
    if origin is None:
        x = np.ascontiguousarray(X.T, dtype)
    else:
        x = out[triangle:]
        np.subtract(X.T, origin[:, None].astype(dtype), out=x, casting="same_kind")
    start = 0
    for i in range(d):
        np.multiply(x[i], x[i:], out=out[start : start + d - i])
        start += d - i
    return out.T


def packed_quadratic(matrices: Cube) -> Mat:
    """Coefficients c with x' M x = c . triangle of x x': off-diagonal entries count twice."""
    rows, columns = upper_triangle(matrices.shape[-1])
    return np.ascontiguousarray(matrices[:, rows, columns] * np.where(rows == columns, 1.0, 2.0))
