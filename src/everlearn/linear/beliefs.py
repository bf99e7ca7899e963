"""Beliefs about linear scores, and the batches of rows that change them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import Cube, IntVec, Mat, Table

_DENSE_ENTRIES = 1 << 20
"""Sparse batches with at most so many entries, zeros included, are worked on as dense ones."""
_SCORE_ENTRIES = 1 << 22
"""Entries of the largest array that is made when the variances of scores are computed."""


@dataclass(frozen=True, slots=True, eq=False)
class DiagonalBelief:
    """Independent weights: precisions of shape (Q, P)."""

    precision: Mat

    @property
    def parts(self) -> tuple[NDArray[np.float64], ...]:
        """The arrays."""
        return (self.precision,)

    def variances(self, x: Table) -> Mat:
        """Variances of the scores of dense or sparse rows, of shape (n, Q)."""
        return np.asarray((x * x if isinstance(x, np.ndarray) else x.power(2)) @ self.marginal.T)

    @property
    def marginal(self) -> Mat:
        """Variance of each weight."""
        return np.asarray(1.0 / self.precision)


@dataclass(frozen=True, slots=True, eq=False)
class FullBelief:
    """Gaussians in natural form, and the covariances that follow from it, kept up to date.

    precision and covariance have the shape (Q, P, P), shift = precision . mean has (Q, P).
    """

    precision: Cube
    shift: Mat
    covariance: Cube

    @property
    def parts(self) -> tuple[NDArray[np.float64], ...]:
        """The arrays."""
        return self.precision, self.shift, self.covariance

    def variances(self, x: Table) -> Mat:
        """Variances of the scores of dense or sparse rows, of shape (n, Q)."""
        size = max(1, _SCORE_ENTRIES // x.shape[1])
        parts = [x[i : i + size] for i in range(0, x.shape[0], size)]
        plain = [part if isinstance(part, np.ndarray) else part.toarray() for part in parts]
        return np.concatenate(
            [np.stack([((p @ s) * p).sum(axis=1) for s in self.covariance], axis=1) for p in plain]
        )

    @property
    def marginal(self) -> Mat:
        """Variance of each weight."""
        return np.diagonal(self.covariance, axis1=1, axis2=2).copy()


Belief: TypeAlias = DiagonalBelief | FullBelief | None
"""What is known about the weights besides their mean; None if that does not change."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearState:
    """Everything the next batch depends on.

    Attributes
    ----------
    mean : ndarray of shape (n_tasks, n_weights)
        Mean of the weights; in memory, the weights of one feature lie side by side. The last is
        the intercept if there is one more than features.
    belief : DiagonalBelief, FullBelief or None
        Precision of the weights, if it is learned.
    n_rows, clock : int
        Rows and batches learned from.
    seed : int
        Of the random streams.
    """

    mean: Mat
    belief: Belief
    n_rows: int
    clock: int
    seed: int

    def scores(self, X: Table) -> Mat:
        """Mean scores of rows, of shape (n, Q)."""
        weights = self.mean.T
        n_features = X.shape[1]
        scores = np.asarray(X @ weights[:n_features])
        return scores + weights[n_features] if len(weights) > n_features else scores

    def variances(self, X: Table) -> Mat:
        """Variances of the scores of rows, of shape (n, Q)."""
        if self.belief is None:
            raise TypeError("the variance of scores is not learned")
        return self.belief.variances(with_ones(X) if self.mean.shape[1] > X.shape[1] else X)


class LinearLearner(Protocol):
    """How a batch changes a state."""

    def start(self, n_tasks: int, n_weights: int, seed: int) -> LinearState:
        """The state before any data."""

    def learn(self, state: LinearState, X: Table, targets: Mat, order: IntVec) -> LinearState:
        """The state after the rows of `X`, visited in this order; `state` stays as it is.

        `targets` has the shape (n_rows, n_tasks): a number, or the sign of a class times the
        margin, or NaN for what is not known.
        """


class Block(NamedTuple):
    """Some rows, dense or sparse, and the columns of the weights that they speak of."""

    x: Table
    columns: IntVec | slice

    @property
    def gram(self) -> Mat:
        """Products of the rows with each other."""
        return as_dense(self.x @ self.x.T)


def blocks(
    X: Table, order: IntVec, size: int, n_weights: int, *, every_column: bool = False
) -> Iterator[tuple[IntVec, Block]]:
    """Consecutive pieces of `order` and their rows, with a column of ones for an intercept."""
    ones = n_weights > X.shape[1]
    for i in range(0, len(order), size):
        rows = order[i : i + size]
        part = X[rows]
        if sparse.issparse(part) and not every_column:
            yield rows, _compact(part, ones, n_weights)
        else:
            part = as_dense(part)
            yield rows, Block(with_ones(part) if ones else part, slice(None))


def with_ones(X: Table) -> Table:
    """The rows with a column of ones behind them."""
    column = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, sparse.csr_array(column)], format="csr"))
    return np.hstack([X, column])


def as_dense(table: Any) -> Mat:
    """The same numbers as a dense array."""
    return np.asarray(table.toarray() if sparse.issparse(table) else table)


def settled(mean: Mat) -> Mat:
    """The mean in the memory order of a state."""
    return np.ascontiguousarray(mean.T).T


def _compact(part: Any, ones: bool, n_weights: int) -> Block:
    """Sparse rows without the columns in which they are all empty."""
    columns, indices = np.unique(part.indices, return_inverse=True)
    shape = (part.shape[0], len(columns))
    x: Table = sparse.csr_array((part.data, indices, part.indptr), shape=shape)
    if shape[0] * shape[1] <= _DENSE_ENTRIES:
        x = as_dense(x)
    columns = columns.astype(np.int64)
    return Block(with_ones(x), np.append(columns, n_weights - 1)) if ones else Block(x, columns)
