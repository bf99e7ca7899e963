"""Mean and spread of columns: one pass keeps the digits that sums of squares lose."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from everlearn.kernels.scaling import add_entries, add_rows


def fresh(width):
    return np.zeros(width), np.zeros(width), np.zeros(width)


def added(X):
    moments = fresh(X.shape[1])
    add_rows(X, *moments)
    return moments


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("gaps", [False, True])
def test_moments_are_those_of_numpy(offset, gaps):
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(500, 3)) * [1.0, 1e-3, 50.0]
    if gaps:
        spread[rng.random(spread.shape) < 0.2] = np.nan
    count, mean, squares = added(spread + offset)
    assert_array_equal(count, (~np.isnan(spread)).sum(axis=0))
    assert_allclose(mean - offset, np.nanmean(spread, axis=0), rtol=1e-6, atol=1e-6 * (offset > 0))
    tolerance = 1e-12 if offset == 0.0 else 1e-3  # rows near 1e9 have six digits behind the point
    assert_allclose(squares / count, np.nanvar(spread, axis=0), rtol=tolerance)


def test_entries_of_sparse_rows_are_rows_whose_zeros_are_gaps():
    X = np.random.default_rng(1).poisson(0.7, (60, 4)).astype(float)
    table = sparse.csr_array(X)
    table.data[::5] = 0.0  # zeros that are stored do not count either
    sparse_moments = fresh(4)
    add_entries(table.data, table.indices, *sparse_moments)
    dense = table.toarray()
    for found, expected in zip(
        sparse_moments, added(np.where(dense == 0.0, np.nan, dense)), strict=True
    ):
        assert_array_equal(found, expected)


def test_columns_without_a_value_stay_as_they_are():
    for X in (np.empty((0, 2)), np.full((3, 2), np.nan)):
        for moments in added(X):
            assert_array_equal(moments, 0.0)
