"""Statistics of rows and latents that online EM blends, and the M-step that follows from them.

Rows are centred at a fixed place, the origin, so that sums of squares keep their digits and do not
become stale when the mean moves. Derivation: docs/math/ppca.md, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from everlearn.core.arrays import Cube, Mat, Vec
from everlearn.ppca.model import PPCA, RowPosterior, noise_floor
from everlearn.ppca.moments import Moments

_RIDGE = 1e-10
"""Added to second moments of latents, times their average diagonal, to keep them invertible."""
_LEAST_SHARE = 1e-8
"""Components with a smaller share of the statistics keep their parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class LatentStats:
    """Weighted sums over rows for each of K components; y = x - origin.

    Attributes
    ----------
    n : (K,), sums of the weights
    yy : (K,), of y^T y
    yz : (K, d, q), of y z^T
    zz : (K, q, q), of z z^T and its posterior covariance
    x : (K, d), of y
    z : (K, q), of z
    """

    n: Vec
    yy: Vec
    yz: Cube
    zz: Cube
    x: Mat
    z: Mat

    def __len__(self) -> int:
        return len(self.n)

    @property
    def parts(self) -> tuple[Vec, Vec, Cube, Cube, Mat, Mat]:
        """The arrays."""
        return self.n, self.yy, self.yz, self.zz, self.x, self.z

    def __add__(self, other: LatentStats) -> LatentStats:
        pairs = zip(self.parts, other.parts, strict=True)
        return LatentStats(*(one + two for one, two in pairs))

    def __mul__(self, factor: float | Vec) -> LatentStats:
        by = np.broadcast_to(np.asarray(factor, np.float64), self.n.shape)
        return LatentStats(*(p * by.reshape((-1,) + (1,) * (p.ndim - 1)) for p in self.parts))

    def join(self, other: LatentStats) -> LatentStats:
        """Components of both, one after the other."""
        pairs = zip(self.parts, other.parts, strict=True)
        return LatentStats(*(np.concatenate(pair) for pair in pairs))


def row_stats(rows: RowPosterior, weights: Vec, origin: Vec) -> LatentStats:
    """Statistics of rows for one component."""
    y, wz = rows.filled - origin, weights[:, None] * rows.z
    n = float(weights.sum())
    yy = float(weights @ np.einsum("nd,nd->n", y, y))
    yz, zz = y.T @ wz, rows.z.T @ wz
    if rows.where is None or rows.missing is None or rows.spread is None:
        zz += n * rows.common_spread()
    else:
        w = weights[rows.where]
        loadings, (d, q) = rows.model.loadings, rows.model.loadings.shape
        zz += (n - float(w.sum())) * rows.common_spread()
        zz += np.einsum("n,npq->pq", w, rows.spread)
        # For every feature, the summed covariance of the latents of rows that lack it.
        lacking = ((w[:, None] * rows.missing).T @ rows.spread.reshape(-1, q * q)).reshape(d, q, q)
        correction = np.einsum("dp,dpq->dq", loadings, lacking)
        yz += correction
        yy += float(np.vdot(correction, loadings))
        yy += rows.model.noise * float(w @ rows.missing.sum(axis=1))
    x, z = weights @ y, wz.sum(axis=0)
    return LatentStats(np.array([n]), np.array([yy]), yz[None], zz[None], x[None], z[None])


def expected_stats(model: PPCA, truth: Moments, origin: Vec) -> LatentStats:
    """What `row_stats` of a model is on average for rows with these moments, in closed form."""
    m = cho_factor(model.inner())
    a = cho_solve(m, model.loadings.T)
    spread = model.noise * cho_solve(m, np.eye(model.rank))
    z = a @ (truth.mean - model.mean)
    y = truth.mean - origin
    ca = truth.factor @ (truth.factor.T @ a.T) + truth.noise * a.T
    yy = len(y) * truth.variance + float(y @ y)
    yz = ca + np.outer(y, z)
    zz = spread + a @ ca + np.outer(z, z)
    return LatentStats(np.ones(1), np.array([yy]), yz[None], zz[None], y[None], z[None])


def m_step(stats: LatentStats, k: int, origin: Vec) -> PPCA:
    """The parameters of component k that maximise the expected log-likelihood.

    The mean is that of the rows; loadings and noise are optimal for this mean.
    """
    n = stats.n[k]
    shift, z = stats.x[k] / n, stats.z[k] / n
    yz, zz, yy = stats.yz[k] / n, stats.zz[k] / n, float(stats.yy[k] / n)
    yz, yy = yz - np.outer(shift, z), yy - float(shift @ shift)
    d, q = yz.shape
    zz = zz + (_RIDGE * np.trace(zz) / q) * np.eye(q)
    loadings = cho_solve(cho_factor(zz), yz.T).T
    inner = float(np.vdot(zz @ loadings.T, loadings.T))
    noise = (yy - 2.0 * float(np.vdot(yz, loadings)) + inner) / d
    return PPCA(
        origin + shift, np.ascontiguousarray(loadings), max(noise, noise_floor(max(yy, 0.0) / d))
    )


def m_steps(stats: LatentStats, old: Sequence[PPCA], origin: Vec) -> tuple[PPCA, ...]:
    """The `m_step` of every component. One with hardly any rows keeps its parameters."""
    enough = stats.n > _LEAST_SHARE * stats.n.sum()
    return tuple(m_step(stats, k, origin) if enough[k] else model for k, model in enumerate(old))


@dataclass(frozen=True, slots=True, eq=False)
class FeatureSums:
    """Sums that regress each of d features on the latents, over rows that have it; u = (1, z).

    Attributes
    ----------
    uu : (d, q + 1, q + 1), of u u^T and its posterior covariance
    ru : (d, q + 1), of r u^T, where r is the residual of the feature
    """

    uu: Cube
    ru: Mat

    @classmethod
    def of(cls, rows: RowPosterior, weights: Vec) -> FeatureSums:
        """Sums over rows for one component."""
        model, (n, q) = rows.model, rows.z.shape
        d = len(model.mean)
        present = np.broadcast_to(weights[:, None], (n, d)).copy()
        spread = np.broadcast_to(rows.common_spread(), (n, q, q)).copy()
        if rows.where is not None and rows.missing is not None and rows.spread is not None:
            present[rows.where] *= ~rows.missing
            spread[rows.where] = rows.spread
        u = np.hstack([np.ones((n, 1)), rows.z])
        uu = (present.T @ (u[:, :, None] * u[:, None, :]).reshape(n, -1)).reshape(d, q + 1, q + 1)
        spreads = (present.T @ spread.reshape(n, -1)).reshape(d, q, q)
        uu[:, 1:, 1:] += spreads
        # Missing entries were filled with their expectation, so their residual is 0.
        ru = (weights[:, None] * (rows.filled - model.mean - rows.z @ model.loadings.T)).T @ u
        ru[:, 1:] -= np.einsum("dp,dpq->dq", model.loadings, spreads)
        return cls(uu, ru)

    def __add__(self, other: FeatureSums) -> FeatureSums:
        return FeatureSums(self.uu + other.uu, self.ru + other.ru)

    def __mul__(self, factor: float) -> FeatureSums:
        return FeatureSums(self.uu * factor, self.ru * factor)

    def regressed(self, model: PPCA, mass: Vec, row_weight: float = 1.0) -> PPCA:
        """The model with mean and loadings of each feature updated by these rows.

        `mass` (d,) is that of earlier rows with the feature, which count for the old values. One
        imagined row, of weight `row_weight`, counts for the old loadings too, so that few rows
        cannot change them much.
        """
        q = model.rank
        uu = self.uu + mass[:, None, None] * np.eye(q + 1)
        uu[:, range(1, q + 1), range(1, q + 1)] += row_weight
        uu[:, 0, 0] += np.where(uu[:, 0, 0] > 0.0, 0.0, 1.0)  # a feature that no row has
        change = np.linalg.solve(uu, self.ru[:, :, None])[:, :, 0]
        return replace(
            model, mean=model.mean + change[:, 0], loadings=model.loadings + change[:, 1:]
        )


def refilled(moments: Moments, old: PPCA, new: PPCA) -> Moments:
    """Moments as if the new model had filled the gaps, which the old model filled."""
    if moments.present is None:
        return moments
    gaps = 1.0 - moments.present
    inner = cho_factor(old.inner())
    a = cho_solve(inner, old.loadings.T)
    spread = np.linalg.cholesky(old.noise * cho_solve(inner, np.eye(old.rank)))
    loadings = gaps[:, None] * (new.loadings - old.loadings)
    shift = gaps * (new.mean - old.mean) + loadings @ (a @ (moments.mean - old.mean))
    factor = np.hstack([moments.factor + loadings @ (a @ moments.factor), loadings @ spread])
    return replace(moments, mean=moments.mean + shift, factor=factor)
