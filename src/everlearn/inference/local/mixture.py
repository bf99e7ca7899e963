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

from everlearn.core.arrays import IntVec, Labels, Mat, Table, Vec
from everlearn.core.families import Family
from everlearn.core.mixture import MixturePosterior
from everlearn.core.stats import Stats
from everlearn.inference.kernels.responsibilities import (
    add_products,
    softmax_entropy,
    sparse_summary,
    top_l_softmax,
)
from everlearn.inference.rows import Rows

_UNIT = np.empty(0)
_SINGLE_ROWS = 128
"""Rows over which a float32 product sums: of more, rounding shows in the bound's sixth digit."""
_FEW_SUMS = 8192
"""Up to this many sums, all pieces are multiplied in one call."""


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
        with _blas_flags():
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
            with _blas_flags():
                t = _feature_sums(r, features)
        return Stats(ids, n, t, h, base)

    def log_base(self, rows: Rows) -> float:
        """Log base measure of all rows together."""
        each = self.family.log_base(rows.X)
        return float(each.sum() if rows.weights is None else each @ rows.weights)


def _blas_flags() -> np.errstate:
    """Products without warnings: kernels may flag lanes that they throw away.

    What is really not finite makes the bound so, and is refused there.
    """
    return np.errstate(invalid="ignore")


def _feature_sums(r: NDArray[np.floating], features: NDArray[np.floating]) -> Mat:
    """R'T in float64; of float32 arrays, from products of a few rows that are each float32.

    Moments about the family's origin are much larger than what is left of them about a mean, so a
    long float32 sum would lose more than a millionth of the bound.
    """
    if r.dtype == np.float64:
        return np.asarray(r.T @ features)
    n, k = r.shape
    width = features.shape[1]
    if k * width > _FEW_SUMS:
        t = np.zeros((k, width))
        part = np.empty((k, width), r.dtype)
        for i in range(0, n, _SINGLE_ROWS):
            np.matmul(r[i : i + _SINGLE_ROWS].T, features[i : i + _SINGLE_ROWS], out=part)
            add_products(part, t)
        return t
    whole = n - n % _SINGLE_ROWS
    left = r[:whole].reshape(-1, _SINGLE_ROWS, k).transpose(0, 2, 1)
    parts = left @ features[:whole].reshape(-1, _SINGLE_ROWS, width)
    return np.asarray(parts.sum(axis=0, dtype=np.float64) + r[whole:].T @ features[whole:])


def weighted(r: NDArray[np.floating], weights: Vec | None) -> NDArray[np.floating]:
    """Responsibilities times row weights."""
    return r if weights is None else (r * weights[:, None]).astype(r.dtype, copy=False)
