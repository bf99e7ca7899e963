"""What rows say about each feature by itself, so that gaps count for nothing.

A row that is completed by the model agrees with the model. If such rows counted in full, a feature
that was missing for long could hardly be learned any more. So every feature is regressed on the
latents by the rows that have it, against the rows that had it before; where it was missing before,
moments follow. Derivation: docs/math/ppca.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from everlearn.core.arrays import Cube, Mat, Vec
from everlearn.core.families.ppca import PPCA, RowPosterior
from everlearn.core.families.ppca_moments import Moments


@dataclass(frozen=True, slots=True, eq=False)
class FeatureSums:
    """Weighted sums over the rows that have a feature, for each of d features; u = (1, z).

    Attributes
    ----------
    uu : (d, q + 1, q + 1), of u u^T and its posterior covariance
    ru : (d, q + 1), of r u^T, where r is what the model leaves over of the feature
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
        # Missing entries are as expected: nothing is left over of them.
        ru = (weights[:, None] * (rows.filled - model.mean - rows.z @ model.loadings.T)).T @ u
        ru[:, 1:] -= np.einsum("dp,dpq->dq", model.loadings, spreads)
        return cls(uu, ru)

    def __add__(self, other: FeatureSums) -> FeatureSums:
        return FeatureSums(self.uu + other.uu, self.ru + other.ru)

    def __mul__(self, factor: float) -> FeatureSums:
        return FeatureSums(self.uu * factor, self.ru * factor)

    def regressed(self, model: PPCA, mass: Vec, one: float = 1.0) -> PPCA:
        """The model, with mean and loadings of each feature as these rows have it.

        Rows behind the model that had the feature, of this mass (d,), say that it is as it was;
        and so does one more row about the loadings, so that few rows cannot make much of them.
        `one` is what a row weighs.
        """
        q = model.rank
        uu = self.uu + mass[:, None, None] * np.eye(q + 1)
        uu[:, range(1, q + 1), range(1, q + 1)] += one
        uu[:, 0, 0] += np.where(uu[:, 0, 0] > 0.0, 0.0, 1.0)  # a feature that nobody has
        change = np.linalg.solve(uu, self.ru[:, :, None])[:, :, 0]
        return replace(
            model, mean=model.mean + change[:, 0], loadings=model.loadings + change[:, 1:]
        )


def recalled(moments: Moments, old: PPCA, new: PPCA) -> Moments:
    """Moments whose gaps were filled by the old model, as the new one would have filled them."""
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
