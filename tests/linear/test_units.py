"""Weights and beliefs in other units, and when units are renewed."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.core.arrays import Mat
from everlearn.linear.units import Units, segments

RNG = np.random.default_rng(0)


def all_segments(X: Any, y: Mat, cuts: list[int], size: int = 1) -> tuple[Mat, Mat, Units]:
    units, rows, targets = Units.blank(X.shape[1], 1, intercept=True), [], []
    for order in np.split(np.arange(len(y)), cuts):
        n = 0 if not len(order) else int(order[0])
        for part in segments(
            units, X, y, order, size, n, scaled_targets=True, joined=size == 1, fixed=False
        ):
            units = part.units
            rows.append(part.x.toarray() if sparse.issparse(part.x) else part.x)
            targets.append(part.y)
    return np.concatenate(rows), np.concatenate(targets), units


@pytest.mark.parametrize("is_sparse", [False, True])
def test_cuts_between_rows_do_not_matter(is_sparse: bool) -> None:
    X = RNG.normal(size=(300, 6)) * (RNG.random((300, 6)) < [1, 0.5, 0.1, 0.02, 0.01, 0])
    y = np.where(np.arange(300) < 30, 7.0, RNG.normal(size=300))[:, None]
    table = sparse.csr_array(X) if is_sparse else X
    whole = all_segments(table, y, [])
    for cuts in ([1, 2, 3], list(range(1, 300)), [17, 150, 151]):
        for one, other in zip(whole[:2], all_segments(table, y, cuts)[:2], strict=True):
            np.testing.assert_array_equal(one, other)
    assert whole[2].is_sparse == is_sparse


@pytest.mark.parametrize("size", [1, 10])
def test_no_row_is_far_out_in_units_that_know_it(size: int) -> None:
    """A column that was constant gets its unit from the first other value, as do outliers."""
    X, y = np.ones((100, 2)), RNG.normal(size=(100, 1))
    X[60, 1], y[73] = 1e9, 1e12
    rows, targets, units = all_segments(X, y, [], size=size)
    assert np.abs(rows).max() <= np.sqrt(100)
    assert np.abs(targets).max() <= np.sqrt(100)
    assert units.unit[0] == 1.0
    assert units.unit[1] > 1e7
