"""Dual coordinate ascent: optimality, equality with a generic solver, and what must not change."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.kernels.dual import ascend, ascend_weights, demands
from oracles.passive_aggressive import best_tau, dual_value, primal_value

EXACTLY = (1e-12, 20_000)


def case(
    seed: int, n: int = 12, k: int = 5, q: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], (n, q)).astype(np.int8)
    return rng.normal(size=(n, k)), signs, 0.3 * rng.normal(size=(q, k))


def solve(
    Z: np.ndarray,
    signs: np.ndarray,
    mu: np.ndarray,
    *,
    box: float = 0.7,
    margin: float = 1.5,
    variance: float = 0.6,
    tau: np.ndarray | None = None,
    order: np.ndarray | None = None,
    stop: tuple[float, int] = EXACTLY,
) -> tuple[np.ndarray, np.ndarray]:
    weights, order = mu.copy(), np.arange(len(Z)) if order is None else order
    y = np.ascontiguousarray(signs[order].T).astype(float)
    start = np.zeros(signs.shape) if tau is None else tau
    coefficients = np.ascontiguousarray(y * start[order].T)
    ends = -box * (y < 0), box * (y > 0)
    ascend_weights(Z[order], variance, weights, coefficients, margin * y, *ends, 0.0, *stop)
    found = np.empty(signs.shape)
    found[order] = np.abs(coefficients.T)
    return weights, found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("box", [0.02, 0.3, 50.0])
def test_optimum_is_that_of_a_generic_solver_and_primal_is_dual(seed: int, box: float) -> None:
    Z, signs, mu = case(seed, n=5 if box == 50.0 else 12)
    weights, tau = solve(Z, signs, mu, box=box)
    for q in range(3):
        y = signs[:, q].astype(float)
        dual = dual_value(Z, y, mu[q], tau[:, q], 1.5, 0.6)
        best = dual_value(Z, y, mu[q], best_tau(Z, y, mu[q], 1.5, 0.6, box), 1.5, 0.6)
        assert dual >= best - 1e-9 * (1 + abs(best))
        assert dual == pytest.approx(best, rel=1e-6)
        assert primal_value(Z, y, mu[q], weights[q], 1.5, 0.6, box) == pytest.approx(dual, rel=1e-8)


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.5, 5.0]))
def test_optimality_conditions(seed: int, box: float) -> None:
    Z, signs, mu = case(seed, n=4, k=6)
    weights, tau = solve(Z, signs, mu, box=box)
    np.testing.assert_allclose(weights, mu + 0.6 * (tau * signs).T @ Z, atol=1e-12)
    slope = 1.5 - signs * (Z @ weights.T)
    assert (tau >= 0).all()
    assert (tau <= box).all()
    assert (slope[tau == 0] <= 1e-8).all()
    assert (slope[tau == box] >= -1e-8).all()
    assert (np.abs(slope[(tau > 0) & (tau < box)]) <= 1e-8).all()


def test_every_sweep_raises_the_dual() -> None:
    Z, signs, mu = case(3, n=40, k=4, q=1)
    tau, y = np.zeros((40, 1)), signs[:, 0].astype(float)
    values = [0.0]
    for _ in range(30):
        _, tau = solve(Z, signs, mu, tau=tau, stop=(0.0, 1))
        values.append(dual_value(Z, y, mu[0], tau[:, 0], 1.5, 0.6))
    assert (np.diff(values) >= -1e-12).all()
    assert values[1] > 0


def test_larger_box_never_costs_more_hinge() -> None:
    Z, signs, mu = case(4, n=30, k=4, q=1)
    sums = []
    for box in (0.01, 0.1, 1.0, 10.0):
        weights, _ = solve(Z, signs, mu, box=box, stop=(1e-10, 100_000))
        sums.append(np.maximum(1.5 - signs * (Z @ weights.T), 0).sum())
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(sums))


def test_one_row_is_the_closed_form() -> None:
    Z, signs, mu = case(5, n=1)
    weights, tau = solve(Z, signs, mu, stop=(0.0, 1))
    loss = np.maximum(1.5 - signs[0] * (mu @ Z[0]), 0.0)
    expected = np.minimum(0.7, loss / (0.6 * Z[0] @ Z[0]))
    np.testing.assert_allclose(tau[0], expected, rtol=1e-12)
    np.testing.assert_allclose(weights, mu + 0.6 * (expected * signs[0])[:, None] * Z[0])


def test_met_margins_change_no_bit() -> None:
    Z, signs, mu = case(6)
    mu = np.ascontiguousarray(100.0 * (np.linalg.pinv(Z[:4]) @ signs[:4]).T)
    weights, tau = solve(Z[:4], signs[:4], mu)
    np.testing.assert_array_equal(weights, mu)
    assert not tau.any()


def test_tasks_do_not_know_of_each_other_and_missing_pairs_take_no_part() -> None:
    Z, signs, mu = case(7)
    weights, tau = solve(Z, signs, mu, stop=(1e-3, 50))
    for q in range(3):
        alone, tau_alone = solve(Z, signs[:, [q]], mu[[q]], stop=(1e-3, 50))
        np.testing.assert_array_equal(alone[0], weights[q])
        np.testing.assert_array_equal(tau_alone[:, 0], tau[:, q])
    known = np.arange(12) % 3 > 0
    partly = signs * known[:, None].astype(np.int8)
    some, tau = solve(Z, partly, mu)
    few, _ = solve(Z[known], signs[known], mu)
    np.testing.assert_allclose(some, few, atol=1e-12)
    assert not tau[~known].any()


def test_order_and_start_do_not_matter_in_the_end() -> None:
    Z, signs, mu = case(8)
    rng = np.random.default_rng(0)
    weights, _ = solve(Z, signs, mu)
    others, _ = solve(Z, signs, mu, order=rng.permutation(12), tau=rng.uniform(0, 0.7, (12, 3)))
    np.testing.assert_allclose(others, weights, atol=1e-8)


def test_empty_rows_and_batches() -> None:
    Z, signs, mu = case(9)
    Z[2] = 0.0
    weights, tau = solve(Z, signs, mu)
    assert not tau[2].any()
    assert np.isfinite(weights).all()
    none, _ = solve(Z[:0], signs[:0], mu)
    np.testing.assert_array_equal(none, mu)


def test_weights_and_scores_lead_to_the_same_optimum() -> None:
    rng = np.random.default_rng(11)
    X, targets, mu = rng.normal(size=(15, 4)), rng.normal(size=(2, 15)), rng.normal(size=(2, 4))
    bound, order = np.full((2, 15), 0.5), np.arange(15)
    a, b = np.zeros((2, 15)), np.zeros((2, 15))
    weights, scores = mu.copy(), mu @ X.T
    ascend_weights(X, 0.6, weights, a, targets, -bound, bound, 0.2, 1e-13, 50_000)
    gram = 0.6 * X @ X.T
    ascend(gram, scores, b, targets, -bound, bound, 0.2, 0.0, order, np.full(2, 1e-13), 50_000)
    np.testing.assert_allclose(weights @ X.T, scores, atol=1e-9)
    np.testing.assert_allclose(weights, mu + 0.6 * a @ X, atol=1e-12)
    assert np.abs(a).max() == 0.5
    assert (a == 0.0).any()


def test_numbers_in_a_tube_are_optimal() -> None:
    rng = np.random.default_rng(10)
    X, targets = rng.normal(size=(15, 4)), rng.normal(size=(2, 15))
    width, box, ridge = 0.2, 0.5, 0.1
    a, scores = np.zeros((2, 15)), np.zeros((2, 15))
    bound = np.full((2, 15), box)
    tol = np.full(2, 1e-13)
    order = rng.permutation(15)
    ascend(X @ X.T, scores, a, targets, -bound, bound, width, ridge, order, tol, 50_000)
    np.testing.assert_allclose(scores, a @ X @ X.T, atol=1e-10)
    rest = targets - scores - ridge * a
    inside = (a != 0) & (np.abs(a) < box)
    np.testing.assert_allclose(rest[inside], width * np.sign(a[inside]), atol=1e-9)
    assert (np.abs(rest[a == 0]) <= width + 1e-9).all()
    assert (rest[np.abs(a) == box] * np.sign(a[np.abs(a) == box]) >= width - 1e-9).all()
    assert inside.any()
    assert (a == 0).any()
    assert (np.abs(a) == box).any()


@pytest.mark.parametrize("regression", [False, True])
def test_demands_are_those_of_the_losses(regression):
    rng = np.random.default_rng(4)
    signs = rng.integers(0 if regression else -1, 2, (9, 3)).astype(np.int8)
    values, start = rng.normal(size=(9, 3)), 3.0 * rng.normal(size=(9, 3))
    coefficients, targets, lower, upper = demands(signs, values, start, 1.5, 2.0, regression)
    y = signs.T
    if regression:
        expected = values.T, -2.0 * (y != 0), 2.0 * (y != 0)
    else:
        expected = 1.5 * y, -2.0 * (y < 0), 2.0 * (y > 0)
    for found, wanted in zip((targets, lower, upper), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(coefficients, np.clip(y * start.T, lower, upper))
