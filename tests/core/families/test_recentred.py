"""Statistics about another origin are those of features about that origin."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.core.families.recentred import recentred
from oracles.cases import SHIFTED, named, responsibilities, statistics


@named(SHIFTED)
@pytest.mark.parametrize("distance", [0.5, 1e3])
def test_it_is_as_if_features_had_been_taken_there(case, distance):
    R = responsibilities(len(case), 3)
    origin = case.family.origin + distance * np.linspace(1.0, -2.0, case.X.shape[1])
    found = recentred(case.family, statistics(case.family, case.X, R), origin)
    expected = statistics(replace(case.family, origin=origin), case.X, R)
    assert_allclose(found.t, expected.t, rtol=1e-9, atol=1e-9 * distance**2)
    for name in ("ids", "n", "h", "base"):
        assert_allclose(getattr(found, name), getattr(expected, name))


@named(SHIFTED)
def test_there_and_back_is_where_it_was(case):
    stats = statistics(case.family, case.X, responsibilities(len(case), 3))
    origin = case.family.origin + 3.0
    there = recentred(case.family, stats, origin)
    back = recentred(replace(case.family, origin=origin), there, case.family.origin)
    assert_allclose(back.t, stats.t, rtol=1e-11, atol=1e-10)


@named(SHIFTED)
def test_the_same_origin_costs_no_bit(case):
    stats = statistics(case.family, case.X, responsibilities(len(case), 3))
    assert recentred(case.family, stats, case.family.origin.copy()) is stats
