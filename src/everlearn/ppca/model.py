"""Probabilistic principal components: a Gaussian whose covariance is low-rank plus isotropic.

x = W z + mean + noise, z ~ N(0, I_q), noise ~ N(0, s I_d), so x ~ N(mean, W W^T + s I). Nothing
here forms a (d, d) matrix unless it is asked for one. Rows may have missing values (NaN), which
are integrated out. Derivation: docs/math/ppca.md, sections 1 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from everlearn.core.arrays import Cube, Mat, Vec
from everlearn.core.math import LOG_2PI

SMALLEST_NOISE: Final = 1e-100
"""Squares of the largest entries divided by this are still finite."""
NOISE_SHARE: Final = 1e-8
"""Noise is at least this share of the average variance, so that covariances have an inverse."""
_ROUNDING: Final = 1e-12
"""Differences below this share of the mean are rounding errors."""


def noise_floor(mean_variance: float) -> float:
    """The least noise of a model of rows with this variance on average over features."""
    return max(NOISE_SHARE * mean_variance, SMALLEST_NOISE)


@dataclass(frozen=True, slots=True, eq=False)
class PPCA:
    """A model of rows.

    Attributes
    ----------
    mean : (d,)
    loadings : (d, q), W
    noise : variance of the noise, positive
    """

    mean: Vec
    loadings: Mat
    noise: float

    @property
    def rank(self) -> int:
        """Number of components q."""
        return int(self.loadings.shape[1])

    @property
    def is_flat(self) -> bool:
        """Whether some direction has no variance: the rows were too few or too alike."""
        d, q = self.loadings.shape
        least = self.noise + (float(self.axes()[1][-1]) ** 2 if q == d else 0.0)
        floor = noise_floor(float(np.vdot(self.loadings, self.loadings)) / d + self.noise)
        return least <= max(2.0 * floor, (_ROUNDING * float(np.abs(self.mean).max())) ** 2)

    def axes(self) -> tuple[Mat, Vec, Mat]:
        """U (d, q), s (q,) falling and V (q, q) with W = U diag(s) V^T."""
        u, s, vt = np.linalg.svd(self.loadings, full_matrices=False)
        return u, s, np.ascontiguousarray(vt.T)

    def covariance(self) -> Mat:
        """The (d, d) matrix W W^T + s I."""
        covariance = self.loadings @ self.loadings.T
        covariance.flat[:: len(covariance) + 1] += self.noise
        return covariance

    def precision(self) -> Mat:
        """Inverse of the covariance, (d, d)."""
        u, s, _ = self.axes()
        precision = (u * (1.0 / (s**2 + self.noise) - 1.0 / self.noise)) @ u.T
        precision.flat[:: len(precision) + 1] += 1.0 / self.noise
        return precision

    def inner(self) -> Mat:
        """M = W^T W + s I, (q, q)."""
        m = self.loadings.T @ self.loadings
        m.flat[:: self.rank + 1] += self.noise
        return m

    def posterior(self, X: Mat) -> RowPosterior:
        """Posterior of the latents and of missing entries, for each row."""
        missing = np.isnan(X)
        where = np.flatnonzero(missing.any(axis=1))
        if not len(where):
            z, score = self._complete(X)
            return RowPosterior(self, X, z, score)
        z, score, filled = np.empty((len(X), self.rank)), np.empty(len(X)), X.copy()
        whole = np.ones(len(X), np.bool_)
        whole[where] = False
        z[whole], score[whole] = self._complete(X[whole])
        gaps = missing[where]
        z[where], score[where], spread = self._incomplete(X[where], ~gaps)
        filled[where] = np.where(gaps, self.mean + z[where] @ self.loadings.T, X[where])
        return RowPosterior(self, filled, z, score, where, gaps, spread)

    def log_likelihood(self, X: Mat) -> Vec:
        """Log density of the entries that each row has."""
        return self.posterior(X).log_likelihood

    def draw(self, n: int, rng: np.random.Generator) -> Mat:
        """Rows of the model, (n, d)."""
        z = rng.standard_normal((n, self.rank))
        noise = rng.standard_normal((n, len(self.mean)))
        return np.asarray(self.mean + z @ self.loadings.T + np.sqrt(self.noise) * noise)

    def _complete(self, X: Mat) -> tuple[Mat, Vec]:
        d, q = self.loadings.shape
        y = X - self.mean
        factor = cho_factor(self.inner(), lower=True)
        z = cho_solve(factor, (y @ self.loadings).T).T
        rest = y - z @ self.loadings.T
        # y^T C^-1 y as a sum of squares: no difference of large numbers if noise is small.
        square = np.einsum("nd,nd->n", rest, rest) / self.noise + np.einsum("nq,nq->n", z, z)
        log_det = (d - q) * np.log(self.noise) + 2.0 * np.log(np.diagonal(factor[0])).sum()
        return np.ascontiguousarray(z), np.asarray(-0.5 * (d * LOG_2PI + log_det + square))

    def _incomplete(self, X: Mat, seen: NDArray[np.bool_]) -> tuple[Mat, Vec, Cube]:
        """Latents, log-likelihoods and latent covariances of rows with a mask each."""
        d, q = self.loadings.shape
        shown = seen.astype(np.float64)
        y = np.where(seen, X - self.mean, 0.0)
        products = (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(d, q * q)
        m = (shown @ products).reshape(-1, q, q) + self.noise * np.eye(q)
        inverse = np.linalg.inv(m)
        inverse = 0.5 * (inverse + inverse.transpose(0, 2, 1))
        z = np.einsum("npq,nq->np", inverse, y @ self.loadings)
        rest = (y - z @ self.loadings.T) * shown
        square = np.einsum("nd,nd->n", rest, rest) / self.noise + np.einsum("nq,nq->n", z, z)
        count = shown.sum(axis=1)
        log_det = (count - q) * np.log(self.noise) + np.linalg.slogdet(m)[1]
        return z, np.asarray(-0.5 * (count * LOG_2PI + log_det + square)), self.noise * inverse


@dataclass(frozen=True, slots=True, eq=False)
class RowPosterior:
    """Posterior of the latents of n rows under a model.

    Attributes
    ----------
    model : the model
    filled : (n, d), the rows, with expected values in place of missing entries
    z : (n, q), expected latents
    log_likelihood : (n,), of the entries that are present
    where : (m,), positions of the rows with missing entries
    missing : (m, d), which of their entries are missing
    spread : (m, q, q), covariances of their latents; that of complete rows is s M^-1
    """

    model: PPCA
    filled: Mat
    z: Mat
    log_likelihood: Vec
    where: NDArray[np.intp] | None = None
    missing: NDArray[np.bool_] | None = None
    spread: Cube | None = None

    def common_spread(self) -> Mat:
        """Covariance of the latents of a complete row."""
        q = self.model.rank
        return np.asarray(self.model.noise * cho_solve(cho_factor(self.model.inner()), np.eye(q)))
