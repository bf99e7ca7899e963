"""Gaps in a stream, against EM over all rows and against means of what there was."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.ppca.moments import Moments
from everlearn.ppca.natural_em import StepSize
from everlearn.ppca.stats import FeatureSums, refilled
from oracles import ppca as oracle
from support.ppca_streams import D, Q, learner_of, score, taught

LATE = [4, 5]


def stream(n, seed=0, share=0.0):
    """Rows of a PPCA, and the same with gaps at random."""
    rng = np.random.default_rng([seed, 3])
    whole = oracle.random_model(D, Q, seed).draw(n, rng)
    return whole, np.where(rng.random(whole.shape) < share, np.nan, whole)


def late_stream():
    X = stream(900)[0]
    X[:600, LATE] = np.nan
    return X


@cache
def at_random(seed, share):
    return oracle.em_with_gaps(stream(1500, seed, share)[1], Q, 40)


@cache
def at_first():
    return oracle.em_with_gaps(late_stream(), Q, 40)


def in_batches(X, size):
    return [X[i : i + size] for i in range(0, len(X), size)]


# ------------------------------------------------------------------------------- the parts


def test_sums_of_features_are_those_of_the_rows_that_have_them():
    model = oracle.random_model(D, Q, 1)
    X, w = stream(12, share=0.3)[1], np.linspace(0.5, 2.0, 12)
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
    """Against gap_models the same rows anew, where one feature was missing in all of them."""
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


# ------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("constraint", ["step", "task"])
@pytest.mark.parametrize(("share", "close"), [(0.1, 0.01), (0.3, 0.03), (0.5, 0.1)])
def test_gaps_at_random_cost_little_against_em_over_all_rows(constraint, share, close):
    for seed in range(2):
        whole, X = stream(1500, seed, share)
        state = taught(learner_of(constraint), in_batches(X, 25))
        best = at_random(seed, share)
        assert score(state, whole) > oracle.log_likelihood(best, whole).mean() - close
        assert_allclose(state.models[0].mean, best.mean, atol=0.1)
        assert state.models[0].noise == pytest.approx(best.noise, rel=0.4 * share)
        both = learner_of(constraint)._joint(state)[0]
        assert_allclose(both.present, (~np.isnan(X)).mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize(
    "how",
    [
        {"constraint": "step"},
        {"constraint": "task"},
        {"constraint": "step", "weight": 3.0, "step_size": StepSize(0.1)},
        {"constraint": "step", "max_reference_mass": 300.0},
        {"constraint": "step", "max_components": 2, "novelty": 60.0},
    ],
)
def test_features_that_come_late_are_learned_from_the_rows_that_have_them(how, size):
    whole, X = stream(900)[0], late_stream()
    learner = learner_of(**how)
    state = taught(learner, in_batches(X[:600], 20), tasks=True)
    state = taught(learner, in_batches(X[600:], size), state)
    best = at_first()
    assert len(state.models) == 1
    assert_allclose(state.models[0].mean[LATE], best.mean[LATE], atol=0.4)
    assert score(state, whole) > oracle.log_likelihood(best, whole).mean() - 0.25


def test_without_gaps_nothing_is_refilled():
    whole = stream(200)[0]
    state = taught(learner_of("step"), in_batches(whole, 20))
    assert state.reference[0].present is None
    state = taught(learner_of("step"), [np.where(whole[:20] > 2, np.nan, whole[:20])], state)
    assert (state.reference[0].present < 1).any()


def test_a_mean_without_latents_is_that_of_what_there_was():
    """No row varies but by its feature's own noise, so that latents tell nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, D)) + np.arange(D)
    X[:1500, 0] = np.nan
    X[rng.random(X.shape) < 0.2] = np.nan
    state = taught(learner_of("step"), in_batches(X, 50))
    assert_allclose(state.models[0].mean, np.nanmean(X, axis=0), atol=0.03)
