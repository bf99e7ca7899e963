"""Moments: they add up to those of all rows, and give the PPCA of maximal likelihood."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments, leading_directions
from oracles import ppca as oracle
from oracles.ppca import assert_models_close, rows_of, sizes


@sizes
@pytest.mark.parametrize("n", [3, 4, 30])
def test_moments_give_the_maximum_of_likelihood(d, q, n):
    X = rows_of(oracle.random_model(d, d), n)
    weights = np.random.default_rng(n).uniform(0.2, 3, n)
    for w in (None, weights):
        found = Moments.of_rows(X, w).ppca(q)
        if q < d and n > d:
            assert_models_close(found, oracle.batch_ml(X, q, w), atol=1e-9)
        whole = Moments.of_rows(X, w).truncated(d)
        C = np.cov(X.T, aweights=w, bias=True).reshape(d, d)
        assert_allclose(whole.factor @ whole.factor.T, C, atol=1e-9)


@given(st.integers(1, 6), st.integers(0, 40), st.integers(0, 1000))
def test_sums_of_moments_are_moments_of_all_rows(d, split, seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(rng.normal(size=d) * 3, 1.0, (41, d)), rng.uniform(0.1, 2, 41)
    split = max(1, split)
    both = Moments.of_rows(X[:split], weights[:split]) + Moments.of_rows(X[split:], weights[split:])
    whole = Moments.of_rows(X, weights)
    assert both.mass == pytest.approx(whole.mass)
    for one in (both, both.compact()):
        assert_allclose(one.mean, whole.mean, atol=1e-12)
        assert_allclose(one.factor @ one.factor.T, whole.factor @ whole.factor.T, atol=1e-10)
    assert both.compact().factor.shape[1] <= d


def test_all_batches_at_full_rank_equal_batch_learning():
    d, q = 12, 3
    X = rows_of(oracle.random_model(d, 5), 400)
    kept = Moments.of_rows(X[:7])
    for start in range(7, 400, 13):
        kept = (kept + Moments.of_rows(X[start : start + 13])).truncated(d)
    assert_models_close(kept.ppca(q), oracle.batch_ml(X, q), atol=1e-8)


def test_cutting_twice_is_cutting_once_and_keeps_the_sum_of_variances():
    moments = Moments.of_rows(rows_of(oracle.random_model(9, 6), 50))
    assert_models_close(moments.truncated(7).ppca(3), moments.ppca(3), atol=1e-10)
    ordered = moments.truncated(7).ppca(3, ordered=True)
    assert_allclose(ordered.loadings, moments.ppca(3).loadings, atol=1e-10)
    assert ordered.noise == pytest.approx(moments.ppca(3).noise)
    for rank in (1, 4, 9):
        assert moments.truncated(rank).variance == pytest.approx(moments.variance)


def test_merging_is_associative_up_to_what_is_cut():
    parts = [Moments.of_rows(rows_of(oracle.random_model(10, 3, s), 60, s)) for s in range(3)]
    a, b, c = (part.truncated(8) for part in parts)
    left = ((a + b).truncated(8) + c).ppca(2)
    right = (a + (b + c).truncated(8)).ppca(2)
    exact = (parts[0] + parts[1] + parts[2]).ppca(2)
    assert oracle.divergence(left, right) < 1e-3
    assert oracle.divergence(exact, left) < 1e-3


def test_rotation_of_a_reference_does_not_matter():
    rng = np.random.default_rng(0)
    truth, window = oracle.random_model(7, 3), Moments.of_rows(rng.normal(size=(20, 7)))
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = PPCA(truth.mean, truth.loadings @ R, truth.noise)
    one, two = ((Moments.of_model(m, 30.0) + window).ppca(3) for m in (truth, turned))
    assert_models_close(one, two, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-40, 1e-8, 16.0, 1e90])
def test_units_only_shift_likelihoods(scale):
    X = rows_of(oracle.random_model(6, 2), 40)
    one, two = Moments.of_rows(X).ppca(2), Moments.of_rows(X * scale).ppca(2)
    shift = 6 * np.log(scale)
    assert_allclose(two.log_likelihood(X * scale) + shift, one.log_likelihood(X), rtol=1e-8)


@given(st.integers(1, 8), st.integers(0, 9), st.integers(1, 8), st.integers(0, 50))
def test_leading_directions_are_those_of_the_singular_values(d, m, rank, seed):
    rank = min(rank, d)
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(d, m)) * 10.0 ** rng.uniform(-7, 1, m)
    values, u = leading_directions(F, rank)
    k = min(rank, m)
    singular = np.linalg.svd(F, compute_uv=False)
    assert_allclose(values[:k], singular[:k] ** 2, rtol=1e-6, atol=1e-9 * (F**2).sum())
    assert_allclose(values[k:], 0)
    assert_allclose(np.einsum("di,de,ei->i", u, F @ F.T, u), values, atol=1e-9 * (F**2).sum())
    if k and values[k - 1] > 1e-12 * values[0]:
        assert_allclose(u[:, :k].T @ u[:, :k], np.eye(k), atol=1e-7)


def test_rows_without_variance_give_a_proper_model():
    model = Moments.of_rows(np.full((1, 4), 2.5)).ppca(2)
    assert model.noise > 0
    assert np.isfinite(model.log_likelihood(np.full((2, 4), 2.5))).all()
    assert np.isfinite(model.log_likelihood(np.full((2, 4), 1e99))).all()


def test_moments_of_gaps_are_expectations():
    """All but the noise of missing entries, which is left to those that there are."""
    model = oracle.random_model(5, 2)
    X = rows_of(model, 30, gaps=0.3)
    found = Moments.of_posterior(model.posterior(X), np.ones(30))
    beliefs = [oracle.conditional(model, x) for x in X]
    rows = np.array([row for _, _, row, _ in beliefs])
    C = np.cov(rows.T, bias=True) + np.mean([V for *_, V in beliefs], axis=0)
    assert_allclose(found.mean, rows.mean(axis=0), atol=1e-10)
    missing = np.isnan(X).mean(axis=0)
    assert found.noise == 0
    assert_allclose(found.present, 1 - missing, atol=1e-12)
    guess = found.factor @ found.factor.T + np.diag(model.noise * missing)
    assert_allclose(guess, C, atol=1e-10)


def test_the_noise_of_gaps_is_that_of_the_entries_that_there_are():
    """A model of complete rows stays as it is when it completes rows of its own, with gaps."""
    model = oracle.random_model(5, 2)
    X = model.draw(60_000, np.random.default_rng(0))
    X[np.random.default_rng(1).random(X.shape) < 0.4] = np.nan
    found = Moments.of_posterior(model.posterior(X))
    assert found.share_present == pytest.approx(0.6, abs=0.01)
    assert found.ppca(2).noise == pytest.approx(model.noise, rel=0.03)
    both = Moments.of_model(model, 1000.0) + found.truncated(4)
    assert both.share_present == pytest.approx((1000 + 60_000 * 0.6) / 61_000, abs=0.01)
    assert both.ppca(2).noise == pytest.approx(model.noise, rel=0.03)
