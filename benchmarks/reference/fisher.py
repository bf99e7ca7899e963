"""Fisher information of one row under PPCA, as operators that cost O(d q^2).

Blocks for the mean, the loadings and the noise; those of the mean with the others are zero, that of
loadings and noise is `cross`. The block of the loadings has a null space of dimension
q (q - 1) / 2, the rotations of the latents, so it has a pseudo-inverse only.
Derivation: docs/math/ppca.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.ppca.model import PPCA


@dataclass(frozen=True, slots=True, eq=False)
class Fisher:
    """Information of a model in the basis W = U diag(s) V^T; `variances` are s^2 + noise."""

    u: Mat
    s: Vec
    v: Mat
    variances: Vec
    noise_variance: float

    @classmethod
    def of(cls, model: PPCA) -> Fisher:
        """The information at these parameters."""
        u, s, v = model.axes()
        return cls(u, s, v, s**2 + model.noise, model.noise)

    def mean(self, v: Vec) -> Vec:
        """The information on the mean times v, for a vector or the columns of a matrix."""
        inner = self.u.T @ v
        scaled = inner * _by_row(1.0 / self.variances - 1.0 / self.noise_variance, inner)
        return np.asarray(v / self.noise_variance + self.u @ scaled)

    def mean_inverse(self, v: Vec) -> Vec:
        """The inverse of `mean`: the covariance times v."""
        inner = self.u.T @ v
        return np.asarray(self.noise_variance * v + self.u @ (inner * _by_row(self.s**2, inner)))

    def loadings(self, a: Mat) -> Mat:
        """The information on the loadings times A: P A G + P W A^T P W with G = W^T P W, (d, q)."""
        inside, outside = self._split(a)
        s, lam = self.s, self.variances
        # Pairs (i, j) and (j, i) share a block of rank one along (s_j, s_i).
        mixed = inside * s + inside.T * s[:, None]
        inside = mixed * s / np.outer(lam, lam)
        return self._join(inside, outside * (s**2 / (self.noise_variance * lam)))

    def loadings_pinv(self, a: Mat) -> Mat:
        """Pseudo-inverse of `loadings`. Rotations have no information and become 0."""
        inside, outside = self._split(a)
        s, lam = self.s, self.variances
        squares = s[:, None] ** 2 + s**2
        along = (inside * s + inside.T * s[:, None]) * s
        inside = _ratio(along * np.outer(lam, lam), squares**2)
        return self._join(inside, _ratio(outside * (self.noise_variance * lam), s**2))

    @property
    def noise(self) -> float:
        """Information on the noise variance."""
        d, q = self.u.shape
        return 0.5 * float((self.variances**-2).sum() + (d - q) / self.noise_variance**2)

    @property
    def cross(self) -> Mat:
        """Information that loadings and noise have in common, P P W, (d, q)."""
        return np.asarray((self.u * (self.s / self.variances**2)) @ self.v.T)

    @property
    def largest_inverses(self) -> tuple[float, float, float]:
        """The largest eigenvalues of the (pseudo-)inverses for mean, loadings and noise."""
        s2, lam = self.s**2, self.variances
        off = _ratio(self.noise_variance * lam, s2)
        pairs = _ratio(np.outer(lam, lam), s2[:, None] + s2)
        outside = off.max(initial=0.0) if self.u.shape[0] > self.u.shape[1] else 0.0
        top = max(self.noise_variance, float(lam.max(initial=0.0)))
        return top, float(max(outside, pairs.max(initial=0.0))), 1.0 / self.noise

    def _split(self, a: Mat) -> tuple[Mat, Mat]:
        """A V as a part within the subspace, (q, q), and one orthogonal to it, (d, q)."""
        turned = a @ self.v
        inside = self.u.T @ turned
        return inside, turned - self.u @ inside

    def _join(self, inside: Mat, outside: Mat) -> Mat:
        return np.asarray((self.u @ inside + outside) @ self.v.T)


def _by_row(values: Vec, like: Vec) -> Vec:
    return values.reshape((-1,) + (1,) * (like.ndim - 1))


def _ratio(above: Mat, below: Mat) -> Mat:
    """Quotient, 0 where the denominator is 0."""
    below = np.broadcast_to(below, above.shape)
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)
