"""Columns of categories: codes, and how new ones leave everything as it was."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.families.categories import Categories
from everlearn.core.priors.dp import DPPrior
from everlearn.mixture.model import Mixture
from oracles.cases import (
    categories,
    code_rows,
    posteriors,
    responsibilities,
    statistics,
    with_gaps,
)

SIZES = (4, 2)
CODES = categories("codes", with_gaps(code_rows(40, SIZES, 1), 2), SIZES)


class TestCategories:
    def test_a_value_that_may_come_has_the_share_of_code_zero(self):
        q, (o,) = posteriors(CODES, k=1)
        sure = CODES.family.log_predictive(np.array([[0.0, np.nan]]), q)[0, 0]
        assert_allclose(sure, np.log(o[0][0] / o[0].sum()))

    def test_new_codes_leave_bound_and_predictions_as_they_were(self):
        X = CODES.X.copy()
        X[X[:, 0] == 0, 0] = 1.0  # nothing has been seen that has no code
        wider = CODES.family.grown(np.array([7, 2]))
        R = responsibilities(len(X), 3)
        before, after = (statistics(f, X, R) for f in (CODES.family, wider))
        both = ((CODES.family, before), (wider, after))
        bounds = [Mixture(family, DPPrior(1.0)).bound(stats) for family, stats in both]
        assert_allclose(bounds[1], bounds[0], rtol=1e-12)
        old, new = (f.posterior(s.n, s.t) for f, s in both)
        assert_allclose(wider.log_predictive(X, new), CODES.family.log_predictive(X, old))

    def test_new_codes_share_the_prior_count_of_code_zero(self):
        wider = CODES.family.grown(np.array([7, 3]))
        first, second = np.split(wider.counts, [7])
        old = np.split(CODES.family.counts, [4])
        assert_allclose([first.sum(), second.sum()], [part.sum() for part in old], rtol=1e-14)
        assert_array_equal(first[1:4], old[0][1:])
        assert (first > 0).all()
        assert_allclose(second[2], old[1][0] / 3)

    def test_many_new_codes_leave_some_for_more(self):
        assert CODES.family.grown(np.array([500, 2])).counts[0] > 1e-5

    def test_draws_follow_the_shares(self):
        q, (o,) = posteriors(CODES, k=1)
        draws = CODES.family.draw(q, 0, 20_000, np.random.default_rng(0))
        for column, share in zip(draws.T, CODES.oracle.predictive(o), strict=True):
            found = np.bincount(column.astype(int), minlength=len(share)) / len(column)
            assert_allclose(found, share, atol=0.02)


def test_codes_of_many_columns():
    family = Categories(np.ones(9), np.array([2, 3, 4]))
    X = np.array([[1.0, 0.0, 3.0], [np.nan, 2.0, np.nan]])
    assert_array_equal(
        family.features(X), [[0, 1, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 0, 0, 0, 0]]
    )


def test_categories_have_no_mean_and_no_variance():
    q, _ = posteriors(CODES)
    for found in (CODES.family.means(q), CODES.family.covariances(q)):
        assert found.shape == (3, 2)
        assert np.isnan(found).all()
