"""Weights of topics for one token, and the topic that a number picks, against running sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.topics.kernels.choices import (
    DEEPEST,
    pick,
    sum_of_others,
    weigh,
    weigh_exactly,
    weigh_plainly,
)


def plain_pick(weights: np.ndarray, target: float, likely: int) -> int:
    """Where a running sum reaches the target, the likely topic first."""
    order = [likely, *(k for k in range(len(weights)) if k != likely)]
    place = int(np.searchsorted(np.cumsum(weights[order]), target, side="right"))
    return order[min(place, len(order) - 1)]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 17, 40])
def test_the_topic_is_the_one_where_the_running_sum_reaches_the_target(n: int) -> None:
    rng = np.random.default_rng(n)
    weights = rng.integers(0, 4, n).astype(float)  # sums are exact; some topics have no weight
    weights[rng.integers(n)] = 5.0
    for likely in range(n):
        for target in np.arange(0.0, weights.sum(), 0.5):
            left = weights.copy()
            found = pick(left, target, likely)
            assert found == plain_pick(weights, target, likely)
            assert weights[found] > 0.0
            if found != likely:
                assert left[likely] == 0.0


def test_equal_weights_share_the_numbers_evenly() -> None:
    targets = (np.arange(1200) + 0.5) / 100
    found = [pick(np.ones(12), target, 5) for target in targets]
    assert_array_equal(np.bincount(found), np.full(12, 100))


def test_rounding_at_the_end_gives_the_last_topic() -> None:
    for n in (1, 3, 9, 20):
        weights = np.full(n, 0.1)
        assert pick(weights, np.nextafter(0.1 * n, 10.0) + 1e-12, 0) == n - 1


@pytest.mark.parametrize("n", [1, 2, 9])
def test_weights_are_products_of_their_factors(n: int) -> None:
    rng = np.random.default_rng(n)
    exponent, couplings = rng.normal(size=(1, n)), rng.normal(size=(n, n))
    masses, rows = rng.gamma(1.0, 1.0, n), rng.gamma(1.0, 1.0, (3, n))
    gains, boosts = np.exp(exponent), np.exp(couplings)
    for old in range(n):
        want = masses * rows[2] * gains[0] * boosts[old]
        out = np.empty(n)
        assert weigh(gains, boosts, old, masses, rows, 2, out) == pytest.approx(want.sum())
        assert_allclose(out, want)
        total = weigh_exactly(exponent, couplings, old, masses, rows, 2, out)
        assert_allclose(out / total, want / want.sum(), rtol=1e-12)
        others = (masses * gains[0] * boosts[old])[np.arange(n) != old].sum()
        assert sum_of_others(gains, boosts, old, masses) == pytest.approx(others)
    assert weigh_plainly(masses, rows, 0, out) == pytest.approx((masses * rows[0]).sum())
    assert_allclose(out, masses * rows[0])


def test_exponents_that_no_float_can_hold() -> None:
    """Far from the peak all exponents count as equal, but none is zero."""
    exponent, couplings = np.array([[5000.0, 4999.0, -5000.0]]), np.zeros((3, 3))
    out, ones = np.empty(3), np.ones((1, 3))
    total = weigh_exactly(exponent, couplings, 1, np.ones(3), ones, 0, out)
    assert_allclose(out, [1.0, np.exp(-1.0), np.exp(DEEPEST)])
    assert total == pytest.approx(1.0 + np.exp(-1.0))
