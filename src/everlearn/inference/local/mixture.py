"""The local step of a mixture: responsibilities, entropies and statistics of a block of rows.

Two matrix products and one fused pass over the responsibilities. What the moves want to know
about the same rows (see `tracking`) is measured on the way, with the same responsibilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Labels, Table, Vec
from everlearn.core.families import Family
from everlearn.core.mixture import MixturePosterior
from everlearn.core.stats import Stats
from everlearn.inference.kernels.responsibilities import (
    softmax_entropy,
    sparse_summary,
    top_l_softmax,
)
from everlearn.inference.rows import Rows

_UNIT = np.empty(0)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Responsibilities of a block: `r` (n, K), their argmax, log normalisers and entropy (K,)."""

    r: NDArray[np.floating]
    labels: Labels
    log_norm: Vec
    h: Vec


@dataclass(frozen=True, slots=True)
class MixtureStep:
    """How rows are assigned: the family, the arithmetic, and how many components a row may have.

    `top_l` keeps the largest responsibilities of each row only, the exact optimum under that
    constraint, so the bound stays a bound and never falls.
    """

    family: Family[Any]
    dtype: type[np.floating] = np.float64
    top_l: int | None = None

    def features(self, rows: Rows) -> Table:
        """Features of the rows in the working precision."""
        if rows.features is not None:
            return rows.features
        return self.family.features(rows.X, self.dtype)

    def assign(
        self, posterior: MixturePosterior, features: Table, weights: Vec | None
    ) -> Assignment:
        """Optimal responsibilities at fixed globals."""
        eta = posterior.eta.astype(self.dtype, copy=False)
        scores = np.ascontiguousarray(features @ eta.T)
        bias = posterior.bias.astype(self.dtype, copy=False)
        n, k = scores.shape
        log_norm, labels, h = np.empty(n), np.empty(n, np.int32), np.zeros(k)
        unit = _UNIT if weights is None else weights
        if self.top_l is None or self.top_l >= k:
            softmax_entropy(scores, bias, unit, log_norm, labels, h)
        else:
            top_l_softmax(scores, bias, unit, self.top_l, log_norm, labels, h)
        return Assignment(scores, labels, log_norm, h)

    def summarize(
        self, ids: IntVec, features: Table, r: NDArray[np.floating], h: Vec, base: float = 0.0
    ) -> Stats:
        """Statistics of rows given responsibilities `r`, already multiplied by row weights."""
        n = r.sum(axis=0, dtype=np.float64)
        if sparse.issparse(features):
            t = np.ascontiguousarray((features.T @ r).T, np.float64)
        elif self.top_l is not None and 4 * self.top_l <= r.shape[1]:
            t = np.zeros((r.shape[1], features.shape[1]))
            sparse_summary(r, features, t)
        else:
            t = (r.T @ features).astype(np.float64, copy=False)
        return Stats(ids, n, t, h, base)

    def log_base(self, rows: Rows) -> float:
        """Log base measure of all rows together."""
        each = self.family.log_base(rows.X)
        return float(each.sum() if rows.weights is None else each @ rows.weights)


def weighted(r: NDArray[np.floating], weights: Vec | None) -> NDArray[np.floating]:
    """Responsibilities times row weights."""
    return r if weights is None else (r * weights[:, None]).astype(r.dtype, copy=False)
