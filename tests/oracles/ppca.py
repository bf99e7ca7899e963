"""PPCA by its plain formulas: dense matrices, loops, numerical derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from everlearn.ppca.model import PPCA

Array = NDArray[np.float64]
sizes = pytest.mark.parametrize(("d", "q"), [(1, 1), (2, 1), (5, 2), (6, 5), (4, 4)])
"""Numbers of features and of latents."""


def random_model(d: int, q: int, seed: int = 0, noise: float = 0.7) -> PPCA:
    rng = np.random.default_rng([seed, d, q])
    return PPCA(rng.normal(size=d), rng.normal(size=(d, q)) * np.linspace(2, 0.5, q), noise)


def rows_of(model: PPCA, n: int, seed: int = 1, gaps: float = 0.0) -> Array:
    """Rows of a model, with gaps at random."""
    rng = np.random.default_rng(seed)
    X = model.draw(n, rng)
    X[rng.random(X.shape) < gaps] = np.nan
    return X


def assert_models_close(one: PPCA, two: PPCA, **how: float) -> None:
    """The same Gaussians; loadings may be turned."""
    assert_allclose(one.mean, two.mean, **how)
    assert_allclose(one.covariance(), two.covariance(), **how)


def covariance(model: PPCA) -> Array:
    return model.loadings @ model.loadings.T + model.noise * np.eye(len(model.mean))


def log_likelihood(model: PPCA, X: Array) -> Array:
    """Of the entries that each row has."""
    if not np.isnan(X).any():
        return np.asarray(multivariate_normal(model.mean, covariance(model)).logpdf(X))
    found = []
    for x in X:
        o = ~np.isnan(x)
        if not o.any():
            found.append(0.0)
            continue
        C = covariance(model)[np.ix_(o, o)]
        found.append(multivariate_normal(model.mean[o], C).logpdf(x[o]))
    return np.array(found)


def conditional(model: PPCA, x: Array) -> tuple[Array, Array, Array, Array]:
    """Mean and covariance of the latents, and of the row, given the entries that there are."""
    o = ~np.isnan(x)
    C = covariance(model)
    K = np.linalg.inv(C[np.ix_(o, o)])
    y = x[o] - model.mean[o]
    W = model.loadings
    z = W[o].T @ K @ y
    spread = np.eye(W.shape[1]) - W[o].T @ K @ W[o]
    row = model.mean + C[:, o] @ K @ y
    return z, spread, row, C - C[:, o] @ K @ C[o]


def divergence(truth: PPCA, model: PPCA) -> float:
    """Kullback-Leibler divergence of the model from the truth."""
    C, D = covariance(truth), covariance(model)
    P, away = np.linalg.inv(D), model.mean - truth.mean
    log_dets = np.linalg.slogdet(D)[1] - np.linalg.slogdet(C)[1]
    return float(0.5 * (np.trace(P @ C) - len(C) + away @ P @ away + log_dets))


def flat(model: PPCA) -> Array:
    return np.concatenate([model.mean, model.loadings.ravel(), [model.noise]])


def unflat(theta: Array, d: int, q: int) -> PPCA:
    return PPCA(theta[:d], theta[d : d + d * q].reshape(d, q), float(theta[-1]))


def fisher(model: PPCA) -> Array:
    """The full matrix from derivatives of mean and covariance, one parameter at a time."""
    d, q = model.loadings.shape
    theta = flat(model)
    P = np.linalg.inv(covariance(model))
    means, products = [], []
    for i in range(len(theta)):
        dmean, dC = np.zeros(d), np.zeros((d, d))
        if i < d:
            dmean[i] = 1.0
        elif i < d + d * q:
            A = np.zeros((d, q))
            A.flat[i - d] = 1.0
            dC = A @ model.loadings.T + model.loadings @ A.T
        else:
            dC = np.eye(d)
        means.append(dmean)
        products.append(P @ dC)
    F = np.empty((len(theta), len(theta)))
    for i in range(len(theta)):
        for j in range(len(theta)):
            F[i, j] = means[i] @ P @ means[j] + 0.5 * np.trace(products[i] @ products[j])
    return F


def scores(model: PPCA, X: Array, step: float = 1e-5) -> Array:
    """Numerical derivatives of the log-likelihood of each row by each parameter."""
    d, q = model.loadings.shape
    theta = flat(model)
    columns = []
    for i in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[i] += step
        down[i] -= step
        ends = [log_likelihood(unflat(t, d, q), X) for t in (up, down)]
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.stack(columns, axis=1)


def batch_ml(X: Array, q: int, weights: Array | None = None) -> PPCA:
    """Maximum likelihood in closed form, by the covariance matrix."""
    mean = np.average(X, axis=0, weights=weights)
    C = np.cov(X.T, aweights=weights, bias=True).reshape(X.shape[1], X.shape[1])
    return of_covariance(mean, C, q)


def of_covariance(mean: Array, C: Array, q: int) -> PPCA:
    values, U = np.linalg.eigh(C)
    values, U = values[::-1], U[:, ::-1]
    noise = float(values[q:].mean())
    return PPCA(mean, U[:, :q] * np.sqrt(np.maximum(values[:q] - noise, 0)), noise)


class OnlineEM:
    """Cappe and Moulines' online EM with raw statistics, one row and one formula at a time."""

    def __init__(self, model: PPCA, centre: Array) -> None:
        self.model, self.centre = model, centre
        self.S: list[Array] | None = None

    def statistics(self, X: Array) -> list[Array]:
        sums: list[Array] | None = None
        for x in X:
            z, spread, row, V = conditional(self.model, x)
            y = row - self.centre
            # Cov[x, z | seen]: only missing entries vary, through the latents.
            missing = np.isnan(x)
            cross = np.zeros(self.model.loadings.shape)
            cross[missing] = self.model.loadings[missing] @ spread
            one = [
                np.array(y @ y + np.trace(V)),
                np.outer(y, z) + cross,
                spread + np.outer(z, z),
                y,
                z,
            ]
            sums = one if sums is None else [a + b for a, b in zip(sums, one, strict=True)]
        assert sums is not None
        return [a / len(X) for a in sums]

    def step(self, X: Array, gamma: float) -> PPCA:
        s = self.statistics(X)
        old = s if self.S is None else self.S
        self.S = [a + gamma * (b - a) for a, b in zip(old, s, strict=True)]
        yy, yz, zz, y, z = self.S
        centred = yz - np.outer(y, z)
        W = centred @ np.linalg.inv(zz)
        noise = (yy - y @ y - 2 * np.trace(centred.T @ W) + np.trace(zz @ W.T @ W)) / len(y)
        self.model = PPCA(self.centre + y, W, float(noise))
        return self.model


def em_with_gaps(X: Array, q: int, rounds: int) -> PPCA:
    """EM over all rows, missing entries among the beliefs; each M-step in closed form.

    Rows are completed with mean and covariance, and the PPCA of the completed rows is the next:
    EM whose missing data are the gaps alone, since the latents are integrated out.
    """
    mean = np.nanmean(X, axis=0)
    model = of_covariance(mean, np.diag(np.nanvar(X, axis=0)), q)
    for _ in range(rounds):
        rows, extra = np.empty_like(X), np.zeros((X.shape[1], X.shape[1]))
        for mask in np.unique(np.isnan(X), axis=0):
            same, o = (np.isnan(X) == mask).all(axis=1), ~mask
            C = covariance(model)
            K = C[:, o] @ np.linalg.inv(C[np.ix_(o, o)])
            rows[same] = model.mean + (X[same][:, o] - model.mean[o]) @ K.T
            extra += same.sum() * (C - K @ C[o])
        C = np.cov(rows.T, bias=True) + extra / len(X)
        model = of_covariance(rows.mean(axis=0), C, q)
    return model
