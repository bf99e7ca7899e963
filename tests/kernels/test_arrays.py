"""Loops over arrays inside kernels, against NumPy."""

import numpy as np
import pytest

from everlearn.kernels import arrays
from support.kernels import from_python

copy_to, largest, sum_of = map(from_python, (arrays.copy_to, arrays.largest, arrays.sum_of))


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_loops_are_those_of_numpy(n: int) -> None:
    values = np.random.default_rng(n).normal(size=(3, n))
    assert largest(values[1]) == values[1].max()
    assert sum_of(values[1]) == sum(values[1].tolist())
    out = np.zeros((3, n))
    copy_to(out[1], values[1])
    np.testing.assert_array_equal(out, [np.zeros(n), values[1], np.zeros(n)])


def test_empty_arrays() -> None:
    assert sum_of(np.empty(0)) == 0.0
    copy_to(np.empty(0), np.empty(0))


def test_infinities_are_compared() -> None:
    assert largest(np.array([-np.inf, -np.inf])) == -np.inf
    assert largest(np.array([-np.inf, 1.0, np.inf])) == np.inf
