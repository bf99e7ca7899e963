"""Columns of categories, each under a Dirichlet prior; a value is a whole number, its code.

Code 0 of each column stands for all values that have no code of their own. If none of them has
been seen, a part of its prior count can become the prior count of a new code: no posterior of
earlier rows changes, and no bound. A NaN contributes nothing. Derivation: docs/math/tables.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import gammaln, psi

from everlearn.core.arrays import IntVec, Mat, Table, Vec


@dataclass(frozen=True, slots=True)
class Categories:
    """Independent columns of categories; the features of a row are one-hot.

    Attributes
    ----------
    counts : prior count of each code of each column, one column after the other
    sizes : number of codes of each column
    """

    counts: Vec
    sizes: IntVec

    @property
    def n_features(self) -> int:
        return len(self.sizes)

    @property
    def n_stats(self) -> int:
        return len(self.counts)

    @property
    def starts(self) -> IntVec:
        """Place of code 0 of each column."""
        return np.cumsum(self.sizes) - self.sizes

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Mat:
        places, seen = self._places(X)
        out = np.zeros((len(places), self.n_stats), dtype)
        rows, columns = np.nonzero(seen)
        out[rows, places[rows, columns]] = 1.0
        return out

    def log_base(self, X: Table) -> Vec:
        return np.zeros(X.shape[0])

    def posterior(self, n: Vec, t: Mat) -> Mat:
        """Dirichlet parameters, (K, n_stats); `n` counts rows and plays no part."""
        return self.counts + np.maximum(t, 0.0)

    def with_learned_prior(self, n: Vec, t: Mat) -> Categories:
        """The same family, because its prior has no spread."""
        return self

    def natural(self, q: Mat) -> tuple[Mat, Vec]:
        return np.asarray(psi(q) - psi(self._spread(self._sums(q)))), np.zeros(len(q))

    def cumulant(self, q: Mat) -> Vec:
        return np.asarray(gammaln(self._sums(q)).sum(axis=1) - gammaln(q).sum(axis=1))

    def log_predictive(self, X: Table, q: Mat) -> Mat:
        places, seen = self._places(X)
        logs = np.log(self.shares(q))
        out = np.zeros((len(places), len(q)))
        for column in range(self.n_features):
            out += np.where(seen[:, [column]], logs[:, places[:, column]].T, 0.0)
        return out

    def log_typical(self, X: Table, q: Mat) -> Mat:
        """Minus the entropies of the columns, over the entries that a row has."""
        shares = self.shares(q)
        per_column = np.add.reduceat(shares * np.log(shares), self.starts, axis=1)
        return np.asarray(self._places(X)[1] @ per_column.T)

    def means(self, q: Mat) -> Mat:
        """NaN, because categories have no mean; see `shares`."""
        return np.full((len(q), self.n_features), np.nan)

    def covariances(self, q: Mat) -> Mat:
        """NaN, because categories have no variance."""
        return self.means(q)

    def shares(self, q: Mat) -> Mat:
        """Expected share of each code in its column, (K, n_stats)."""
        return np.asarray(q / self._spread(self._sums(q)))

    def draw(self, q: Mat, k: int, size: int, rng: np.random.Generator) -> Mat:
        shares = np.split(self.shares(q)[k], self.starts[1:])
        drawn = [rng.choice(len(share), size, p=share) for share in shares]
        return np.stack(drawn, axis=1).astype(np.float64)

    def embedding(self, X: Table, q: Mat | None = None) -> Mat:
        """One-hot rows."""
        return self.features(X)

    def grown(self, sizes: IntVec) -> Categories:
        """The family with more codes in some columns.

        A new code takes one of V + 1 equal parts of the prior count of code 0, where V is the
        number of codes with it. So all that is left for further codes is never used up.
        """
        counts = np.split(self.counts.copy(), self.starts[1:])
        for column, size in enumerate(sizes.tolist()):
            own = list(counts[column])
            while len(own) < size:
                own.append(own[0] / (len(own) + 1))
                own[0] -= own[-1]
            counts[column] = np.array(own)
        return Categories(np.concatenate(counts), np.asarray(sizes, np.int64))

    def _places(self, X: Table) -> tuple[IntVec, np.ndarray[tuple[int, int], np.dtype[np.bool_]]]:
        """Place of each value among the features, and whether it is not missing."""
        x = np.asarray(X, np.float64)
        seen = ~np.isnan(x)
        return np.where(seen, x, 0.0).astype(np.int64) + self.starts, seen

    def _sums(self, q: Mat) -> Mat:
        """Sum over the codes of each column, (K, n_features)."""
        return np.asarray(np.add.reduceat(q, self.starts, axis=1))

    def _spread(self, per_column: Mat) -> Mat:
        """What belongs to columns, repeated for each of their codes."""
        return np.repeat(per_column, self.sizes, axis=1)
