"""PPCA against dense formulas: likelihoods, beliefs of gaps, moments, statistics and the M-step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments, leading_directions
from everlearn.ppca.stats import expected_stats, m_step, row_stats
from oracles import ppca as oracle

SIZES = [(1, 1), (2, 1), (5, 2), (6, 5), (4, 4)]
sizes = pytest.mark.parametrize(("d", "q"), SIZES)


def rows_of(model, n, seed=1, gaps=0.0):
    rng = np.random.default_rng(seed)
    X = model.draw(n, rng)
    X[rng.random(X.shape) < gaps] = np.nan
    return X


def assert_models_close(one, two, **how):
    assert_allclose(one.mean, two.mean, **how)
    assert_allclose(one.covariance(), two.covariance(), **how)


@sizes
@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_log_likelihood_is_that_of_the_dense_gaussian(d, q, gaps):
    model = oracle.random_model(d, q)
    X = rows_of(model, 12, gaps=gaps)
    assert_allclose(model.log_likelihood(X), oracle.log_likelihood(model, X), rtol=1e-10, atol=1e-9)
    assert_allclose(model.covariance() @ model.precision(), np.eye(d), atol=1e-9)


@sizes
def test_beliefs_of_latents_and_gaps_are_conditional_gaussians(d, q):
    model = oracle.random_model(d, q)
    X = rows_of(model, 8, gaps=0.4)
    found = model.posterior(X)
    spread = dict(zip(found.where, found.spread, strict=True))
    for i, x in enumerate(X):
        z, cov, row, _ = oracle.conditional(model, x)
        assert_allclose(found.z[i], z, atol=1e-10)
        assert_allclose(spread.get(i, found.common_spread()), cov, atol=1e-10)
        assert_allclose(found.filled[i], row, atol=1e-9)


def test_small_noise_does_not_cost_digits():
    model = PPCA(np.full(3, 1e6), np.array([[1e4], [2e4], [0.0]]), 1e-6)
    X = rows_of(model, 20)
    square = -2 * model.log_likelihood(X) - 3 * np.log(2 * np.pi)
    square -= 2 * np.log(1e-6) + np.log(5e8 + 1e-6)
    assert (square > 0).all()
    assert square.mean() == pytest.approx(3, abs=1.5)


@sizes
def test_statistics_of_rows_with_gaps_are_expectations(d, q):
    model = oracle.random_model(d, q)
    X = rows_of(model, 9, gaps=0.35)
    centre = np.linspace(-1, 1, d)
    expected = oracle.OnlineEM(model, centre).statistics(X)
    found = row_stats(model.posterior(X), np.ones(9), centre)
    for part, want in zip((found.yy, found.yz, found.zz, found.x, found.z), expected, strict=True):
        assert_allclose(part[0] / 9, want, atol=1e-10)


@sizes
def test_expected_statistics_are_those_of_many_rows(d, q):
    """Reference statistics under another model's E-step; standard errors bound the difference."""
    model, truth = oracle.random_model(d, q, 1), oracle.random_model(d, q, 2)
    n = 20_000
    X = truth.draw(n, np.random.default_rng(0))
    origin = np.full(d, 0.3)
    found = expected_stats(model, Moments.of_model(truth, 1.0), origin)
    each = [row_stats(model.posterior(x), np.ones(n // 20), origin) for x in np.split(X, 20)]
    for name in ("yy", "yz", "zz", "x", "z"):
        batches = np.array([getattr(s, name)[0] * 20 / n for s in each])
        error = batches.std(axis=0, ddof=1) / np.sqrt(20)
        away = np.abs(batches.mean(axis=0) - getattr(found, name)[0])
        assert (away <= 5 * error + 1e-12).all(), name
        size = max(1.0, float(np.abs(getattr(found, name)).max()))
        assert away.max() < 0.05 * size


@sizes
def test_statistics_of_moments_are_those_of_their_rows(d, q):
    model = oracle.random_model(d, q)
    X = rows_of(oracle.random_model(d, q, 4), 15)
    weights = np.random.default_rng(0).uniform(0.5, 2, 15)
    origin = np.full(d, 0.1)
    rows = row_stats(model.posterior(X), weights, origin) * (1 / weights.sum())
    closed = expected_stats(model, Moments.of_rows(X, weights), origin)
    for one, two in zip(rows.parts, closed.parts, strict=True):
        assert_allclose(one, two, atol=1e-9)


@sizes
def test_a_model_is_the_fixed_point_of_its_own_statistics(d, q):
    truth = oracle.random_model(d, q)
    if q == d:
        truth = PPCA(truth.mean, truth.loadings, 0.01)
    origin = np.zeros(d)
    model = m_step(expected_stats(truth, Moments.of_model(truth, 1.0), origin), 0, origin)
    assert oracle.divergence(truth, model) < 1e-10
    away = oracle.random_model(d, q, 7)
    for _ in range(1500):
        away = m_step(expected_stats(away, Moments.of_model(truth, 1.0), origin), 0, origin)
    assert oracle.divergence(truth, away) < (1e-7 if q < d else 1e-2)


def test_m_step_maximises_its_objective():
    """No nearby loadings or noise give a larger expected log-likelihood."""
    d, q, n = 5, 2, 30
    model = oracle.random_model(d, q)
    X = rows_of(oracle.random_model(d, q, 3), n)
    origin = np.zeros(d)
    posterior = model.posterior(X)
    best = m_step(row_stats(posterior, np.ones(n), origin), 0, origin)

    def objective(candidate):
        rest = X - candidate.mean - posterior.z @ candidate.loadings.T
        spread = np.trace(candidate.loadings @ posterior.common_spread() @ candidate.loadings.T)
        square = (rest**2).sum(axis=1).mean() + spread
        return -0.5 * (d * np.log(candidate.noise) + square / candidate.noise)

    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            moved = PPCA(
                best.mean,
                best.loadings + size * rng.normal(size=(d, q)),
                best.noise * np.exp(size * rng.normal()),
            )
            assert objective(moved) < objective(best)


# ------------------------------------------------------------------------------- moments


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


def test_models_of_rows_that_are_alike_are_flat():
    X = rows_of(oracle.random_model(4, 2), 30) + 7.0
    for q in (2, 4):
        assert not Moments.of_rows(X).ppca(q).is_flat
        assert not Moments.of_rows(1e-40 * X).ppca(q).is_flat
        assert Moments.of_rows(X[:q]).ppca(q).is_flat
        assert Moments.of_rows(np.repeat(X[:1], 30, axis=0)).ppca(q).is_flat
        assert Moments.of_rows(0.0 * X).ppca(q).is_flat
