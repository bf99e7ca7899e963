"""Gaussians whose mean is the origin of the space, and stays there."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import WishartPrior, ZeroMeanGaussian
from oracles.cases import (
    bound,
    expected_log_likelihood,
    gaussian_rows,
    positive_definite,
    responsibilities,
    statistics,
)


def test_it_is_a_full_gaussian_that_is_sure_that_its_mean_is_zero():
    X, R = gaussian_rows(30, 2, 3), responsibilities(30, 3)
    scale = positive_definite(2, 6)
    here = ZeroMeanGaussian(WishartPrior(4.0, scale))
    limit = FullGaussian(NormalWishartPrior(np.zeros(2), 1e9, 4.0, scale), np.zeros(2))
    assert_allclose(bound(here, X, R), bound(limit, X, R), rtol=1e-6)
    scores = []
    for family in (here, limit):
        s = statistics(family, X, R)
        q = family.posterior(s.n, s.t)
        scores.append([expected_log_likelihood(family, X, q), family.log_predictive(X, q)])
    assert_allclose(*scores, rtol=1e-5)


def test_rows_on_the_other_side_of_the_origin_are_the_same():
    X, R = gaussian_rows(20, 2, 3) + 5.0, responsibilities(20, 2)
    family = ZeroMeanGaussian(WishartPrior(4.0, np.eye(2)))
    s = statistics(family, X, R)
    assert_array_equal(statistics(family, -X, R).t, s.t)
    q = family.posterior(s.n, s.t)
    assert_array_equal(family.means(q), 0.0)
    assert_array_equal(family.log_predictive(-X, q), family.log_predictive(X, q))
