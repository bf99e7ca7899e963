"""PPCA against dense formulas: likelihoods, and beliefs of latents and gaps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments
from oracles import ppca as oracle
from oracles.ppca import rows_of, sizes


@sizes
@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_log_likelihood_is_that_of_the_dense_gaussian(d, q, gaps):
    model = oracle.random_model(d, q)
    X = rows_of(model, 12, gaps=gaps)
    assert_allclose(model.log_likelihood(X), oracle.log_likelihood(model, X), rtol=1e-10, atol=1e-9)
    assert_allclose(model.covariance() @ model.precision(), np.eye(d), atol=1e-9)


@sizes
def test_beliefs_of_latents_and_gaps_are_conditional_gaussians(d, q):
    model = oracle.random_model(d, q)
    X = rows_of(model, 8, gaps=0.4)
    found = model.posterior(X)
    spread = dict(zip(found.where, found.spread, strict=True))
    for i, x in enumerate(X):
        z, cov, row, _ = oracle.conditional(model, x)
        assert_allclose(found.z[i], z, atol=1e-10)
        assert_allclose(spread.get(i, found.common_spread()), cov, atol=1e-10)
        assert_allclose(found.filled[i], row, atol=1e-9)


def test_small_noise_does_not_cost_digits():
    model = PPCA(np.full(3, 1e6), np.array([[1e4], [2e4], [0.0]]), 1e-6)
    X = rows_of(model, 20)
    square = -2 * model.log_likelihood(X) - 3 * np.log(2 * np.pi)
    square -= 2 * np.log(1e-6) + np.log(5e8 + 1e-6)
    assert (square > 0).all()
    assert square.mean() == pytest.approx(3, abs=1.5)


def test_models_of_rows_that_are_alike_are_flat():
    X = rows_of(oracle.random_model(4, 2), 30) + 7.0
    for q in (2, 4):
        assert not Moments.of_rows(X).ppca(q).is_flat
        assert not Moments.of_rows(1e-40 * X).ppca(q).is_flat
        assert Moments.of_rows(X[:q]).ppca(q).is_flat
        assert Moments.of_rows(np.repeat(X[:1], 30, axis=0)).ppca(q).is_flat
        assert Moments.of_rows(0.0 * X).ppca(q).is_flat
