"""Normalisers against SciPy, and packing of symmetric matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betaln, multigammaln

from everlearn.core.math import (
    digamma_multivariate,
    log_beta_normalizer,
    log_gamma_multivariate,
    unpack_symmetric,
    upper_triangle,
)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_multivariate_gamma_and_its_derivative(dim):
    a = np.array([2.6, 4.0, 30.0])
    assert_allclose(log_gamma_multivariate(a, dim), [multigammaln(x, dim) for x in a], rtol=1e-13)
    step = 1e-5
    slope = (log_gamma_multivariate(a + step, dim) - log_gamma_multivariate(a - step, dim)) / (
        2 * step
    )
    assert_allclose(digamma_multivariate(a, dim), slope, rtol=1e-7)


def test_beta_normalizer():
    a, b = np.array([1.0, 0.3, 40.0]), np.array([2.0, 5.0, 0.1])
    assert_allclose(log_beta_normalizer(a, b), -betaln(a, b), rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 3])
def test_symmetric_matrices_survive_packing(dim):
    rng = np.random.default_rng(0)
    M = rng.normal(size=(4, dim, dim))
    M = M + M.transpose(0, 2, 1)
    rows, columns = upper_triangle(dim)
    assert_array_equal(unpack_symmetric(M[:, rows, columns], dim), M)
