"""Weights and beliefs in other units."""

import numpy as np
import pytest

from everlearn.core.arrays import Mat
from everlearn.linear.conversion import convert_data, convert_mean, convert_precision, with_prior
from everlearn.linear.units import Units

RNG = np.random.default_rng(0)


def two_units(*, intercept: bool) -> tuple[Units, Units, Mat, Mat]:
    """Units of the first half of the same rows and numbers, and of all of them."""
    X = RNG.normal(size=(40, 4)) * [1.0, 1e3, 1e-3, 1.0] + [0.0, 1e3, 1.0, 5.0]
    numbers = RNG.normal(size=(40, 2)) * [1.0, 100.0] + [50.0, 0.0]
    first = Units.blank(4, 2, intercept=intercept).observe(X[:20], numbers[:20])
    return first.renewed(20), first.observe(X[20:], numbers[20:]).renewed(40), X, numbers


def in_units(units: Units, X: Mat) -> Mat:
    x = np.asarray(units.standardize(X))
    return np.hstack([x, np.ones((len(x), 1))]) if units.has_intercept else x


@pytest.mark.parametrize("intercept", [True, False])
def test_means_predict_what_they_did(intercept: bool) -> None:
    old, new, X, _ = two_units(intercept=intercept)
    mean = RNG.normal(size=(2, 4 + intercept))
    before = old.target_origin + old.target_unit * (in_units(old, X) @ mean.T)
    moved = convert_mean(mean, old, new)
    np.testing.assert_allclose(
        new.target_origin + new.target_unit * (in_units(new, X) @ moved.T), before, rtol=1e-9
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_what_data_add_is_what_it_would_be_in_the_new_units(intercept: bool) -> None:
    old, new, X, numbers = two_units(intercept=intercept)
    weight = RNG.random((2, 40))

    def sums(units: Units) -> tuple[Mat, Mat]:
        x, y = in_units(units, X), units.standardize_targets(numbers).T
        return np.einsum("qn,ni,nj->qij", weight, x, x), (weight * y) @ x

    data, shift = sums(old)
    got = convert_data(with_prior(data, 0.7), shift, old, new, 0.7)
    for one, other in zip(got, sums(new), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(other).max())


def test_independent_precisions_follow_the_units_of_columns() -> None:
    old, new, X, _ = two_units(intercept=False)
    squares = np.square(old.standardize(X)).sum(axis=0)
    got = convert_precision(np.tile(0.7 + squares, (2, 1)), old, new, 0.7)
    np.testing.assert_allclose(got[0], 0.7 + np.square(new.standardize(X)).sum(axis=0), rtol=1e-9)


def test_a_blank_unit_leaves_weights_at_zero() -> None:
    """A first number of 1,000 is where scores begin: no weight has to keep them at 0."""
    _, new, _, _ = two_units(intercept=True)
    np.testing.assert_array_equal(
        convert_mean(np.zeros((2, 5)), Units.blank(4, 2, intercept=True), new), 0.0
    )
