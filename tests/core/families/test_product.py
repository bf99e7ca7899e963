"""Families of tables: categories, counts, and blocks of columns side by side."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles.cases import (
    TABLE,
    categories,
    code_rows,
    posteriors,
    with_gaps,
)

SIZES = (4, 2)
CODES = categories("codes", with_gaps(code_rows(40, SIZES, 1), 2), SIZES)


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
