"""Full Gaussians are diagonal ones in one dimension, and do not mind turns in more."""

import numpy as np
from numpy.testing import assert_allclose

from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from oracles.cases import (
    bound,
    expected_log_likelihood,
    gaussian_rows,
    responsibilities,
    statistics,
)


def test_one_dimension_is_diagonal_and_full_at_once():
    X, R = gaussian_rows(20, 1, 3), responsibilities(20, 3)
    m, o = np.array([0.4]), np.array([0.1])
    narrow = DiagGaussian(NormalGammaPrior(m, 0.22, 0.91, np.array([0.28])), o)
    wide = FullGaussian(NormalWishartPrior(m, 0.22, 1.82, np.array([[0.56]])), o)
    assert_allclose(bound(wide, X, R), bound(narrow, X, R), rtol=1e-13)
    scores = []
    for family in (narrow, wide):
        s = statistics(family, X, R)
        q = family.posterior(s.n, s.t)
        scores.append(expected_log_likelihood(family, X, q))
        scores.append(family.log_predictive(X, q))
    assert_allclose(scores[2], scores[0], rtol=1e-11)
    assert_allclose(scores[3], scores[1], rtol=1e-11)


def test_a_turn_of_the_rows_turns_means_and_covariances_only():
    """Under a prior that is turned along, bound and scores stay."""
    X, R = gaussian_rows(30, 3, 3), responsibilities(30, 3)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    mean, scale = np.array([0.4, -1.0, 0.0]), np.diag([0.5, 1.0, 4.0])
    here = FullGaussian(NormalWishartPrior(mean, 0.3, 4.5, scale), np.zeros(3))
    there = FullGaussian(
        NormalWishartPrior(turn @ mean, 0.3, 4.5, turn @ scale @ turn.T), np.zeros(3)
    )
    turned = X @ turn.T
    assert_allclose(bound(there, turned, R), bound(here, X, R), rtol=1e-12)
    a, b = statistics(here, X, R), statistics(there, turned, R)
    p, q = here.posterior(a.n, a.t), there.posterior(b.n, b.t)
    assert_allclose(there.log_predictive(turned, q), here.log_predictive(X, p), rtol=1e-10)
    assert_allclose(there.means(q), here.means(p) @ turn.T, rtol=1e-9, atol=1e-12)
    assert_allclose(there.covariances(q), turn @ here.covariances(p) @ turn.T, rtol=1e-9)
