"""Poisson counts against SciPy's negative binomials."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from everlearn.core.families.poisson import Rates
from oracles.cases import count_columns, poisson, posteriors


class TestPoisson:
    def test_draws_follow_the_predictive(self):
        case = poisson("poisson", count_columns(5, 2, 3))
        q, (o,) = posteriors(case, k=1)
        draws = case.family.draw(q, 0, 40_000, np.random.default_rng(0))
        for column, law in zip(draws.T, case.oracle.predictive(o), strict=True):
            assert abs(column.mean() - law.mean()) < 4 * law.std() / np.sqrt(len(column))
            assert_allclose(column.var(), law.var(), rtol=0.1)

    def test_points_are_square_roots_and_gaps_their_mean(self):
        family = poisson("poisson", np.ones((1, 1))).family
        points = family.embedding(np.array([[0.0], [9.0], [np.nan]]))
        assert_array_equal(points[:, 0], [0.0, 6.0, 3.0])


def test_the_typical_log_density_of_large_counts_is_close_to_that_of_a_gaussian(monkeypatch):
    case = poisson("large", 400.0 + count_columns(50, 2, 3))
    q, _ = posteriors(case, k=1)
    summed = case.family.log_typical(case.X[:1], q)
    monkeypatch.setattr("everlearn.core.families.poisson._MOST_SUMMED", 10)
    assert_allclose(case.family.log_typical(case.X[:1], q), summed, rtol=1e-3)


@pytest.mark.parametrize(("shape", "scale"), [(1.2, 0.3), (50.0, 10.0), (0.05, 4.0), (900.0, 0.5)])
def test_the_typical_log_density_is_minus_the_entropy_of_a_negative_binomial(shape, scale):
    family = poisson("one", np.ones((1, 1))).family
    q = Rates(np.array([[shape]]), np.array([[scale]]))
    law = stats.nbinom(shape, scale / (scale + 1))
    found = family.log_typical(np.array([[0.0], [np.nan]]), q)[:, 0]
    assert_allclose(found, [-law.entropy(), 0.0], rtol=1e-6)


def test_a_rate_of_which_nothing_was_seen_is_the_priors():
    case = poisson("gaps", np.full((4, 2), np.nan))
    q = case.family.posterior(np.array([4.0]), case.family.features(case.X).sum(axis=0)[None])
    prior = case.family.posterior(np.zeros(1), np.zeros((1, 4)))
    assert_array_equal(case.family.means(q), case.family.means(prior))
