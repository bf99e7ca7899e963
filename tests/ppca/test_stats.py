"""Statistics of rows and latents, and the M-step, against dense formulas."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments
from everlearn.ppca.stats import FeatureSums, expected_stats, m_step, m_steps, refilled, row_stats
from oracles import ppca as oracle
from oracles.ppca import rows_of, sizes
from support.ppca_streams import D, Q


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


def test_sums_of_features_are_those_of_the_rows_that_have_them():
    model = oracle.random_model(D, Q, 1)
    X, w = rows_of(oracle.random_model(D, Q), 12, gaps=0.3), np.linspace(0.5, 2.0, 12)
    found = FeatureSums.of(model.posterior(X), w)
    for j in range(D):
        uu, ru = np.zeros((Q + 1, Q + 1)), np.zeros(Q + 1)
        for x, weight in zip(X, w, strict=True):
            if np.isnan(x[j]):
                continue
            z, spread, _, _ = oracle.conditional(model, x)
            second = np.block([[np.ones((1, 1)), z[None]], [z[:, None], np.outer(z, z) + spread]])
            uu += weight * second
            # E[(x - mean - W z) (1, z)], by the moments of (1, z)
            ru += weight * ((x[j] - model.mean[j]) * second[0] - model.loadings[j] @ second[1:])
        assert_allclose(found.uu[j], uu, atol=1e-9)
        assert_allclose(found.ru[j], ru, atol=1e-9)


def test_a_feature_is_regressed_by_old_and_new_rows_together():
    """Newton's step is exact where latents are known: with hardly any noise."""
    rng = np.random.default_rng(0)
    truth = replace(oracle.random_model(D, Q, 1), noise=1e-10)
    X = truth.draw(400, rng)
    wrong = replace(truth, mean=truth.mean.copy(), loadings=truth.loadings.copy())
    wrong.mean[5], wrong.loadings[5] = 0.0, 0.0
    rows = wrong.posterior(np.where(np.arange(D) == 5, np.nan, X))
    rows = replace(rows, filled=X, where=None, missing=None, spread=None)
    sums = FeatureSums.of(rows, np.ones(400))
    found = sums.regressed(wrong, np.zeros(D))
    assert_allclose(found.mean, truth.mean, atol=0.02)
    assert_allclose(found.loadings, truth.loadings, atol=0.02)
    half = sums.regressed(wrong, np.full(D, 400.0))  # as many rows that said otherwise
    assert_allclose(half.loadings[5], truth.loadings[5] / 2, atol=0.15)
    assert_array_equal(FeatureSums.of(rows, np.zeros(400)).regressed(wrong, np.zeros(D)).mean,
                       wrong.mean)  # fmt: skip


def test_moments_are_refilled_as_the_new_model_would_have_filled_them():
    """Against filling the same rows anew, where one feature was missing in all of them."""
    old = oracle.random_model(D, Q, 1)
    X = old.draw(50_000, np.random.default_rng(0))
    X[:, 5] = np.nan
    new = replace(old, mean=old.mean.copy(), loadings=old.loadings.copy())
    new.mean[5] += 2.0
    new.loadings[5] += [0.7, -0.4]
    before, after = (Moments.of_posterior(model.posterior(X)) for model in (old, new))
    found = refilled(before, old, new)
    assert_allclose(found.mean, after.mean, atol=0.02)
    expected = after.factor @ after.factor.T
    assert_allclose(found.factor @ found.factor.T, expected, atol=0.05 * np.abs(expected).max())
    whole = replace(before, present=None)
    assert refilled(whole, old, new) is whole


@sizes
def test_sums_are_those_of_all_rows_in_any_order(d, q):
    model, origin = oracle.random_model(d, q), np.full(d, 0.2)
    X = rows_of(model, 20, gaps=0.3)
    w = np.random.default_rng(2).uniform(0.0, 2.0, 20)

    def of(rows):
        return row_stats(model.posterior(X[rows]), w[rows], origin)

    whole, parts = of(slice(None)), of(slice(0, 7)) + of(slice(7, 20))
    order = np.random.default_rng(3).permutation(20)
    for other in (parts, of(order), (whole + whole) * 0.5, whole * np.ones(1)):
        for one, two in zip(whole.parts, other.parts, strict=True):
            assert_allclose(two, one, rtol=1e-9, atol=1e-10)
    halved = row_stats(model.posterior(X), 0.5 * w, origin)
    for one, two in zip((whole * 0.5).parts, halved.parts, strict=True):
        assert_allclose(two, one, rtol=1e-9, atol=1e-10)


def test_factors_scale_each_component_by_itself():
    model, origin = oracle.random_model(D, Q), np.zeros(D)
    one, two = (
        row_stats(model.posterior(rows_of(model, 5, s)), np.ones(5), origin) for s in (1, 2)
    )
    both = one.join(two)
    assert len(both) == 2
    scaled = both * np.array([2.0, -1.0])
    for part, first, second in zip(scaled.parts, one.parts, two.parts, strict=True):
        assert_allclose(part[:1], 2.0 * first)
        assert_allclose(part[1:], -second)


def test_sums_of_features_add_and_scale():
    model = oracle.random_model(D, Q, 1)
    X, w = rows_of(model, 12, gaps=0.3), np.linspace(0.0, 2.0, 12)
    whole = FeatureSums.of(model.posterior(X), w)
    parts = [FeatureSums.of(model.posterior(X[s]), w[s]) for s in (slice(0, 5), slice(5, 12))]
    for other in (parts[0] + parts[1], FeatureSums.of(model.posterior(X), 2.0 * w) * 0.5):
        assert_allclose(other.uu, whole.uu, atol=1e-10)
        assert_allclose(other.ru, whole.ru, atol=1e-10)


def test_components_with_hardly_any_rows_keep_their_parameters():
    old = [oracle.random_model(D, Q, seed) for seed in (1, 2)]
    X = rows_of(old[0], 40)
    stats = [row_stats(m.posterior(X), np.full(40, w), np.zeros(D)) for m, w in
             zip(old, (1.0, 1e-12), strict=True)]  # fmt: skip
    first, second = m_steps(stats[0].join(stats[1]), old, np.zeros(D))
    assert second is old[1]
    assert_allclose(first.mean, X.mean(axis=0))
