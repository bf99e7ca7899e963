"""Gaussian beliefs about linear scores, under losses with a margin or a tube.

Equation numbers are those of Shi and Zhu, Online Bayesian Passive-Aggressive Learning. A task has
a score f = w . x with w ~ N(mu, Sigma), so f ~ N(mean, variance). Derivations:
docs/math/passive_aggressive.md.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.special import ndtr

from everlearn.core.arrays import Cube, Mat, Vec
from everlearn.kernels.draws import LARGEST_INVERSE


def inverse_mean(mean: Vec, variance: Vec, c: float) -> Vec:
    """E[1 / lambda] = 1 / (c sqrt(mean^2 + variance)) of (30), for a slack N(mean, variance)."""
    return 1.0 / np.maximum(c * np.sqrt(mean**2 + variance), 1.0 / LARGEST_INVERSE)


def expected_excess(mean: Mat, deviation: Mat) -> tuple[Mat, Mat]:
    """E[max(z, 0)] and P(z > 0) of z ~ N(mean, deviation^2).

    They are half the slope and half the curvature, in the mean, of E[max(z, 0)^2].
    """
    ratio = mean / deviation
    chance = ndtr(ratio)
    density = np.exp(-0.5 * np.square(ratio)) / np.sqrt(2.0 * np.pi)
    return np.maximum(mean * chance + deviation * density, 0.0), chance


def moments(precision: Cube, shift: Mat) -> tuple[Mat, Cube]:
    """Means (Q, P) and covariances (Q, P, P) of Gaussians in natural form, by one Cholesky each."""
    lower = np.empty_like(precision)
    for one, out in zip(precision, lower, strict=True):
        factor, failed = dpotrf(one.T, lower=0)
        if failed:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        out[:] = dpotri(factor, lower=0)[0].T
    covariance = mirrored(lower)
    return (covariance @ shift[..., None])[..., 0], covariance


def mirrored(lower: Cube) -> Cube:
    """Symmetric matrices (Q, P, P) from lower triangles with zeros above."""
    whole = lower + lower.transpose(0, 2, 1)
    diagonal = np.arange(lower.shape[-1])
    whole[:, diagonal, diagonal] *= 0.5
    return whole


def conditioned(gram: Cube, prior_scores: Mat, weight: Mat, pull: Mat) -> tuple[Mat, Mat]:
    """Posterior scores of B rows, each with the likelihood factor exp(pull f - weight f^2 / 2).

    This is (28) seen from the rows: no matrix is larger than B x B.

    Parameters
    ----------
    gram : ndarray of shape (Q, B, B)
        x_d . Sigma x_e under the prior of each task.
    prior_scores : ndarray of shape (Q, B)
        Prior means of the scores.
    weight, pull : ndarray of shape (Q, B)
        Of the factors. Both are 0 for a missing target.

    Returns
    -------
    mean, variance : ndarray of shape (Q, B)
        Of the scores under the posterior.
    """
    pulled = prior_scores + (gram @ pull[..., None])[..., 0]
    own = np.diagonal(gram, axis1=-2, axis2=-1)
    if gram.shape[-1] == 1:
        shrink = 1.0 + own * weight
        return pulled / shrink, own / shrink
    factor, scaled = whitened(gram, weight)
    half = np.linalg.solve(factor, scaled)
    root = np.sqrt(weight)
    inner = np.linalg.solve(factor, (root * pulled)[..., None])
    mean = np.asarray(pulled - (half.transpose(0, 2, 1) @ inner)[..., 0], np.float64)
    return mean, np.maximum(own - (half**2).sum(axis=-2), 0.0)


def reconditioned(gram: Cube, scores: Mat, weight: Mat, pull: Mat) -> tuple[Mat, Mat]:
    """`conditioned` if factors replace earlier ones: the arguments are the changes.

    Changes of weights may be negative, so there is no Cholesky factor.
    """
    inner = np.eye(gram.shape[-1]) + gram * weight[:, None, :]
    pulled = scores + (gram @ pull[..., None])[..., 0]
    found = np.linalg.solve(inner, np.concatenate([gram, pulled[..., None]], axis=2))
    variance = np.diagonal(found[..., :-1], axis1=-2, axis2=-1)
    return found[..., -1], np.maximum(variance, 0.0)


def whitened(gram: Cube, weight: Mat) -> tuple[Cube, Cube]:
    """Cholesky factor of I + S gram S, where S^2 = diag(weight), and S gram."""
    root = np.sqrt(weight)
    scaled = root[..., None] * gram
    factor = np.linalg.cholesky(scaled * root[:, None, :] + np.eye(gram.shape[-1]))
    return np.asarray(factor, np.float64), scaled
