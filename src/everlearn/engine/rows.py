"""`Rows`: a table with one weight a row, its slices, and their concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from everlearn.core.arrays import IntVec, Table, Vec
from everlearn.engine.protocol import Engine, Piece, pieces


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Rows:
    """Data of shape (n_rows, n_features), dense or CSR, and one weight a row or None.

    `features` may keep what a family makes of the rows, for rows that are visited many times.
    """

    X: Table
    weights: Vec | None = None
    features: Table | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, where: slice | IntVec) -> Rows:
        return Rows(
            self.X[where],
            None if self.weights is None else self.weights[where],
            None if self.features is None else self.features[where],
        )

    def blocks(self, size: int) -> list[Rows]:
        """Consecutive pieces of at most `size` rows."""
        return [self[i : i + size] for i in range(0, len(self), size)]

    def pieces(self, size: int) -> list[Piece]:
        """Pieces of at most `size` rows for tasks of an engine, which may copy them to workers."""
        return pieces(self, size)

    def take(self, positions: IntVec, engine: Engine) -> Rows:
        """The rows at these positions."""
        return self[positions]

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def missing(self) -> bool:
        """Whether dense rows have missing values."""
        return not sparse.issparse(self.X) and bool(np.isnan(self.X).any())

    def copy(self) -> Rows:
        """Rows that share no memory with these, without features."""
        return Rows(self.X.copy(), None if self.weights is None else self.weights.copy())

    @property
    def mass(self) -> float:
        """Sum of the weights."""
        return float(len(self)) if self.weights is None else float(self.weights.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        x = self.X
        data = (
            x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sparse.issparse(x) else x.nbytes
        )
        return int(data) + (0 if self.weights is None else self.weights.nbytes)


def concatenate(parts: Sequence[Rows]) -> Rows:
    """All rows of the parts, in order. Weights are 1 where a part has none."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0].X):
        X: Table = sparse.csr_array(sparse.vstack([p.X for p in parts], format="csr"))
    else:
        X = np.concatenate([p.X for p in parts])
    if all(p.weights is None for p in parts):
        return Rows(X)
    weights = [np.ones(len(p)) if p.weights is None else p.weights for p in parts]
    return Rows(X, np.concatenate(weights))
