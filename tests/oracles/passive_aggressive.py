"""Passive-aggressive learning, written down as plainly as possible."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr

Array = NDArray[np.float64]


def hinge(scores: Array, signs: Array, margin: float) -> Array:
    """(margin - y f)_+ for each score."""
    return np.maximum(margin - signs * scores, 0.0)


def expected_loss(mean: Array, variance: Array) -> Array:
    """E[(z)_+] for z ~ N(mean, variance > 0): the loss of a classifier that is drawn."""
    deviation = np.sqrt(variance)
    density = np.exp(-0.5 * (mean / deviation) ** 2) / math.sqrt(2.0 * math.pi)
    return np.asarray(mean * ndtr(mean / deviation) + deviation * density)


def crammer(
    rows: Iterable[Array], labels: Iterable[float], variant: str, C: float, margin: float
) -> list[Array]:
    """Weights after each row: figures 1 and 2 of Crammer et al. (2006), with a free margin."""
    w: Array | None = None
    path = []
    for x, y in zip(rows, labels, strict=True):
        w = np.zeros(len(x)) if w is None else w
        loss = max(0.0, margin - y * float(w @ x))
        norm = float(x @ x)
        if norm > 0:
            w = w + _tau(loss, norm, variant, C) * y * x
        path.append(w)
    return path


def crammer_regression(
    rows: Iterable[Array], targets: Iterable[float], variant: str, C: float, epsilon: float
) -> list[Array]:
    """The same for the insensitive loss."""
    w: Array | None = None
    path = []
    for x, y in zip(rows, targets, strict=True):
        w = np.zeros(len(x)) if w is None else w
        error = y - float(w @ x)
        loss = max(0.0, abs(error) - epsilon)
        norm = float(x @ x)
        if norm > 0:
            w = w + math.copysign(_tau(loss, norm, variant, C), error) * x
        path.append(w)
    return path


def _tau(loss: float, norm: float, variant: str, C: float) -> float:
    if variant == "PA":
        return loss / norm
    if variant == "PA-I":
        return min(C, loss / norm)
    return loss / (norm + 1.0 / (2.0 * C))


def dual_value(Z: Array, y: Array, mu: Array, tau: Array, margin: float, variance: float) -> float:
    """The dual objective (22) of one task."""
    step = (tau * y) @ Z
    return float(margin * tau.sum() - 0.5 * variance * step @ step - mu @ step)


def primal_value(
    Z: Array, y: Array, mu: Array, w: Array, margin: float, variance: float, box: float
) -> float:
    """The primal objective (23) of one task."""
    losses = np.maximum(margin - y * (Z @ w), 0.0)
    return float(0.5 * (w - mu) @ (w - mu) / variance + box * losses.sum())


def best_tau(Z: Array, y: Array, mu: Array, margin: float, variance: float, box: float) -> Array:
    """The maximum of the dual by a generic solver."""
    signed = y[:, None] * Z
    K = variance * signed @ signed.T
    linear = margin - signed @ mu
    found = minimize(
        lambda t: (0.5 * t @ K @ t - linear @ t, K @ t - linear),
        np.full(len(y), 0.5 * box),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, box)] * len(y),
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 20_000, "maxfun": 50_000},
    )
    return np.asarray(found.x)


def gibbs_batch(
    X: Array,
    y: Array,
    precision: Array,
    shift: Array,
    margin: float,
    c: float,
    n_rounds: int,
) -> tuple[Array, Array]:
    """(28) and (30) iterated in natural parameters for one task of classes."""
    new_precision, new_shift = precision, shift
    for _ in range(n_rounds):
        sigma = np.linalg.inv(new_precision)
        mu = sigma @ new_shift
        new_precision, new_shift = precision.copy(), shift.copy()
        for x, label in zip(X, y, strict=True):
            zeta = margin - label * float(mu @ x)
            m = 1.0 / (c * math.sqrt(zeta**2 + float(x @ sigma @ x)))
            new_precision = new_precision + c**2 * m * np.outer(x, x)
            new_shift = new_shift + c * label * (1.0 + c * margin * m) * x
    return new_precision, new_shift


def gibbs_batch_regression(
    X: Array,
    y: Array,
    precision: Array,
    shift: Array,
    epsilon: float,
    c: float,
    n_rounds: int,
) -> tuple[Array, Array]:
    """The same for numbers, with an augmentation variable for each side of the tube."""
    new_precision, new_shift = precision, shift
    for _ in range(n_rounds):
        sigma = np.linalg.inv(new_precision)
        mu = sigma @ new_shift
        new_precision, new_shift = precision.copy(), shift.copy()
        for x, target in zip(X, y, strict=True):
            f, v = float(mu @ x), float(x @ sigma @ x)
            m1 = 1.0 / (c * math.sqrt((target - epsilon - f) ** 2 + v))
            m2 = 1.0 / (c * math.sqrt((f - target - epsilon) ** 2 + v))
            new_precision = new_precision + c**2 * (m1 + m2) * np.outer(x, x)
            pull = (target - epsilon) * m1 + (target + epsilon) * m2
            new_shift = new_shift + c**2 * pull * x
    return new_precision, new_shift
