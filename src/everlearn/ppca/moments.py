"""Mean and covariance of rows in factored form, and the PPCA that is nearest to them.

Moments of two sets of rows add up to the moments of both, exactly. Cutting them to a rank loses the
smallest directions but keeps the sum of their variances. The maximum-likelihood PPCA depends on
rows only through their moments, so a reference and a window can be merged without their rows:
`(reference + window).ppca(q)` maximises the expected log-likelihood of both. Derivation:
docs/math/ppca.md, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.ppca.model import PPCA, RowPosterior, noise_floor

_RELIABLE: Final = 1e-7
"""Directions with a smaller eigenvalue of the Gram matrix, relative to the largest, are inexact."""
_MOST_COLUMNS: Final = 4
"""Factors are compacted when they have more than this many times as many columns as rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Weighted rows by their mean and their covariance F F^T + noise I.

    Attributes
    ----------
    mass : sum of the weights
    mean : (d,)
    factor : (d, m), F, with any number of columns
    noise : variance beyond the factor, 0 for plain rows
    present : (d,), share of the mass whose rows had each feature; None if no entry was missing
    """

    mass: float
    mean: Vec
    factor: Mat
    noise: float = 0.0
    present: Vec | None = None

    @classmethod
    def of_model(cls, model: PPCA, mass: float) -> Moments:
        """Moments that rows of the model have on average."""
        return cls(mass, model.mean, model.loadings, model.noise)

    @classmethod
    def of_rows(cls, X: Mat, weights: Vec | None = None) -> Moments:
        """Moments of complete rows."""
        if weights is None:
            mean = X.mean(axis=0)
            return cls(float(len(X)), mean, (X - mean).T / np.sqrt(len(X)))
        mass = float(weights.sum())
        mean = weights @ X / mass
        return cls(mass, mean, (X - mean).T * np.sqrt(weights / mass))

    @classmethod
    def of_posterior(cls, rows: RowPosterior, weights: Vec | None = None) -> Moments:
        """Expected moments of rows with gaps.

        The noise of gaps is left out: `truncated` assumes it to be that of the other entries.
        """
        plain = cls.of_rows(rows.filled, weights)
        if rows.where is None or rows.missing is None or rows.spread is None:
            return plain
        w = np.ones(len(rows.where)) if weights is None else weights[rows.where]
        share = w / plain.mass
        roots = np.linalg.cholesky(rows.spread) * np.sqrt(share)[:, None, None]
        extra = np.einsum("nd,dp,npq->dnq", rows.missing, rows.model.loadings, roots)
        factor = np.hstack([plain.factor, extra.reshape(len(plain.mean), -1)])
        present = np.clip(1.0 - share @ rows.missing, 0.0, 1.0)
        return replace(plain, factor=factor, present=present)

    @property
    def variance(self) -> float:
        """Average variance of a feature."""
        return float(np.vdot(self.factor, self.factor)) / len(self.mean) + self.noise

    @property
    def shares_present(self) -> Vec:
        """As `present`, with ones instead of None."""
        return np.ones(len(self.mean)) if self.present is None else self.present

    @property
    def share_present(self) -> float:
        """Share of entries that were present. 1 if there was none."""
        return 1.0 if self.present is None else float(self.present.mean()) or 1.0

    def __add__(self, other: Moments) -> Moments:
        if other.mass <= 0.0 or self.mass <= 0.0:
            return self if other.mass <= 0.0 else other
        mass = self.mass + other.mass
        one, two = self.mass / mass, other.mass / mass
        apart = other.mean - self.mean
        factor = np.hstack(
            [
                np.sqrt(one) * self.factor,
                np.sqrt(two) * other.factor,
                np.sqrt(one * two) * apart[:, None],
            ]
        )
        noise, present = one * self.noise + two * other.noise, None
        if self.present is not None or other.present is not None:
            present = np.minimum(one * self.shares_present + two * other.shares_present, 1.0)
            mine, its = one * self.shares_present.mean(), two * other.shares_present.mean()
            noise = float((mine * self.noise + its * other.noise) / ((mine + its) or 1.0))
        both = Moments(mass, self.mean + two * apart, factor, noise, present)
        return both.compact() if factor.shape[1] > _MOST_COLUMNS * len(apart) else both

    def with_mass(self, mass: float) -> Moments:
        """The same mean and covariance with another mass."""
        return replace(self, mass=mass)

    def compact(self) -> Moments:
        """The same moments, with at most as many columns as features."""
        d, m = self.factor.shape
        if m <= d:
            return self
        values, u = leading_directions(self.factor, d)
        return replace(self, factor=u * np.sqrt(values))

    def truncated(self, rank: int, *, ordered: bool = False) -> Moments:
        """The nearest moments, by likelihood, with `rank` orthogonal columns, largest first.

        The average variance of the other directions becomes noise. Only entries that were present
        vary, so it is divided by their share. `ordered` says that the factor has orthogonal columns
        in this order already, at least `rank` of them, which saves the eigenvalues.
        """
        d = len(self.mean)
        if ordered:
            values = np.einsum("dr,dr->r", self.factor[:, :rank], self.factor[:, :rank])
            u = self.factor[:, :rank] / np.sqrt(np.where(values > 0.0, values, 1.0))
        else:
            values, u = leading_directions(self.factor, rank)
            u = signed(u)
        total = float(np.vdot(self.factor, self.factor))
        rest = max(total - float(values.sum()), 0.0) / (d - rank) if rank < d else 0.0
        kept = np.maximum(values - rest, 0.0)
        noise = self.noise + rest / self.share_present
        return replace(self, factor=u * np.sqrt(kept), noise=noise)

    def ppca(self, rank: int, *, ordered: bool = False) -> PPCA:
        """The PPCA of maximal likelihood. See `truncated`."""
        cut = self.truncated(rank, ordered=ordered)
        return PPCA(cut.mean, cut.factor, max(cut.noise, noise_floor(self.variance)))


def signed(directions: Mat) -> Mat:
    """The columns, with signs that make the largest entry of each positive."""
    places = np.abs(directions).argmax(axis=0)[None]
    return np.asarray(directions * np.where(np.take_along_axis(directions, places, 0) < 0, -1, 1))


def leading_directions(factor: Mat, rank: int) -> tuple[Vec, Mat]:
    """The largest eigenvalues of F F^T, falling, (rank,), and their directions, (d, rank).

    Where F has fewer columns the last eigenvalues are 0, with directions 0.
    """
    d, m = factor.shape
    values, u = np.zeros(rank), np.zeros((d, rank))
    k = min(rank, d, m)
    if k == 0:
        return values, u
    if m > d:
        found, vectors = np.linalg.eigh(factor @ factor.T)
        values[:k] = np.maximum(found[::-1][:k], 0.0)
        u[:, :k] = vectors[:, ::-1][:, :k]
        return values, u
    found, vectors = np.linalg.eigh(factor.T @ factor)
    top = found[::-1][:k]
    if top[-1] > _RELIABLE * top[0]:
        values[:k] = top
        u[:, :k] = factor @ (vectors[:, ::-1][:, :k] / np.sqrt(top))
        return values, u
    u[:, :k], singular = (part[..., :k] for part in np.linalg.svd(factor, full_matrices=False)[:2])
    values[:k] = singular**2
    return values, u
