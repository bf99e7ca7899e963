"""Dual coordinate ascent: the weights that a batch of margin constraints asks for.

For one task with weights mu_t and prior covariance `variance` times I, rows x_d and a loss that
is zero inside a tube around a target, the optimum has the form

    mu = mu_t + variance * sum_d a_d x_d.

A hinge loss (margin - y f)_+ is such a loss at the target y * margin, with a tube of width zero
and a coefficient a = y * tau that has the sign of y; an insensitive loss (|t - f| - width)_+ has
coefficients of both signs. Coordinates are optimal one at a time, given the others, so the dual
objective never falls. Tasks share the Gram matrix of the rows, and scores are kept instead of
weights, so looking at a satisfied pair costs a few instructions.

All arrays are C-contiguous. Sums run in a fixed order and nothing depends on threads.
"""

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.kernels._jit import SUMMED, kernel


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


@kernel()
def _add_combination(a: Vec, factor: float, coefficients: Vec, rows: Mat) -> None:
    """Add factor * sum_d coefficients_d rows_d, and nothing to the bit where they are zero."""
    for d in range(coefficients.size):
        if coefficients[d] != 0.0:
            _add_multiple(a, factor * coefficients[d], rows[d])


@kernel()
def _gram(Z: Mat, variance: float) -> Mat:
    gram = np.empty((Z.shape[0], Z.shape[0]))
    for d in range(Z.shape[0]):
        for e in range(d + 1):
            gram[d, e] = variance * _dot(Z[d], Z[e])
            gram[e, d] = gram[d, e]
    return gram


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
    """One visit of each coordinate; returns the most that one of them moved its own score."""
    largest = 0.0
    for d in order:
        own = gram[d, d]
        if own <= 0.0 or lower[d] == upper[d]:
            continue
        curvature = own + ridge
        old = coefficients[d]
        rest = targets[d] - scores[d] + own * old
        slope = max(abs(rest) - width, 0.0)
        new = slope / curvature if rest > 0.0 else -slope / curvature
        new = min(max(new, lower[d]), upper[d])
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
    """Coefficients of several tasks over the same rows; `scores` and `coefficients` are changed.

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
def dual_ascent(
    Z: Mat,
    signs: np.ndarray,
    mu: Mat,
    tau: Mat,
    order: IntVec,
    box: float,
    margin: float,
    variance: float,
    tol: float,
    max_sweeps: int,
) -> int:
    """The averaging classifier's step for a batch of dense rows; `mu` and `tau` are changed.

    Maximises, for each task, margin * sum_d tau_d - 1/2 |sum_d tau_d y_d z_d|^2 * variance
    - mu_t . sum_d tau_d y_d z_d over 0 <= tau_d <= box. A task whose margins are met, with a tau
    of zeros, keeps its weights to the bit.

    Parameters
    ----------
    Z : ndarray of shape (n_rows, n_features)
        The rows.
    signs : ndarray of shape (n_rows, n_tasks), dtype int8
        1, -1, or 0 for a pair that takes no part.
    mu : ndarray of shape (n_tasks, n_features)
        Weights before the batch, whatever `tau` is; after the call mu_t + variance * sum_d
        tau_d y_d z_d.
    tau : ndarray of shape (n_rows, n_tasks)
        Where to start from; after the call the multipliers.
    order : ndarray of shape (n_rows,), dtype int64
        The order in which rows are visited.
    box, margin, variance : float
        Largest multiplier (2c, times the number of ghosts), margin and prior variance.
    tol : float
        A task is done when no pair moves its own score by more than this in a sweep; a
        thousandth of the margin is plenty.
    max_sweeps : int
        The most sweeps of a task.

    Returns
    -------
    n_sweeps : int
        The most sweeps that a task took.
    """
    n, n_tasks = signs.shape
    gram = _gram(Z, variance)
    room = np.empty((5, 1, n))
    scores, coefficients, targets, lower, upper = room[0], room[1], room[2], room[3], room[4]
    limit = np.full(1, tol)
    most = 0
    for q in range(n_tasks):
        for d in range(n):
            y = signs[d, q]
            scores[0, d] = _dot(Z[d], mu[q])
            targets[0, d] = y * margin
            lower[0, d] = -box if y < 0 else 0.0
            upper[0, d] = box if y > 0 else 0.0
            coefficients[0, d] = y * min(max(tau[d, q], 0.0), box)
        _add_combination(scores[0], 1.0, coefficients[0], gram)
        sweeps = ascend(
            gram, scores, coefficients, targets, lower, upper, 0.0, 0.0, order, limit, max_sweeps
        )
        most = max(most, sweeps)
        _add_combination(mu[q], variance, coefficients[0], Z)
        for d in range(n):
            tau[d, q] = abs(coefficients[0, d])
    return most
