"""Families of tables: categories, counts, and blocks of columns side by side."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.families.categories import Categories
from everlearn.core.priors.dp import DPPrior
from everlearn.mixture.model import Mixture
from oracles.cases import (
    TABLE,
    categories,
    code_rows,
    count_columns,
    poisson,
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


class TestProduct:
    def test_means_stand_at_their_columns(self):
        q, oracles = posteriors(TABLE)
        means, variances = TABLE.family.means(q), TABLE.family.covariances(q)
        for k, (numbers, _, counts) in enumerate(oracles):
            assert_allclose(means[k, [0, 4]], [p.m for p in numbers])
            assert_allclose(variances[k, [0, 4]], [p.b / p.a for p in numbers])
            ((shape, scale),) = counts
            assert_allclose([means[k, 3], variances[k, 3]], shape / scale)
        assert np.isnan(means[:, 1:3]).all()

    @pytest.mark.parametrize("column", range(5))
    def test_draws_have_each_kind_at_its_column(self, column):
        q, _ = posteriors(TABLE)
        drawn = TABLE.family.draw(q, 0, 500, np.random.default_rng(0))[:, column]
        whole = (drawn == np.rint(drawn)).all()
        assert whole == (column in (1, 2, 3))
        if column in (1, 2):
            assert drawn.max() == (3 if column == 1 else 1)

    def test_points_of_columns_do_not_depend_on_units(self):
        far = np.where(np.arange(5) == 0, 1e6, 1.0) * TABLE.X
        points = TABLE.family.embedding(TABLE.X)
        assert np.isfinite(points).all()
        assert points.shape == (len(TABLE), 2 + 6 + 1)
        assert_array_equal(points[:, 2:], TABLE.family.embedding(far)[:, 2:])


def test_codes_of_many_columns():
    family = Categories(np.ones(9), np.array([2, 3, 4]))
    X = np.array([[1.0, 0.0, 3.0], [np.nan, 2.0, np.nan]])
    assert_array_equal(
        family.features(X), [[0, 1, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 0, 0, 0, 0]]
    )


@pytest.mark.parametrize(
    "case", [CODES, poisson("counts", count_columns(5, 3, 3)), TABLE], ids=lambda case: case.name
)
def test_the_typical_log_density_is_the_mean_over_drawn_rows(case):
    q, oracles = posteriors(case)
    for k in range(len(oracles)):
        drawn = case.family.draw(q, k, 20_000, np.random.default_rng(k))
        drawn[:, -1] = np.nan  # a missing entry has no part in either
        found = case.family.log_predictive(drawn, q)[:, k]
        error = found.std() / np.sqrt(len(found)) + 1e-12
        assert abs(case.family.log_typical(drawn, q)[0, k] - found.mean()) < 4 * error


def test_the_typical_log_density_of_large_counts_is_close_to_that_of_a_gaussian(monkeypatch):
    case = poisson("large", 400.0 + count_columns(50, 2, 3))
    q, _ = posteriors(case, k=1)
    summed = case.family.log_typical(case.X[:1], q)
    monkeypatch.setattr("everlearn.core.families.poisson._MOST_SUMMED", 10)
    assert_allclose(case.family.log_typical(case.X[:1], q), summed, rtol=1e-3)
