"""Sums over a block of rows, against one row at a time, and over many blocks."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from everlearn.engine.local import SerialEngine
from everlearn.engine.rows import Rows
from everlearn.ppca import local as module
from everlearn.ppca.local import LocalRequest, block_rows, local_step, sum_over_rows
from everlearn.ppca.moments import Moments
from everlearn.ppca.stats import row_stats
from oracles import ppca as oracle
from oracles.ppca import rows_of

D, Q = 5, 2
MODELS = tuple(oracle.random_model(D, Q, seed) for seed in range(2))
SHARES = np.array([0.7, 0.3])
ALL = LocalRequest(MODELS, np.log(SHARES), np.full(D, 0.3), moments=True, stats=True, features=True)


def rows(gaps=0.3, weighted=True):
    X = np.concatenate([rows_of(model, 20, seed, gaps) for seed, model in enumerate(MODELS)])
    return Rows(X, np.random.default_rng(5).uniform(0.2, 2.0, 40) if weighted else None)


def densities(some):
    """Log densities under each component, (n, K)."""
    return np.stack([oracle.log_likelihood(model, some.X) for model in MODELS], axis=1)


def assert_moments_close(one, two):
    assert one.mass == pytest.approx(two.mass)
    assert_allclose(one.mean, two.mean, atol=1e-9)
    assert_allclose(one.factor @ one.factor.T, two.factor @ two.factor.T, atol=1e-8)
    assert one.noise == pytest.approx(two.noise)
    assert_allclose(one.shares_present, two.shares_present, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_sums_are_weighted_by_responsibilities(gaps, weighted):
    some = rows(gaps, weighted)
    w = np.ones(40) if some.weights is None else some.weights
    joint = densities(some) + ALL.log_weights
    score = logsumexp(joint, axis=1)
    found, _ = local_step(ALL, some)
    best = densities(some).max(axis=1)
    want = [w.sum(), w @ score, w @ best, w @ best**2]
    assert_allclose(found.likelihoods, want, rtol=1e-9)
    assert found.odd is None
    for k, model in enumerate(MODELS):
        shares = w * np.exp(joint[:, k] - score)
        posterior = model.posterior(some.X)
        assert_moments_close(found.moments[k], Moments.of_posterior(posterior, shares))
        stats = row_stats(posterior, shares, ALL.origin)
        for got, one in zip(found.stats.parts, stats.parts, strict=True):
            assert_allclose(got[k], one[0], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("size", [1, 7])
def test_blocks_add_up(size, monkeypatch):
    some = rows()
    whole, _ = local_step(ALL, some)
    monkeypatch.setattr(module, "_MAX_BLOCK_ROWS", size)
    monkeypatch.setattr(module, "_MIN_BLOCK_ROWS", 1)
    assert block_rows(D, Q) == size
    cut = sum_over_rows(ALL, some, SerialEngine())
    assert_allclose(cut.likelihoods, whole.likelihoods, rtol=1e-10)
    for k in range(2):
        assert_moments_close(cut.moments[k], whole.moments[k])
        assert_allclose(cut.features[k].uu, whole.features[k].uu, rtol=1e-8, atol=1e-8)
        assert_allclose(cut.features[k].ru, whole.features[k].ru, rtol=1e-8, atol=1e-8)
    for one, two in zip(cut.stats.parts, whole.stats.parts, strict=True):
        assert_allclose(one, two, rtol=1e-8, atol=1e-8)


def test_odd_rows_are_set_aside():
    """They are in no other sum."""
    some = rows(gaps=0.0)
    best = densities(some).max(axis=1)
    threshold = float(np.median(best))
    odd = best < threshold
    found, _ = local_step(replace(ALL, threshold=threshold), some)
    usual, _ = local_step(ALL, Rows(some.X[~odd], some.weights[~odd]))
    assert_allclose(found.likelihoods, usual.likelihoods)
    for k in range(2):
        assert_moments_close(found.moments[k], usual.moments[k])
    assert_moments_close(found.odd, Moments.of_rows(some.X[odd], some.weights[odd]))
    none, _ = local_step(replace(ALL, threshold=-np.inf), some)
    assert none.odd.mass == 0.0
    all_odd, _ = local_step(replace(ALL, threshold=np.inf), some)
    assert_allclose(all_odd.likelihoods, 0.0)
    assert all_odd.odd.mass == pytest.approx(some.weights.sum())
    assert [part.mass for part in all_odd.moments] == [0.0, 0.0]


def test_complete_rows_of_one_component_need_no_posterior():
    some = rows(gaps=0.0)
    alone = LocalRequest(MODELS[:1], np.zeros(1), np.zeros(D), moments=True)
    found, _ = local_step(alone, some)
    assert found.stats is None
    assert_moments_close(found.moments[0], Moments.of_rows(some.X, some.weights))


def test_other_models_may_fill_the_gaps():
    some = rows()
    alone = LocalRequest(MODELS[:1], np.zeros(1), np.zeros(D), moments=True)
    other = replace(alone, gap_models=MODELS[1:])
    found, _ = local_step(other, some)
    want = Moments.of_posterior(MODELS[1].posterior(some.X), some.weights)
    assert_moments_close(found.moments[0], want)
    plain, _ = local_step(alone, some)
    assert_allclose(found.likelihoods, plain.likelihoods)


def test_the_size_of_a_block_depends_on_the_model_alone():
    assert block_rows(1, 1) == 2048
    assert block_rows(10**6, 50) == 64
    assert 64 < block_rows(1000, 9) < 2048
