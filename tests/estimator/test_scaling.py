"""Running scales against NumPy, and what they promise of awkward values."""

import numpy as np
import pytest
from scipy import sparse

from everlearn.estimator.scaling import RunningScale

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(200, 5)) * [1.0, 1e6, 1e-6, 1.0, 1e-3] + [0.0, 5.0, 1.0, 1e4, 1e3]


def scale_of(values: np.ndarray, *cuts: int) -> RunningScale:
    scale = RunningScale.blank(values.shape[1])
    for part in np.split(values, cuts):
        scale = scale.after(part)
    return scale


def assert_same(one: RunningScale, two: RunningScale, rtol: float = 0.0) -> None:
    for name in ("count", "mean", "squares"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=rtol, atol=0)


def test_mean_and_spread_are_those_of_numpy() -> None:
    scale = scale_of(VALUES)
    np.testing.assert_allclose(scale.mean, VALUES.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scale.spread, VALUES.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(scale.size, np.sqrt((VALUES**2).mean(axis=0)), rtol=1e-9)
    standard = scale.standard(VALUES)
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(standard.std(axis=0), 1.0, rtol=1e-9)


@pytest.mark.parametrize("cuts", [(1,), (1, 2, 3), tuple(range(1, 200)), (0, 100, 100)])
def test_batches_do_not_matter_to_the_bit(cuts: tuple[int, ...]) -> None:
    assert_same(scale_of(VALUES, *cuts), scale_of(VALUES))


def test_missing_values_and_absent_entries_do_not_count() -> None:
    holes = np.where(RNG.random(VALUES.shape) < 0.3, np.nan, VALUES)
    scale = scale_of(holes)
    np.testing.assert_array_equal(scale.count, (~np.isnan(holes)).sum(axis=0))
    np.testing.assert_allclose(scale.mean, np.nanmean(holes, axis=0), rtol=1e-12)
    np.testing.assert_allclose(scale.spread, np.nanstd(holes, axis=0), rtol=1e-9)
    thin = RunningScale.blank(5).after(sparse.csr_array(np.nan_to_num(holes)))
    assert_same(thin, scale)


def test_parts_add_up_and_can_be_taken_out() -> None:
    one, two = scale_of(VALUES[:60]), scale_of(VALUES[60:])
    whole = scale_of(VALUES)
    assert_same(one.plus(two), whole, rtol=1e-8)
    back = whole.minus(one)
    np.testing.assert_allclose(back.mean, two.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(back.spread, two.spread, rtol=1e-6)
    blank = RunningScale.blank(5)
    assert_same(one.plus(blank), one)
    assert_same(one.minus(one), blank)


def test_units_of_columns_that_do_not_vary() -> None:
    scale = scale_of(np.tile([0.0, 3.0, -0.1, 1e-200], (50, 1)))
    np.testing.assert_array_equal(scale.spread, 0.0)
    np.testing.assert_array_equal(scale.unit, [1.0, 3.0, 0.1, 1.0])
    assert scale.is_constant.all()
    rounding = 0.1 + 1e-17 * RNG.normal(size=(50, 1))
    assert scale_of(rounding).is_constant.all()
    assert not RunningScale.blank(2).is_constant.any()
    np.testing.assert_array_equal(RunningScale.blank(2).unit, 1.0)


def test_an_outlier_among_the_first_fades() -> None:
    values = RNG.normal(size=(20_000, 1))
    values[3] = 100.0
    assert scale_of(values[:32]).spread[0] > 10.0
    assert scale_of(values).spread[0] < 1.3


def test_numbers_of_any_size() -> None:
    for factor in (1e-100, 1e100):
        np.testing.assert_allclose(
            scale_of(factor * VALUES).standard(factor * VALUES),
            scale_of(VALUES).standard(VALUES),
            rtol=1e-6,
            atol=1e-6,
        )
