"""Count vectors under a multinomial with a Dirichlet prior; rows dense or CSR.

A categorical column is a one-hot row. Derivation: docs/math/multinomial.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Table, Vec


@dataclass(frozen=True, slots=True)
class DirichletPrior:
    """Pseudo-count of each symbol."""

    counts: Vec


@dataclass(frozen=True, slots=True)
class Multinomial:
    """Multinomials; the features are the counts themselves.

    `trials` is how many symbols a drawn row has.
    """

    prior: DirichletPrior
    trials: int = 1

    @property
    def n_features(self) -> int:
        return len(self.prior.counts)

    @property
    def n_stats(self) -> int:
        return self.n_features

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Table:
        if sparse.issparse(X):
            return sparse.csr_array(X, dtype=dtype)
        return np.ascontiguousarray(X, dtype)

    def log_base(self, X: Table) -> Vec:
        """Log multinomial coefficient of each row."""
        if sparse.issparse(X):
            counts = _counts(X)
            logs = sparse.csr_array(
                (gammaln(counts.data + 1.0), counts.indices, counts.indptr), shape=counts.shape
            )
            return np.asarray(gammaln(_row_sums(counts) + 1.0) - _row_sums(logs))
        x = np.asarray(X, np.float64)
        return np.asarray(gammaln(x.sum(axis=1) + 1.0) - gammaln(x + 1.0).sum(axis=1))

    def posterior(self, n: Vec, t: Mat) -> Mat:
        """Dirichlet parameters, shape (K, V); `n` counts rows and plays no part."""
        return self.prior.counts + np.maximum(t, 0.0)

    def with_learned_prior(self, n: Vec, t: Mat) -> Multinomial:
        """The same family, because its prior has no spread."""
        return self

    def natural(self, q: Mat) -> tuple[Mat, Vec]:
        return np.asarray(psi(q) - psi(q.sum(axis=1))[:, None]), np.zeros(len(q))

    def cumulant(self, q: Mat) -> Vec:
        return np.asarray(gammaln(q.sum(axis=1)) - gammaln(q).sum(axis=1))

    def log_predictive(self, X: Table, q: Mat) -> Mat:
        """Dirichlet-multinomial probabilities."""
        counts = _counts(X)
        sums = _row_sums(counts)
        mass = q.sum(axis=1)
        out = self.log_base(X)[:, None] + gammaln(mass) - gammaln(mass + sums[:, None])
        for k in range(len(q)):
            known = q[k, counts.indices]
            terms = gammaln(known + counts.data) - gammaln(known)
            per_row = sparse.csr_array((terms, counts.indices, counts.indptr), shape=counts.shape)
            out[:, k] += _row_sums(per_row)
        return np.asarray(out)

    def log_typical(self, X: Table, q: Mat) -> Mat:
        return np.tile(self.log_base(X)[:, None], len(q))

    def means(self, q: Mat) -> Mat:
        """Expected probability of each symbol."""
        return np.asarray(q / q.sum(axis=1, keepdims=True))

    def covariances(self, q: Mat) -> Mat:
        """Variance of each symbol's indicator in one trial, shape (K, V)."""
        p = self.means(q)
        return np.asarray(p * (1.0 - p))

    def draw(self, q: Mat, k: int, size: int, rng: np.random.Generator) -> Mat:
        return rng.multinomial(self.trials, rng.dirichlet(q[k], size)).astype(np.float64)

    def embedding(self, X: Table, q: Mat | None = None) -> Table:
        """Square roots of frequencies, whose distance is Hellinger's."""
        sums = np.maximum(_row_sums(X), 1e-300)
        if sparse.issparse(X):
            scaled = _counts(X).copy()
            scaled.data = np.sqrt(scaled.data / np.repeat(sums, np.diff(scaled.indptr)))
            return scaled
        return np.sqrt(np.asarray(X, np.float64) / sums[:, None])


def _counts(X: Any) -> sparse.csr_array:
    """Rows as CSR in float64, each symbol at most once a row."""
    counts: sparse.csr_array = sparse.csr_array(X, dtype=np.float64)
    if not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    return counts


def _row_sums(X: Table) -> Vec:
    return np.asarray(X.sum(axis=1), np.float64).ravel()
