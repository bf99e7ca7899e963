"""The state of a linear model: weights, their precisions, and the factors of visited rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import Cube, IntVec, Mat, Table, Vec, as_dense
from everlearn.linear.units import Units

_DENSE_ENTRIES = 1 << 20
"""Sparse batches with at most this many entries, zeros included, become dense."""
_SCORE_ENTRIES = 1 << 22
"""Entries of the largest array that is made when the variances of scores are computed."""


@dataclass(frozen=True, slots=True, eq=False)
class DiagonalBelief:
    """Independent weights: precisions of shape (Q, P)."""

    precision: Mat

    @property
    def parts(self) -> tuple[NDArray[np.float64], ...]:
        """The arrays that make up the belief."""
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
        """The arrays that make up the belief."""
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
"""Precisions of the weights. None if they are not learned (the averaging loss)."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearState:
    """All that a linear model has learned, enough to learn the next batch.

    Attributes
    ----------
    mean : ndarray of shape (n_tasks, n_weights)
        Mean of the weights, in standardised units. In memory, the weights of one feature lie side
        by side. With an intercept there is one more weight than features: the last one.
    belief : DiagonalBelief, FullBelief or None
        Precision of the weights, if it is learned.
    units : Units
        The units of columns and targets.
    prior : float
        Precision of each weight before the first row.
    n_rows, clock : int
        Rows and batches learned from.
    seed : int
        Seed of the random streams.
    """

    mean: Mat
    belief: Belief
    units: Units
    prior: float
    n_rows: int
    clock: int
    seed: int

    @property
    def has_intercept(self) -> bool:
        """Whether the last weight belongs to a feature that is always 1."""
        return bool(self.mean.shape[1] > len(self.units.unit))

    def weights(self) -> tuple[Mat, Vec]:
        """Mean weights of columns (Q, P) and intercepts (Q,) in the units of the user."""
        units, n = self.units, len(self.units.unit)
        slopes = self.mean[:, :n] / units.unit
        level = self.mean[:, n] if self.has_intercept else np.zeros(len(self.mean))
        level = units.target_origin + units.target_unit * (level - slopes @ units.origin)
        return units.target_unit[:, None] * slopes, level

    def weight_variances(self) -> tuple[Mat, Vec]:
        """Variances of `weights()`: of columns (Q, P) and of intercepts (Q,)."""
        units, n, belief = self.units, len(self.units.unit), self._learned_belief()
        variances = (units.target_unit[:, None] / units.unit) ** 2 * belief.marginal[:, :n]
        if not self.has_intercept:
            return variances, np.zeros(len(self.mean))
        at_zero = np.append(-units.origin / units.unit, 1.0)[None]
        return variances, units.target_unit**2 * belief.variances(at_zero)[0]

    def scores(self, X: Table) -> Mat:
        """Mean scores of rows, of shape (n, Q), in the units of the targets."""
        units = self.units
        if not isinstance(X, np.ndarray):
            slopes, level = self.weights()
            return np.asarray(X @ np.ascontiguousarray(slopes.T)) + level
        n, step = X.shape[1], max(1, _SCORE_ENTRIES // X.shape[1])
        weights = self.mean.T[:n]
        parts = [units.standardize(X[i : i + step]) @ weights for i in range(0, len(X), step)]
        scores = np.concatenate(parts) if parts else np.zeros((0, len(self.mean)))
        if self.has_intercept:
            scores += self.mean[:, n]
        return np.asarray(units.target_origin + units.target_unit * scores)

    def variances(self, X: Table) -> Mat:
        """Variances of the scores of rows, of shape (n, Q)."""
        units, belief = self.units, self._learned_belief()
        step = max(1, _SCORE_ENTRIES // X.shape[1])
        found = [np.zeros((0, len(self.mean)))]
        for i in range(0, X.shape[0], step):
            x = units.standardize(units.select(X, np.arange(i, min(i + step, X.shape[0]))))
            found.append(belief.variances(with_ones(x) if self.has_intercept else x))
        return np.asarray(units.target_unit**2 * np.concatenate(found))

    def _learned_belief(self) -> DiagonalBelief | FullBelief:
        if self.belief is None:
            raise TypeError("the variance of scores is not learned")
        return self.belief


@dataclass(slots=True, eq=False)
class Sites:
    """The Gaussian factor of each row and task at its last visit.

    Expectation propagation calls these factors sites. `fit` visits rows again, and replaces their
    factors. So each row counts once.

    Attributes
    ----------
    weight, pull : ndarray of shape (n_rows, n_tasks)
        The factor exp(pull f - weight f^2 / 2) of a score f. For the averaging loss, the pull is
        the dual multiplier, and there is no weight.
    moved, visits : float
        Sum of squared score changes by visits, and number of visits.
    """

    weight: Mat
    pull: Mat
    moved: float = 0.0
    visits: int = 0

    @classmethod
    def blank(cls, n_rows: int, n_tasks: int) -> Sites:
        """Rows that have not been visited."""
        return cls(np.zeros((n_rows, n_tasks)), np.zeros((n_rows, n_tasks)))

    def record(self, moves: Mat) -> None:
        """Record how a visit changed scores; NaN where there is no target."""
        has_target = ~np.isnan(moves)
        self.moved += float(np.square(moves[has_target]).sum())
        self.visits += int(has_target.sum())

    def pop_mean_move(self) -> float:
        """Root mean square of the score changes since the last call."""
        mean = self.moved / max(self.visits, 1)
        self.moved, self.visits = 0.0, 0
        return float(np.sqrt(mean))


class LinearLearner(Protocol):
    """Learns the weights of all tasks, batch by batch."""

    @property
    def one_sided(self) -> bool:
        """Whether targets are signs (classification), which have no units."""

    def start(
        self, n_tasks: int, n_features: int, seed: int, *, intercept: bool = True
    ) -> LinearState:
        """The state before any data."""

    def learn(
        self,
        state: LinearState,
        X: Table,
        targets: Mat,
        order: IntVec,
        sites: Sites | None = None,
    ) -> LinearState:
        """The state after the rows of `X`, visited in this order; `state` stays as it is.

        `targets` has the shape (n_rows, n_tasks): a number, or the sign of a class times the
        margin, or NaN for a missing target. With `sites`, units stay as they are, and the factors
        of rows are replaced.
        """


class Block(NamedTuple):
    """Some rows, dense or sparse, and which weights their columns belong to."""

    x: Table
    columns: IntVec | slice

    @property
    def gram(self) -> Mat:
        """Products of the rows with each other."""
        return as_dense(self.x @ self.x.T)


def block_of(x: Table, n_weights: int, *, every_column: bool = False) -> Block:
    """Rows with a column of ones for an intercept; sparse ones may lose columns without entries."""
    ones = n_weights > x.shape[1]
    if sparse.issparse(x) and not every_column:
        return _compact(x, ones, n_weights)
    x = as_dense(x)
    return Block(with_ones(x) if ones else x, slice(None))


def with_ones(X: Table) -> Table:
    """The rows with a column of ones behind them."""
    column = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, sparse.csr_array(column)], format="csr"))
    return np.hstack([X, column])


def feature_major(mean: Mat) -> Mat:
    """The means in a layout where all weights of one feature are side by side."""
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
