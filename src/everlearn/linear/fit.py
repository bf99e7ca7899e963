"""Run `fit` or `partial_fit` of a linear model, and return all that it has learned."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Table
from everlearn.core.random import stream
from everlearn.engine.local import one_blas_thread
from everlearn.errors import NotConvergedWarning
from everlearn.linear.beliefs import FullBelief, LinearLearner, LinearState, Sites, feature_major
from everlearn.linear.gaussian import moments
from everlearn.linear.inputs import Visit
from everlearn.linear.passive_aggressive import GibbsLearner

T = TypeVar("T")
_AT_ONCE = 1 << 20
"""Entries of the rows that are measured at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit(Generic[T]):
    """Everything that a linear model has learned.

    Attributes
    ----------
    state : LinearState
        Weights and units.
    targets : T
        What tasks stand for: labels, or numbers.
    n_features : int
        Columns of a row.
    n_iter : int
        Passes of the last `fit`.
    """

    state: LinearState
    targets: T
    n_features: int
    n_iter: int = 1

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self.state.seed

    @property
    def has_intercept(self) -> bool:
        """Whether the last weight belongs to a feature that is always 1."""
        return self.state.has_intercept


@dataclass(frozen=True, slots=True)
class Passes:
    """How often `fit` visits the rows.

    Attributes
    ----------
    max_passes : int
        Most passes.
    tol : float
        `fit` ends after a pass that changes scores by less.
    shuffle : bool
        Whether each pass has a random order of its own.
    """

    max_passes: int
    tol: float
    shuffle: bool

    def order(self, seed: int, number: int, rows: IntVec) -> IntVec:
        """The rows in the order of one pass."""
        return stream(seed, "order", 0, number).permutation(rows) if self.shuffle else rows


def learn_visits(
    fit: LinearFit[T], learner: LinearLearner, visits: Iterable[Visit], owner: str
) -> LinearFit[T]:
    """Learn these rows once, in their order. Errors name the estimator `owner`."""
    state = fit.state
    with one_blas_thread(), np.errstate(all="ignore"):
        for visit in visits:
            state = learner.learn(state, *visit)
    return replace(fit, state=_checked(state, owner))


def learn_together(
    fit: LinearFit[T],
    learner: LinearLearner,
    mean_learner: LinearLearner | None,
    visit: Visit,
    passes: Passes,
    owner: str,
) -> LinearFit[T]:
    """Learn all rows of a data set in several passes: `fit`. Each row counts once.

    A pass replaces the factors of all rows (see `Sites`). Passes end when scores hardly change.
    Independent weights get their mean from `mean_learner`, and their variances at the end.
    """
    X, targets, rows = visit
    if not len(rows):
        return fit
    with one_blas_thread(), np.errstate(all="ignore"):
        state = _measured(fit.state, X, None if learner.one_sided else targets, rows)
        sites, start = Sites.blank(*targets.shape), state
        active = learner if mean_learner is None else mean_learner
        if mean_learner is not None:
            state = replace(state, belief=None)
        moved, n_iter = np.inf, 0
        while n_iter < passes.max_passes and moved > passes.tol:
            order = passes.order(state.seed, n_iter, rows)
            state = active.learn(replace(state, clock=start.clock), X, targets, order, sites)
            state, moved, n_iter = _refreshed(state), sites.pop_mean_move(), n_iter + 1
        state = replace(state, n_rows=start.n_rows + len(rows))
        if mean_learner is not None and isinstance(learner, GibbsLearner):
            state = replace(state, belief=learner.diagonal_belief(state, X, targets, rows))
    _checked(state, owner)
    if moved > passes.tol:
        warnings.warn(
            f"{owner} stopped after max_iter={passes.max_passes} passes, of which the last one "
            f"still moved scores by {moved:.2g}, more than tol={passes.tol:g}. Raise one of them.",
            NotConvergedWarning,
            stacklevel=4,
        )
    return replace(fit, state=state, n_iter=n_iter)


def _measured(state: LinearState, X: Table, targets: Mat | None, rows: IntVec) -> LinearState:
    """The state with the units of all these rows, before any of them is learned."""
    units = state.units.for_rows(X)
    step = len(rows) if units.is_sparse else max(1, _AT_ONCE // X.shape[1])
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        units = units.observe(units.select(X, some), None if targets is None else targets[some])
    return replace(state, units=units.renewed(state.n_rows + len(rows)))


def _refreshed(state: LinearState) -> LinearState:
    """The state with mean and covariance recomputed from the precision, without rounding errors."""
    belief = state.belief
    if not isinstance(belief, FullBelief):
        return state
    mean, covariance = moments(belief.precision, belief.shift)
    return replace(state, mean=feature_major(mean), belief=replace(belief, covariance=covariance))


def _checked(state: LinearState, owner: str) -> LinearState:
    parts = () if state.belief is None else state.belief.parts
    if not all(np.isfinite(part).all() for part in (state.mean, *parts)):
        raise ValueError(
            f"{owner} cannot learn from X: weights are not finite any more. Choose a smaller 'C' "
            "or 'variance', or slack='squared'."
        )
    return state
