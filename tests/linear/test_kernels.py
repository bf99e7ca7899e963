"""One row at a time against the original algorithms, and draws against their law."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

from everlearn.linear.kernels import inverse_gaussians, learn_dense, learn_sparse
from oracles.passive_aggressive import crammer, crammer_regression

C = 0.3
SETTINGS = {"PA": (np.inf, 0.0), "PA-I": (C, 0.0), "PA-II": (np.inf, 0.5 / C)}


def rows(seed: int, n: int = 200, p: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.6)
    X[3] = 0.0
    return X, rng.normal(size=(n, 3))


def unknown(n: int) -> np.ndarray:
    """Multipliers of rows that were never visited."""
    return np.zeros((n, 3))


def paths(X: np.ndarray, targets: np.ndarray, *loss: Any) -> list[np.ndarray]:
    weights = np.zeros((X.shape[1], targets.shape[1]))
    path = []
    for i in range(len(X)):
        learn_dense(X[i : i + 1], targets[i : i + 1], unknown(1), weights, 1.0, *loss)
        path.append(weights.copy())
    return path


@pytest.mark.parametrize("margin", [0.2, 1.0, 16.0])
@pytest.mark.parametrize("variant", SETTINGS)
def test_classification_is_the_algorithm_of_crammer(variant: str, margin: float) -> None:
    X, noise = rows(0)
    signs = np.where(noise > 0, 1.0, -1.0)
    path = paths(X, margin * signs, 0.0, *SETTINGS[variant], True)
    for q in range(3):
        for got, want in zip(path, crammer(X, signs[:, q], variant, C, margin), strict=True):
            np.testing.assert_allclose(got[:, q], want, rtol=0, atol=1e-12 * max(1, margin))


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("variant", SETTINGS)
def test_regression_is_the_algorithm_of_crammer(variant: str, epsilon: float) -> None:
    X, targets = rows(1)
    path = paths(X, targets, epsilon, *SETTINGS[variant], False)
    for q in range(3):
        wanted = crammer_regression(X, targets[:, q], variant, C, epsilon)
        for got, want in zip(path, wanted, strict=True):
            np.testing.assert_allclose(got[:, q], want, rtol=0, atol=1e-12)


def test_passive_to_the_bit_and_aggressive_to_equality() -> None:
    X, noise = rows(2)
    signs = np.where(noise > 0, 1.0, -1.0)
    before = np.zeros((6, 3))
    seen = {"passive": 0, "equal": 0, "capped": 0}
    for i in range(len(X)):
        after = before.copy()
        one = slice(i, i + 1)
        learn_dense(X[one], signs[one], unknown(1), after, 1.0, 0.0, C, 0.0, True)
        for q in range(3):
            loss = max(0.0, 1.0 - signs[i, q] * float(before[:, q] @ X[i]))
            if loss == 0.0 or not X[i].any():
                np.testing.assert_array_equal(after[:, q], before[:, q])
                seen["passive"] += 1
            elif loss / (X[i] @ X[i]) < C:
                assert signs[i, q] * float(after[:, q] @ X[i]) == pytest.approx(1.0, abs=1e-12)
                seen["equal"] += 1
            else:
                np.testing.assert_allclose(after[:, q] - before[:, q], C * signs[i, q] * X[i])
                seen["capped"] += 1
        before = after
    assert min(seen.values()) > 10, seen


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_sparse_rows_give_the_bits_of_dense_rows(
    one_sided: bool, intercept: int, indices: Any
) -> None:
    X, targets = rows(3)
    targets[::5, 1] = np.nan
    table = sparse.csr_array(X)
    dense, thin = np.zeros((6 + intercept, 3)), np.zeros((6 + intercept, 3))
    loss = (0.7, 0.1, 0.4, 0.2, one_sided)
    multipliers = [unknown(len(X)), unknown(len(X))]
    for _ in range(3):  # the second visit replaces what the first one added
        learn_dense(X, targets, multipliers[0], dense, *loss)
        arrays = (table.data, table.indices.astype(indices), table.indptr.astype(indices))
        learn_sparse(*arrays, 6, targets, multipliers[1], thin, *loss)
    np.testing.assert_array_equal(dense, thin)
    np.testing.assert_array_equal(*multipliers)
    assert dense.any()


def test_intercept_is_a_feature_that_is_one() -> None:
    X, targets = rows(4)
    implied, explicit = np.zeros((7, 3)), np.zeros((7, 3))
    learn_dense(X, targets, unknown(len(X)), implied, 0.5, 0.1, 0.4, 0.0, False)
    ones = np.hstack([X, np.ones((len(X), 1))])
    learn_dense(ones, targets, unknown(len(X)), explicit, 0.5, 0.1, 0.4, 0.0, False)
    np.testing.assert_array_equal(implied, explicit)


def test_missing_targets_change_nothing() -> None:
    X, targets = rows(5)
    targets[:, 1] = np.nan
    weights = np.ones((6, 3))
    learn_dense(X, targets, unknown(len(X)), weights, 1.0, 0.1, C, 0.0, False)
    np.testing.assert_array_equal(weights[:, 1], 1.0)
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
def test_many_visits_solve_the_dual_of_all_rows(variant: str, one_sided: bool) -> None:
    """Weights are those of the multipliers, and no other weights have a lower objective."""
    X, targets = rows(6, n=60)
    targets = np.where(targets > 0, 1.0, -1.0) if one_sided else targets
    box, ridge = SETTINGS[variant]
    width = 0.0 if one_sided else 0.1
    weights, known = np.zeros((6, 3)), unknown(60)
    for _ in range(4000):
        learn_dense(X, targets, known, weights, 1.0, width, box, ridge, one_sided)
    np.testing.assert_allclose(X.T @ known, weights, atol=1e-9)

    def loss(w: np.ndarray, q: int) -> float:
        rest = targets[:, q] - X @ w
        short = np.maximum(targets[:, q] * rest if one_sided else np.abs(rest) - width, 0.0)
        return float(0.5 * w @ w + C * (short if variant == "PA-I" else short**2).sum())

    rng = np.random.default_rng(0)
    for q in range(3):
        best = loss(weights[:, q], q)
        for size in (1e-3, 1e-2, 0.1, 1.0):
            for _ in range(20):
                assert loss(weights[:, q] + size * rng.normal(size=6), q) >= best - 1e-9


@pytest.mark.parametrize("exponent", range(-8, 9, 2))
def test_inverse_gaussian_has_its_law(exponent: int) -> None:
    mean, rng = 10.0**exponent, np.random.default_rng(exponent + 8)
    n = 20_000
    draws = inverse_gaussians(np.full(n, mean), rng.normal(size=n), rng.random(n))
    assert np.isfinite(draws).all()
    assert (draws > 0).all()
    assert stats.kstest(draws, stats.invgauss(mu=mean, scale=1).cdf).pvalue > 1e-3
    if mean <= 1:  # further up, the moments of a sample say little
        assert draws.mean() == pytest.approx(mean, abs=5 * np.sqrt(mean**3 / n))


def test_inverse_gaussian_at_the_ends_of_its_noise() -> None:
    normals, uniforms = np.array([0.0, 1e-200, 40.0, -40.0]), np.array([0.0, 1 - 1e-16, 0.5, 1e-9])
    for mean in (1e-8, 1.0, 1e8):
        draws = inverse_gaussians(np.full(4, mean), normals, uniforms)
        assert np.isfinite(draws).all()
        assert (draws > 0).all()
