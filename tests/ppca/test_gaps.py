"""Gaps in a stream, against EM over all rows and against means of what there was."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.ppca.natural_em import StepSize
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
