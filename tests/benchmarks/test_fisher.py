"""The Fisher information against derivatives, and the divergence it approximates."""

import numpy as np
import pytest
from benchmarks.reference.fisher import Fisher
from numpy.testing import assert_allclose

from oracles import ppca as oracle

SIZES = [(2, 1), (5, 2), (6, 3), (4, 4)]
sizes = pytest.mark.parametrize(("d", "q"), SIZES)


def matrix(operator, shape):
    """The matrix of a linear operator, by its values at unit vectors."""
    units = np.eye(int(np.prod(shape)))
    return np.array([operator(e.reshape(shape)).ravel() for e in units]).T


@sizes
def test_blocks_are_those_of_the_dense_matrix(d, q):
    model = oracle.random_model(d, q)
    F, found = oracle.fisher(model), Fisher.of(model)
    loadings = slice(d, d + d * q)
    assert_allclose(matrix(found.mean, (d,)), F[:d, :d], rtol=1e-12, atol=1e-12)
    assert_allclose(matrix(found.loadings, (d, q)), F[loadings, loadings], rtol=1e-12, atol=1e-12)
    assert found.noise == pytest.approx(F[-1, -1], rel=1e-12)
    assert_allclose(found.cross.ravel(), F[loadings, -1], rtol=1e-12, atol=1e-12)
    assert_allclose(F[:d, d:], 0, atol=1e-14)


@sizes
def test_inverses_are_inverses(d, q):
    model = oracle.random_model(d, q)
    found = Fisher.of(model)
    assert_allclose(matrix(found.mean_inverse, (d,)), oracle.covariance(model), atol=1e-12)
    F = matrix(found.loadings, (d, q))
    expected = np.linalg.pinv(F, rcond=1e-10, hermitian=True)
    assert_allclose(matrix(found.loadings_pinv, (d, q)), expected, rtol=1e-8, atol=1e-8)
    largest = [np.linalg.eigvalsh(m)[-1] for m in (oracle.covariance(model), expected)]
    assert_allclose(found.largest_inverses, [*largest, 1 / found.noise], rtol=1e-9)


@sizes
def test_spectrum_and_null_space_are_as_derived(d, q):
    model = oracle.random_model(d, q)
    found = Fisher.of(model)
    s2, lam = found.s**2, found.variances
    expected = [*np.repeat(s2 / (model.noise * lam), d - q), *(2 * s2 / lam**2)]
    for i in range(q):
        for j in range(i):
            expected += [(s2[i] + s2[j]) / (lam[i] * lam[j]), 0.0]
    values = np.linalg.eigvalsh(matrix(found.loadings, (d, q)))
    assert_allclose(values, np.sort(expected), atol=1e-12)
    assert (values < 1e-12).sum() == q * (q - 1) // 2
    turn = np.random.default_rng(0).normal(size=(q, q))
    assert_allclose(found.loadings(model.loadings @ (turn - turn.T)), 0, atol=1e-12)


def test_information_is_the_covariance_of_scores():
    """Of numerical derivatives at rows drawn from the model, within 5 standard errors."""
    model = oracle.random_model(3, 1)
    X = model.draw(40_000, np.random.default_rng(0))
    scores = oracle.scores(model, X)
    F = oracle.fisher(model)
    products = scores[:, :, None] * scores[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(X))
    away = np.abs(products.mean(axis=0) - F)
    assert (away <= 5 * error).all()
    assert away.max() < 0.03 * F.max()


def test_divergence_tends_to_the_quadratic_form():
    d, q = 5, 2
    model = oracle.random_model(d, q)
    F, theta = oracle.fisher(model), oracle.flat(model)
    direction = np.random.default_rng(3).normal(size=len(theta))
    ratios = []
    for size in (1e-1, 1e-2, 1e-3):
        moved = oracle.unflat(theta + size * direction / np.linalg.norm(direction), d, q)
        away = oracle.flat(moved) - theta
        ratios.append(oracle.divergence(model, moved) / (0.5 * away @ F @ away))
    errors = np.abs(np.array(ratios) - 1)
    assert errors[2] < 2e-3
    assert errors[2] < 0.2 * errors[1] < 0.2 * errors[0]
