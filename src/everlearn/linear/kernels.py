"""Passive-aggressive steps one row at a time, and draws from an inverse Gaussian.

Weights have the shape (n_features, n_tasks), so the inner loops run over tasks. Features are added
in ascending order and nothing is reassociated: a CSR row gives the bits of its dense twin. With
one more row of weights than features, the last belongs to a feature that is always 1.

The loss of a row and task is the distance of the score from the target, less `width`. Targets that
are NaN are skipped. If `one_sided`, scores beyond the target have no loss: this is the hinge loss,
with y * margin as the target.
"""

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.kernels.draws import inverse_gaussian_of
from everlearn.kernels.jit import EXACT, kernel


@kernel(EXACT)
def _steps(
    scores: Vec,
    targets: Vec,
    multipliers: Vec,
    own: float,
    width: float,
    box: float,
    ridge: float,
    one_sided: bool,
) -> bool:
    """Replace each score by the change of its multiplier. Returns whether any is not zero.

    `multipliers` are those of the row so far, and are overwritten by the new ones.
    """
    active = False
    for q in range(scores.shape[0]):
        rest = targets[q] - scores[q] + own * multipliers[q]
        loss = abs(rest) - width
        beyond = one_sided and rest * targets[q] < 0.0
        best = 0.0
        if own > 0.0 and loss > 0.0 and not beyond:
            best = min(loss / (own + ridge), box)
            if rest < 0.0:
                best = -best
        scores[q] = best - multipliers[q]
        multipliers[q] = best
        active = active or scores[q] != 0.0
    return active


@kernel(EXACT)
def learn_dense(
    X: Mat,
    targets: Mat,
    multipliers: Mat,
    weights: Mat,
    variance: float,
    width: float,
    box: float,
    ridge: float,
    one_sided: bool,
) -> None:
    """Visit dense rows one after the other and move `weights` as little as each asks for.

    `multipliers` are those of each row and task after its last visit, zero at first. They are
    overwritten, so many visits are coordinate ascent in the dual problem of all rows together.
    """
    n_features = X.shape[1]
    n_tasks = weights.shape[1]
    steps = np.empty(n_tasks)
    for i in range(targets.shape[0]):
        squares = 0.0
        steps[:] = 0.0
        for j in range(n_features):
            x = X[i, j]
            squares += x * x
            for q in range(n_tasks):
                steps[q] += x * weights[j, q]
        for j in range(n_features, weights.shape[0]):
            squares += 1.0
            for q in range(n_tasks):
                steps[q] += weights[j, q]
        own = variance * squares
        if _steps(steps, targets[i], multipliers[i], own, width, box, ridge, one_sided):
            for j in range(n_features):
                x = variance * X[i, j]
                for q in range(n_tasks):
                    weights[j, q] += steps[q] * x
            for j in range(n_features, weights.shape[0]):
                for q in range(n_tasks):
                    weights[j, q] += steps[q] * variance


@kernel(EXACT)
def learn_sparse(
    data: Vec,
    indices: np.ndarray,
    indptr: np.ndarray,
    n_features: int,
    targets: Mat,
    multipliers: Mat,
    weights: Mat,
    variance: float,
    width: float,
    box: float,
    ridge: float,
    one_sided: bool,
) -> None:
    """`learn_dense` for the arrays of a CSR matrix whose rows are sorted and without repetition."""
    n_tasks = weights.shape[1]
    steps = np.empty(n_tasks)
    for i in range(targets.shape[0]):
        squares = 0.0
        steps[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            squares += data[k] * data[k]
            for q in range(n_tasks):
                steps[q] += data[k] * weights[indices[k], q]
        for j in range(n_features, weights.shape[0]):
            squares += 1.0
            for q in range(n_tasks):
                steps[q] += weights[j, q]
        own = variance * squares
        if _steps(steps, targets[i], multipliers[i], own, width, box, ridge, one_sided):
            for k in range(indptr[i], indptr[i + 1]):
                x = variance * data[k]
                for q in range(n_tasks):
                    weights[indices[k], q] += steps[q] * x
            for j in range(n_features, weights.shape[0]):
                for q in range(n_tasks):
                    weights[j, q] += steps[q] * variance


@kernel(EXACT)
def inverse_gaussians(means: Vec, normals: Vec, uniforms: Vec) -> Vec:
    """Draws from inverse Gaussians of shape 1, made from normal and uniform draws."""
    out = np.empty(means.shape[0])
    for i in range(means.shape[0]):
        out[i] = inverse_gaussian_of(means[i], normals[i] * normals[i], uniforms[i])
    return out
