"""Closed forms of losses and beliefs against quadrature, sampling and plain linear algebra."""

import numpy as np
import pytest
from scipy.integrate import quad

from everlearn.linear import gaussian as m


@pytest.mark.parametrize("zeta", [-3.0, -0.4, 0.0, 0.3, 2.5])
@pytest.mark.parametrize("c", [0.2, 1.0, 3.0])
def test_augmentation_integrates_to_the_loss(zeta: float, c: float) -> None:
    def density(root: float) -> float:  # lambda = root^2
        lam = root * root
        return 2.0 * np.exp(-((lam + c * zeta) ** 2) / (2.0 * lam)) / np.sqrt(2.0 * np.pi)

    value, _ = quad(density, 0.0, np.inf, epsabs=1e-12, epsrel=1e-10, limit=500)
    assert value == pytest.approx(np.exp(-2.0 * c * max(zeta, 0.0)), rel=1e-6)


@pytest.mark.parametrize(("zeta", "v", "c"), [(0.7, 0.2, 1.0), (-2.0, 0.5, 0.3), (0.1, 3.0, 2.0)])
def test_mean_of_the_inverse_is_that_of_its_density(zeta: float, v: float, c: float) -> None:
    b = c**2 * (zeta**2 + v)

    def unnormalised(root: float, power: int) -> float:  # GIG(1/2, 1, b), lambda = root^2
        lam = root * root
        return 2.0 * lam**-power * np.exp(-0.5 * (b / lam + lam))

    mass, _ = quad(unnormalised, 0.0, np.inf, args=(0,), epsabs=1e-13)
    first, _ = quad(unnormalised, 0.0, np.inf, args=(1,), epsabs=1e-13)
    got = m.inverse_mean(np.array([zeta]), np.array([v]), c)
    assert got[0] == pytest.approx(first / mass, rel=1e-7)


def test_mean_of_the_inverse_has_a_limit() -> None:
    assert m.inverse_mean(np.zeros(1), np.zeros(1), 1.0)[0] == m.LARGEST_INVERSE


@pytest.mark.parametrize(("mean", "deviation"), [(0.4, 0.5), (-2.0, 0.7), (3.0, 0.01), (0.0, 2.0)])
def test_expected_excess_against_quadrature(mean: float, deviation: float) -> None:
    def part(z: float, power: int) -> float:
        return z**power * np.exp(-0.5 * ((z - mean) / deviation) ** 2)

    whole = np.sqrt(2.0 * np.pi) * deviation
    far = max(mean, 0.0) + 12.0 * deviation
    want = [quad(part, 0.0, far, args=(k,), points=[max(mean, 0.0)])[0] / whole for k in (1, 0)]
    got = m.expected_excess(np.array([mean]), np.array([deviation]))
    np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-7)


def test_factors_that_replace_others() -> None:
    """Conditioning on new factors equals taking the old ones back and conditioning anew."""
    rng = np.random.default_rng(4)
    root = rng.normal(size=(2, 5, 9))
    gram, scores = root @ root.transpose(0, 2, 1), rng.normal(size=(2, 5))
    old, new = rng.random((2, 2, 5)), rng.random((2, 2, 5))
    mean, _ = m.conditioned(gram, scores, *old)
    after = np.linalg.inv(np.linalg.inv(gram) + old[0][:, :, None] * np.eye(5))
    got = m.reconditioned(after, mean, *(new - old))
    for one, other in zip(got, m.conditioned(gram, scores, *new), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def beliefs(rng: np.random.Generator, q: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    roots = rng.normal(size=(q, p, p + 2))
    return roots @ roots.transpose(0, 2, 1), rng.normal(size=(q, p))


def test_moments_of_a_natural_gaussian() -> None:
    precision, shift = beliefs(np.random.default_rng(0), 3, 5)
    mean, covariance = m.moments(precision, shift)
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-9)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, shift[..., None])[..., 0])
    np.testing.assert_array_equal(covariance, covariance.transpose(0, 2, 1))


@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_rows_and_features_see_the_same_posterior(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    precision, shift = beliefs(rng, 2, 4)
    X = rng.normal(size=(n_rows, 4))
    weight, pull = rng.uniform(0, 3, (2, n_rows)), rng.normal(size=(2, n_rows))
    weight[0, 0] = pull[0, 0] = 0.0
    mean, covariance = m.moments(precision, shift)
    after, spread = m.moments(
        precision + np.einsum("qb,bi,bj->qij", weight, X, X), shift + pull @ X
    )
    scores, variances = m.conditioned(X @ covariance @ X.T, mean @ X.T, weight, pull)
    np.testing.assert_allclose(scores, after @ X.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variances, np.einsum("bi,qij,bj->qb", X, spread, X), rtol=1e-8)
