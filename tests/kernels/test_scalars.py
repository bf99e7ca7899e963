import numpy as np
import pytest
from numpy.testing import assert_array_equal

from everlearn.kernels import scalars

DTYPES = (np.float64, np.float32)


@pytest.mark.parametrize(
    ("kernel", "dtype", "deepest", "bound"),
    [
        (scalars._exp_double, np.float64, -700.0, 1.5e-15),
        (scalars._exp_single, np.float32, -80.0, 2e-7),
    ],
)
def test_exponential_is_accurate(kernel, dtype, deepest, bound):
    x = np.concatenate([np.linspace(deepest, 0.0, 30_001), -np.logspace(-20, 0, 2001)])
    x = x.astype(dtype)
    fast = np.array([kernel(value) for value in x], np.longdouble)
    exact = np.exp(x.astype(np.longdouble))
    assert np.abs(fast / exact - 1.0).max() < bound


def test_logarithm_is_accurate():
    x = np.concatenate([np.linspace(1e-3, 3.0, 30_001), np.logspace(-300, 300, 2001)])
    x = np.concatenate([x, 1.0 - np.logspace(-16, -1, 500), [np.sqrt(0.5), np.sqrt(2.0), 1.0]])
    exact = np.log(x.astype(np.longdouble))
    fast = np.array([scalars.log(value) for value in x], np.longdouble)
    assert np.abs(fast - exact).max() < 3e-13
    assert (np.abs(fast - exact) <= 1e-15 * np.abs(exact)).all()


def test_squared_cosine_is_accurate():
    x = np.concatenate([np.linspace(0.0, 1.0, 30_001), np.linspace(-3.0, 3.0, 1001)])
    fast = np.array([scalars.squared_cosine(value) for value in x], np.longdouble)
    exact = np.cos(2.0 * np.longdouble("3.14159265358979323846") * x) ** 2
    assert np.abs(fast - exact).max() < 1e-15


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_order_as_the_numbers_do(dtype):
    info = np.finfo(dtype)
    positive = [info.smallest_subnormal, info.tiny, 1e-3, 1.0, 1.5, 1e6, info.max, np.inf]
    x = np.array([-value for value in positive[::-1]] + [0.0] + positive, dtype)
    ranks = [int(scalars.to_rank(value)) for value in x]
    assert ranks == sorted(set(ranks))
    to_rank, back = (
        (scalars._rank_double, scalars._unrank_double)
        if dtype is np.float64
        else (scalars._rank_single, scalars._unrank_single)
    )
    assert_array_equal([back(to_rank(value)) for value in x], x)
