"""Dual coordinate ascent: the best weights under a batch of margin constraints.

For one task with weights mu_t and prior covariance `variance` times I, rows x_d and a loss that
is zero inside a tube around a target, the optimum has the form

    mu = mu_t + variance * sum_d a_d x_d.

A hinge loss (margin - y f)_+ is such a loss at the target y * margin, with a tube of width zero
and a coefficient a = y * tau that has the sign of y; an insensitive loss (|t - f| - width)_+ has
coefficients of both signs. Coordinates are optimal one at a time, given the others, so the dual
objective never falls.

Few rows of many features (`ascend`) share their Gram matrix among tasks and keep scores instead of
weights, so that looking at a satisfied pair costs a few instructions. Many rows of few features
(`ascend_weights`) keep weights, since their Gram matrix would cost more than all the visits.

All arrays are C-contiguous. Sums run in a fixed order and nothing depends on threads.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.jit import SUMMED, kernel


@kernel(SUMMED)
def _dot(a: Vec, b: Vec) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(SUMMED)
def _add_multiple(a: Vec, factor: float, b: Vec) -> None:
    for i in range(a.shape[0]):
        a[i] += factor * b[i]


@kernel(inline=True)
def _optimum(rest: float, curvature: float, width: float, lower: float, upper: float) -> float:
    """The best coefficient, if `rest` is what its row would lack of the target without it."""
    slope = max(abs(rest) - width, 0.0)
    free = slope / curvature if rest > 0.0 else -slope / curvature
    return min(max(free, lower), upper)


@kernel()
def _sweep(
    gram: Mat,
    scores: Vec,
    coefficients: Vec,
    targets: Vec,
    lower: Vec,
    upper: Vec,
    width: float,
    ridge: float,
    order: IntVec,
) -> float:
    """One visit of each coordinate. Returns the most that one of them moved its own score."""
    largest = 0.0
    for d in order:
        own = gram[d, d]
        if own <= 0.0 or lower[d] == upper[d]:
            continue
        curvature = own + ridge
        old = coefficients[d]
        rest = targets[d] - scores[d] + own * old
        new = _optimum(rest, curvature, width, lower[d], upper[d])
        if new != old:
            coefficients[d] = new
            _add_multiple(scores, new - old, gram[d])
            largest = max(largest, abs(new - old) * curvature)
    return largest


@kernel()
def ascend(
    gram: Mat,
    scores: Mat,
    coefficients: Mat,
    targets: Mat,
    lower: Mat,
    upper: Mat,
    width: float,
    ridge: float,
    order: IntVec,
    tol: Vec,
    max_sweeps: int,
) -> int:
    """Coefficients of several tasks over the same rows. `scores` and `coefficients` are changed.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, n_rows)
        variance * x_d . x_e. A row with a zero on the diagonal is left alone.
    scores : ndarray of shape (n_tasks, n_rows)
        Scores of the rows under the weights that belong to `coefficients`.
    coefficients, targets, lower, upper : ndarray of shape (n_tasks, n_rows)
        The dual variables, what scores should be, and bounds; equal bounds leave a pair alone.
    width : float
        Half-width of the tube in which a score is as good as its target.
    ridge : float
        Added to the curvature of each coordinate: a squared loss of weight 1 / (2 ridge).
    order : ndarray of shape (n_rows,)
        The order of the visits.
    tol : ndarray of shape (n_tasks,)
        A task is done when no coordinate moves its own score by more than this in a sweep.
    max_sweeps : int
        The most sweeps of a task.

    Returns
    -------
    n_sweeps : int
        The most sweeps that a task took.
    """
    most = 0
    for q in range(scores.shape[0]):
        sweeps = 0
        while sweeps < max_sweeps:
            sweeps += 1
            moved = _sweep(
                gram,
                scores[q],
                coefficients[q],
                targets[q],
                lower[q],
                upper[q],
                width,
                ridge,
                order,
            )
            if moved <= tol[q]:
                break
        most = max(most, sweeps)
    return most


@kernel()
def _add_combination(a: Vec, factor: float, coefficients: Vec, rows: Mat) -> None:
    """Add factor * sum_d coefficients_d rows_d, and nothing to the bit where they are zero."""
    for d in range(coefficients.size):
        if coefficients[d] != 0.0:
            _add_multiple(a, factor * coefficients[d], rows[d])


@kernel()
def _sweep_weights(
    X: Mat,
    own: Vec,
    variance: float,
    weights: Vec,
    coefficients: Vec,
    targets: Vec,
    lower: Vec,
    upper: Vec,
    width: float,
) -> float:
    """As `_sweep`, from the first row to the last, with weights instead of scores."""
    largest = 0.0
    for d in range(own.size):
        if own[d] <= 0.0 or lower[d] == upper[d]:
            continue
        old = coefficients[d]
        rest = targets[d] - _dot(X[d], weights) + own[d] * old
        new = _optimum(rest, own[d], width, lower[d], upper[d])
        if new != old:
            coefficients[d] = new
            _add_multiple(weights, variance * (new - old), X[d])
            largest = max(largest, abs(new - old) * own[d])
    return largest


@kernel()
def ascend_weights(
    X: Mat,
    variance: float,
    weights: Mat,
    coefficients: Mat,
    targets: Mat,
    lower: Mat,
    upper: Mat,
    width: float,
    tol: float,
    max_sweeps: int,
) -> int:
    """Weights and coefficients of several tasks over the same rows. Both are changed.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        A row of zeros is left alone.
    variance : float
        Prior variance of the weights.
    weights : ndarray of shape (n_tasks, n_features)
        Before the batch, whatever `coefficients` are; after the call, what these make of them. A
        task whose coefficients are and stay zero keeps its weights to the bit.
    coefficients, targets, lower, upper, width, max_sweeps
        As in `ascend`.
    tol : float
        A task is done when no coordinate moves its own score by more than this in a sweep.

    Returns
    -------
    n_sweeps : int
        The most sweeps that a task took.
    """
    own = np.empty(len(X))
    for d in range(own.size):
        own[d] = variance * _dot(X[d], X[d])
    most = 0
    for q in range(weights.shape[0]):
        task = (coefficients[q], targets[q], lower[q], upper[q], width)
        current = weights[q].copy()
        _add_combination(current, variance, coefficients[q], X)
        sweeps = 0
        while sweeps < max_sweeps:
            sweeps += 1
            if _sweep_weights(X, own, variance, current, *task) <= tol:
                break
        most = max(most, sweeps)
        _add_combination(weights[q], variance, coefficients[q], X)
    return most


@kernel()
def demands(
    signs: NDArray[np.int8],
    values: Mat,
    start: Mat,
    margin: float,
    box: float,
    regression: bool,
) -> tuple[Mat, Mat, Mat, Mat]:
    """Coefficients to start from, targets, lower and upper bounds, (Q, B), for `ascend_weights`.

    Parameters
    ----------
    signs, values, start : (B, Q), labels or which numbers are known; numbers; multipliers
    margin : that scores should have, unless they are to meet the numbers
    box : largest multiplier
    """
    n_rows, n_tasks = signs.shape
    shape = (n_tasks, n_rows)
    coefficients, targets, lower, upper = (
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
    )
    for q in range(n_tasks):
        for d in range(n_rows):
            sign = np.float64(signs[d, q])
            low = -box if sign < 0.0 or (regression and sign > 0.0) else 0.0
            high = box if sign > 0.0 or (regression and sign < 0.0) else 0.0
            targets[q, d] = values[d, q] if regression else margin * sign
            coefficients[q, d] = min(max(sign * start[d, q], low), high)
            lower[q, d], upper[q, d] = low, high
    return coefficients, targets, lower, upper
