"""The quadratic forms of the natural constraint, against dense matrices."""

import numpy as np
import pytest
from benchmarks.reference.constraint import elastic, gain
from numpy.testing import assert_allclose

from everlearn.ppca.model import PPCA
from oracles import ppca as oracle
from support.ppca_streams import D, Q


def pair():
    return oracle.random_model(D, Q, 1), oracle.random_model(D, Q, 2, noise=0.4)


def dense(fresh, reference, J, F, weight):
    """theta - (J + beta F)^-1 beta F (theta - reference), by dense matrices."""
    away = oracle.flat(fresh) - oracle.flat(reference)
    return oracle.flat(fresh) - np.linalg.solve(J + weight * F, weight * F @ away)


def blocks(F):
    """The matrix without what loadings and noise have in common."""
    F = F.copy()
    F[D:-1, -1] = F[-1, D:-1] = 0
    return F


@pytest.mark.parametrize("weight", [0.01, 1.0, 50.0])
def test_gain_maximises_the_quadratic(weight):
    """Exactly so if latents have the identity for second moments."""
    fresh, reference = pair()
    J = np.diag([1 / fresh.noise] * (D + D * Q) + [0.5 * D / fresh.noise**2])
    expected = dense(fresh, reference, J, blocks(oracle.fisher(reference)), weight)
    assert_allclose(oracle.flat(gain(fresh, np.eye(Q), reference, weight)), expected, atol=1e-10)


@pytest.mark.parametrize("weight", [0.1, 3.0])
def test_ewc_maximises_its_quadratic(weight):
    fresh, reference = pair()
    F, J = blocks(oracle.fisher(reference)), blocks(oracle.fisher(fresh))
    expected = dense(fresh, reference, J, F, weight)
    assert_allclose(oracle.flat(elastic(fresh, np.eye(Q), reference, weight)), expected, atol=1e-4)


@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e5])
def test_gains_lie_between_nothing_and_all(weight):
    fresh, reference = pair()
    root = np.random.default_rng(0).normal(size=(Q, Q))
    zz = root @ root.T + 0.1 * np.eye(Q)
    columns = []
    for e in np.eye(D * Q):
        moved = PPCA(fresh.mean, reference.loadings + e.reshape(D, Q), fresh.noise)
        kept = gain(moved, zz, reference, weight).loadings - reference.loadings
        columns.append(e - kept.ravel())
    values = np.linalg.eigvals(np.array(columns).T)
    assert np.abs(values.imag).max() < 1e-8
    assert values.real.min() > -1e-10
    assert values.real.max() < 1.0
