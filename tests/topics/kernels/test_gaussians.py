"""Moments of Gaussian weights and the evidence of documents, against NumPy and plain loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.topics.kernels.gaussians import add_moments, invert, tabulate


def precisions(n_tasks: int, n: int, spread: float = 1.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, n])
    root = rng.normal(size=(n_tasks, n, n))
    units = 10.0 ** rng.uniform(-spread, spread, (n_tasks, n, 1))
    return units * (root @ root.transpose(0, 2, 1) + np.eye(n)) * units.transpose(0, 2, 1)


def inverted(precision: np.ndarray, shift: np.ndarray) -> tuple[bool, np.ndarray, np.ndarray]:
    mean, covariance = np.empty_like(shift), np.full_like(precision, np.nan)
    return invert(precision, shift, mean, covariance), mean, covariance


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 15, 16, 17, 33])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_moments_are_those_of_numpy(n: int, spread: float) -> None:
    precision = precisions(3, n, spread)
    given, shift = precision.copy(), np.random.default_rng(1).normal(size=(3, n))
    done, mean, covariance = inverted(precision, shift)
    assert done
    assert_array_equal(precision, given)
    units = np.sqrt(np.diagonal(precision, axis1=1, axis2=2))
    scaled = units[:, :, None] * covariance * units[:, None, :]
    want = np.linalg.inv(precision / units[:, :, None] / units[:, None, :])
    assert_allclose(scaled, want, rtol=1e-7, atol=1e-9 * np.abs(want).max())
    assert_array_equal(covariance, covariance.transpose(0, 2, 1))
    assert_allclose(mean, np.einsum("qij,qj->qi", covariance, shift), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [1, 4, 6, 9])
@pytest.mark.parametrize("at", [0, -1])
def test_a_matrix_that_is_not_positive_definite_is_noticed(n: int, at: int) -> None:
    precision = precisions(2, n, 0.0)
    values, vectors = np.linalg.eigh(precision[1])
    for lowest in (0.0, -1.0, np.nan):
        spoilt = values.copy()
        spoilt[at] = lowest
        precision[1] = vectors * spoilt @ vectors.T
        if lowest == 0.0:  # exactly singular, and not only up to rounding
            precision[1][:, at] = precision[1][at] = 0.0
        assert not inverted(precision, np.ones((2, n)))[0]


def test_no_tasks() -> None:
    assert inverted(np.empty((0, 3, 3)), np.empty((0, 3)))[0]


@pytest.mark.parametrize(("n_tasks", "n"), [(1, 1), (3, 5), (5, 2)])
def test_tables_hold_second_moments_in_three_orders(n_tasks: int, n: int) -> None:
    mean = np.random.default_rng(2).normal(size=(n_tasks, n))
    covariance = precisions(n_tasks, n)
    seconds, pairs = np.full((n, n_tasks, n), np.nan), np.full((n, n, n_tasks), np.nan)
    squares = np.full((n_tasks, n), np.nan)
    tabulate(mean, covariance, seconds, pairs, squares)
    want = covariance + mean[:, :, None] * mean[:, None, :]
    assert_allclose(seconds, want.transpose(1, 0, 2), rtol=1e-12)
    assert_allclose(squares, np.diagonal(want, axis1=1, axis2=2), rtol=1e-12)
    first, second = np.tril_indices(n)
    assert_allclose(pairs[first, second], want[:, first, second].T, rtol=1e-12)


@pytest.mark.parametrize(
    ("n_documents", "n_sweeps", "n_hinges"), [(0, 2, 3), (1, 1, 3), (7, 2, 3), (7, 2, 6), (4, 0, 3)]
)
def test_evidence_is_the_sum_over_sweeps_documents_and_hinges(
    n_documents: int, n_sweeps: int, n_hinges: int
) -> None:
    """Hinges beyond the number of tasks share their weights."""
    rng = np.random.default_rng(n_documents)
    n_tasks, k, c, scale = 3, 5, 1.7, 0.25
    tallies = rng.poisson(1.0, (n_sweeps, n_documents, k)).astype(float)
    tallies[:, :1] = 0.0  # a document without words
    lengths = np.maximum(rng.poisson(5.0, n_documents), 1).astype(float)
    inverses = rng.gamma(1.0, 1.0, (n_sweeps, n_documents, n_hinges))
    signs = rng.choice([-1, 0, 1], (n_documents, n_hinges)).astype(np.int8)
    offsets = rng.normal(size=(n_documents, n_hinges))
    before = precisions(n_tasks, k), rng.normal(size=(n_tasks, k))
    precision, shift = (a.copy() for a in before)
    add_moments(tallies, lengths, inverses, signs, offsets, c, scale, precision, shift)
    want_precision, want_shift = (a.copy() for a in before)
    for sweep in range(n_sweeps):
        for d in range(n_documents):
            z = tallies[sweep, d] / lengths[d]
            for hinge in np.flatnonzero(signs[d]):
                q, inverse = hinge % n_tasks, inverses[sweep, d, hinge]
                want_precision[q] += scale * c**2 * inverse * np.outer(z, z)
                force = 1.0 + c * offsets[d, hinge] * inverse
                want_shift[q] += scale * c * signs[d, hinge] * force * z
    assert_allclose(precision, want_precision, rtol=1e-10)
    assert_allclose(shift, want_shift, rtol=1e-10, atol=1e-12)
