"""One call of `fit` or `partial_fit` of a linear model."""

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
"""Entries of the rows whose scale is measured together."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit(Generic[T]):
    """What a linear model knows: its state, what its targets are, the columns of a row, passes."""

    state: LinearState
    targets: T
    n_features: int
    n_iter: int = 1

    @property
    def seed(self) -> int:
        """Of all draws."""
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
    most : int
        Passes.
    tol : float
        A pass that moves scores by less ends them.
    shuffle : bool
        Whether each has an order of its own.
    """

    most: int
    tol: float
    shuffle: bool

    def order(self, seed: int, number: int, rows: IntVec) -> IntVec:
        """The rows in the order of one pass."""
        return stream(seed, "order", 0, number).permutation(rows) if self.shuffle else rows


def learn_visits(
    fit: LinearFit[T], learner: LinearLearner, visits: Iterable[Visit], owner: str
) -> LinearFit[T]:
    """What is known after these visits; `owner` is the estimator that an error names."""
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
    """What all rows together say: passes replace what rows said before, until that settles.

    Independent weights get their mean from `mean_learner`, and their variances at the end.
    """
    X, targets, rows = visit
    if not len(rows):
        return fit
    with one_blas_thread(), np.errstate(all="ignore"):
        state = _measured(fit.state, X, None if learner.one_sided else targets, rows)
        sites, known = Sites.blank(*targets.shape), state
        active = learner if mean_learner is None else mean_learner
        if mean_learner is not None:
            state = replace(state, belief=None)
        moved, n_iter = np.inf, 0
        while n_iter < passes.most and moved > passes.tol:
            order = passes.order(state.seed, n_iter, rows)
            state = active.learn(replace(state, clock=known.clock), X, targets, order, sites)
            state, moved, n_iter = _refreshed(state), sites.pop_mean_move(), n_iter + 1
        state = replace(state, n_rows=known.n_rows + len(rows))
        if mean_learner is not None and isinstance(learner, GibbsLearner):
            state = replace(state, belief=learner.spread_of(state, X, targets, rows))
    _checked(state, owner)
    if moved > passes.tol:
        warnings.warn(
            f"{owner} stopped after max_iter={passes.most} passes, of which the last one still "
            f"moved scores by {moved:.2g}, more than tol={passes.tol:g}. Raise one of them.",
            NotConvergedWarning,
            stacklevel=4,
        )
    return replace(fit, state=state, n_iter=n_iter)


def _measured(state: LinearState, X: Table, targets: Mat | None, rows: IntVec) -> LinearState:
    """The state in units of all these rows, before any is learned."""
    units = state.units.for_rows(X)
    step = len(rows) if units.is_sparse else max(1, _AT_ONCE // X.shape[1])
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        units = units.observe(units.select(X, some), None if targets is None else targets[some])
    return replace(state, units=units.renewed(state.n_rows + len(rows)))


def _refreshed(state: LinearState) -> LinearState:
    """Moments of a full belief from sums that do not drift."""
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
