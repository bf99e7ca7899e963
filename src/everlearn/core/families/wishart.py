"""The Wishart factor that the full and the zero-mean Gaussian share.

Lambda ~ W(nu, B^-1), so that E[Lambda] = nu B^-1, for K components at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular
from scipy.special import gammaln, psi

from everlearn.core.arrays import Cube, Mat, Table, Vec
from everlearn.core.math import digamma_multivariate, log_gamma_multivariate, upper_triangle


@dataclass(frozen=True, slots=True)
class Wishart:
    """Posterior precision of K components: `dof` (K,), `scale` B = L L' and `factor` L (K, D, D).

    L is lower triangular. Everything that needs an inverse of B takes it from L, so that whatever
    could be factored once cannot fail, or turn indefinite, later.
    """

    dof: Vec
    scale: Cube
    factor: Cube

    @classmethod
    def from_scatter(cls, dof: Vec, base: Mat, scatter: Cube) -> Wishart:
        """B = base + scatter; `base` is positive definite, `scatter` is so up to rounding."""
        scale = base + scatter
        try:
            return cls(dof, scale, np.asarray(np.linalg.cholesky(scale), np.float64))
        except np.linalg.LinAlgError:
            factor = _robust_factor(base, scatter)
            return cls(dof, factor @ factor.transpose(0, 2, 1), factor)

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return int(self.scale.shape[-1])

    @property
    def log_det(self) -> Vec:
        """Log determinant of B, shape (K,)."""
        return np.asarray(2.0 * np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum(axis=1))

    def expected_precision(self) -> Cube:
        """E[Lambda], shape (K, D, D)."""
        half = np.linalg.inv(self.factor)
        return np.asarray(self.dof[:, None, None] * (half.transpose(0, 2, 1) @ half))

    def whitened(self, x: Mat, k: int) -> Mat:
        """Rows in the space in which component k, with its expected precision, is round."""
        turned = solve_triangular(self.factor[k], x.T, lower=True, check_finite=False)
        return np.asarray(np.sqrt(self.dof[k]) * turned.T)

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
        dof, constant = self._student(inflation)
        out = np.empty((len(x), len(dof)))
        for k, half in enumerate(np.linalg.inv(self.factor)):
            turned = (x - mean[k]) @ half.T
            distance = np.einsum("nd,nd->n", turned, turned) / inflation[k]
            out[:, k] = constant[k] - 0.5 * (dof[k] + d) * np.log1p(distance)
        return out

    def mean_log_student(self, inflation: Vec) -> Vec:
        """Mean of `log_student` over rows of the same component: minus its entropy, (K,)."""
        dof, constant = self._student(inflation)
        half = 0.5 * (dof + self.dim)
        return np.asarray(constant - half * (psi(half) - psi(0.5 * dof)))

    def _student(self, inflation: Vec) -> tuple[Vec, Vec]:
        """Degrees of freedom, and log density at the mean, of each component."""
        d = self.dim
        dof = self.dof - d + 1.0
        constant = (
            gammaln(0.5 * (dof + d))
            - gammaln(0.5 * dof)
            - 0.5 * d * np.log(np.pi * inflation)
            - 0.5 * self.log_det
        )
        return dof, np.asarray(constant)

    def draw_student(
        self, k: int, mean: Vec, inflation: float, size: int, rng: np.random.Generator
    ) -> Mat:
        """Rows of the Student-t of component k."""
        dof = self.dof[k] - self.dim + 1.0
        normal = rng.standard_normal((size, self.dim))
        stretch = np.sqrt(inflation / rng.chisquare(dof, (size, 1)))
        return np.asarray(mean + stretch * (normal @ self.factor[k].T))


def _robust_factor(base: Mat, scatter: Cube) -> Cube:
    """Lower L with L L' = base + scatter, where scatter is so large that base drowns in rounding.

    In units in which the diagonal is 1, eigenvalues of scatter at or below the rounding error, of
    either sign, count as zero. The rest is a sum of squares, and L comes from a QR of their roots,
    which do not square the range of the numbers. What is beyond even that range is kept from zero.
    """
    own = np.diagonal(scatter, axis1=1, axis2=2)
    unit = np.sqrt(np.diagonal(base) + np.maximum(own, 0.0))[:, :, None]
    values, vectors = np.linalg.eigh(scatter / (unit * unit.transpose(0, 2, 1)))
    rounding = base.shape[-1] * np.finfo(np.float64).eps * values[:, -1:]
    roots = np.sqrt(np.where(values > rounding, values, 0.0))[:, None, :] * vectors
    halves = np.concatenate([np.linalg.cholesky(base) / unit, roots], axis=2)
    lower = np.asarray(np.linalg.qr(halves.transpose(0, 2, 1), mode="r")).transpose(0, 2, 1)
    diagonal = np.diagonal(lower, axis1=1, axis2=2)
    lower = lower * np.where(diagonal < 0, -1.0, 1.0)[:, None, :]
    places = np.arange(base.shape[-1])
    least = np.finfo(np.float64).eps * np.linalg.norm(halves, axis=2)
    lower[:, places, places] = np.maximum(np.abs(diagonal), least)
    return np.asarray(lower * unit)


def learned_scale(dof: float, scale: Mat, found: Wishart, n: Vec) -> Mat:
    """Scale of a prior that expects the mean precision of components with masses `n`.

    Not their mean covariance: covariances of several directions add up to a round one, which is
    that of none of them.
    """
    mass = float(n.sum())
    if mass <= 0.0:
        return scale
    precision = found.expected_precision().mean(axis=0)
    learned = dof * np.linalg.inv(precision)
    return np.asarray(0.5 * (learned + learned.T))


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
        np.subtract(X.T, origin[:, None], out=x, casting="same_kind")
    start = 0
    for i in range(d):
        np.multiply(x[i], x[i:], out=out[start : start + d - i])
        start += d - i
    return out.T


def packed_quadratic(matrices: Cube) -> Mat:
    """Coefficients c with x' M x = c . triangle of x x': off-diagonal entries count twice."""
    rows, columns = upper_triangle(matrices.shape[-1])
    return np.ascontiguousarray(matrices[:, rows, columns] * np.where(rows == columns, 1.0, 2.0))
