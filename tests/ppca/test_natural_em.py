"""Online EM with and without the natural constraint, against plain formulas."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from everlearn.engine.opening import open_engine
from everlearn.engine.rows import Rows
from everlearn.metrics.continual import continual_summary
from everlearn.ppca.moments import Moments
from everlearn.ppca.natural_em import NaturalEM, StepSize
from everlearn.ppca.state import PPCAState
from oracles import ppca as oracle
from support.ppca_streams import D, Q, batches_of, learner_of, score, taught

# ------------------------------------------------------------------------------- plain online EM


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("size", [StepSize(), StepSize(0.3), StepSize(power=1.0, offset=2.0)])
def test_without_constraint_it_is_online_em(size, gaps):
    first, *others = batches_of(gaps=0.0)
    others = [np.where(np.random.default_rng(i).random(X.shape) < gaps, np.nan, X)
              for i, X in enumerate(others)]  # fmt: skip
    slow = oracle.OnlineEM(oracle.batch_ml(first, Q), first.mean(axis=0))
    slow.S = slow.statistics(first)
    learner = learner_of(step_size=size)
    state = taught(learner, [first])
    for k, X in enumerate(others, start=2):
        state = taught(learner, [X], state)
        expected = slow.step(X, size(k))
        assert_allclose(state.models[0].mean, expected.mean, atol=1e-8)
        assert_allclose(state.models[0].covariance(), oracle.covariance(expected), atol=1e-7)


def test_full_batches_with_step_one_are_batch_em():
    X, first = np.concatenate(batches_of()), batches_of(seed=5)[0]
    learner = learner_of(step_size=StepSize(1.0))
    state, slow = taught(learner, [first]), oracle.OnlineEM(oracle.batch_ml(first, Q), np.zeros(D))
    likelihoods = []
    for _ in range(8):
        likelihoods.append(score(state, X))
        state = taught(learner, [X], state)
        expected = slow.step(X, 1.0)
        assert_allclose(state.models[0].covariance(), oracle.covariance(expected), atol=1e-7)
    assert np.diff(likelihoods).min() > 0
    state = taught(learner, [X] * 300, state)
    best = oracle.batch_ml(X, Q)
    assert oracle.divergence(best, state.models[0]) < 1e-6


def test_equal_steps_reach_batch_learning():
    X = load_digits().data / 16.0
    X = np.random.default_rng(0).permutation(X)[:1500]
    learner = NaturalEM(10, 20, None, step_size=StepSize(power=1.0))
    batches = [X[i : i + 10] for i in range(0, len(X), 10)]
    state = taught(learner, batches + batches)
    assert score(state, X) > Moments.of_rows(X).ppca(10).log_likelihood(X).mean() - 1.0


@pytest.mark.parametrize("gamma", [1e-9, 1e-3, 0.3, 1.0])
@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
def test_every_step_size_and_weight_is_stable(gamma, weight):
    batches = batches_of(4, 30) + batches_of(4, 30, seed=1)
    for constraint in ("step", "task", "previous", None):
        how = {"weight": weight, "step_size": StepSize(gamma)}
        state = taught(learner_of(constraint, **how), batches, tasks=True)
        assert state.is_finite()
        assert state.models[0].noise > 0


def test_the_first_rows_are_learned_exactly_one_by_one():
    X = batches_of()[0]
    state = taught(learner_of(), [x[None] for x in X[:15]])
    assert state.stats is None
    assert_allclose(state.models[0].covariance(), oracle.covariance(oracle.batch_ml(X[:15], Q)))
    assert taught(learner_of(), [x[None] for x in X[:20]]).stats is not None


# ------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize("constraint", ["step", "task"])
def test_equal_weights_and_full_rank_are_batch_learning(constraint):
    batches = [X for s in range(4) for X in batches_of(3, 17, seed=s)]
    state = taught(learner_of(constraint, kept_rank=D), batches, tasks=True)
    best = oracle.batch_ml(np.concatenate(batches), Q)
    assert_allclose(state.models[0].covariance(), oracle.covariance(best), atol=1e-9)
    assert state.reference_mass == 12 * 17


def test_a_number_weighs_reference_and_window():
    one, two = batches_of(1, 40)[0], batches_of(1, 10, seed=1)[0]
    learner = learner_of("task", kept_rank=D, weight=3.0)
    state = taught(learner, [two], taught(learner, [one], tasks=True))
    weights = np.concatenate([np.full(40, 3 / 40), np.full(10, 1 / 10)])
    best = oracle.batch_ml(np.concatenate([one, two]), Q, weights)
    assert_allclose(state.models[0].covariance(), oracle.covariance(best), atol=1e-9)


def test_rows_of_the_reference_are_capped_and_older_ones_fade():
    batches = batches_of(20, 10)
    state = taught(learner_of("step", kept_rank=D, max_reference_mass=50), batches)
    assert state.reference_mass == pytest.approx(50)
    share = 50 / 60
    weights = np.repeat([share ** (20 - i) if i >= 5 else share**15 for i in range(20)], 10)
    best = oracle.batch_ml(np.concatenate(batches), Q, weights)
    assert_allclose(state.models[0].mean, best.mean, atol=1e-10)


def test_count_forms_do_not_know_units():
    for constraint in ("step", "task"):
        found = []
        for scale in (1.0, 16.0):
            batches = [X for s in range(3) for X in batches_of(3, 30, s, scale=scale)]
            state = taught(learner_of(constraint), batches, tasks=True)
            found.append(score(state, batches[0]) + D * np.log(scale))
        assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_a_window_is_dropped_when_rows_begin_to_count_alike():
    weighted = learner_of("step", weight=2.0)
    counting = replace(weighted, weight=None)
    state = taught(weighted, batches_of(3))
    assert state.window
    state = taught(counting, batches_of(2, seed=1), state)
    assert not state.window
    expected = state.reference[0].ppca(Q)
    assert_allclose(state.models[0].covariance(), expected.covariance(), atol=1e-12)


# ------------------------------------------------------------------------------- mixtures


@pytest.mark.parametrize(
    "how",
    [
        {"constraint": "step"},
        {"constraint": "task"},
        {"constraint": None, "step_size": StepSize(0.05)},
    ],
)
def test_a_component_is_added_for_rows_that_none_explains(how):
    far = [X + 30 for X in batches_of(20, 10, seed=1)]
    learner = learner_of(**how, max_components=3)
    before = taught(learner, batches_of(20, 10), tasks=True)
    assert len(before.models) == 1
    after = taught(learner, far, before, tasks=True)
    assert len(after.models) == 2
    assert after.weights.sum() == pytest.approx(1)
    assert oracle.divergence(before.models[0], after.models[0]) < 0.3
    X = np.concatenate(far)
    best = oracle.batch_ml(X, Q).log_likelihood(X).mean()
    assert score(replace(after, models=after.models[1:]), X) > best - 1.5


def test_the_old_component_is_not_touched_by_rows_of_the_new():
    learner = learner_of("step", max_components=2)
    before = taught(learner, batches_of(20, 10))
    after = taught(learner, [X + 1000 for X in batches_of(20, 10, seed=1)], before)
    assert len(after.models) == 2
    assert_allclose(after.models[0].covariance(), before.models[0].covariance(), rtol=1e-9)
    assert_allclose(after.reference[0].mass, before.reference[0].mass)


# ------------------------------------------------------------------------------- the whole


def test_a_step_leaves_its_state_alone_and_engines_agree():
    batches = batches_of(3, 3000, gaps=0.05)
    for constraint in ("step", None):
        learner = learner_of(constraint, max_components=2)
        ends = []
        for name in ("serial", "threads"):
            with open_engine(name) as engine:
                state = learner.step(PPCAState.blank(Rows(batches[0]), Q, 0), Rows(batches[0]),
                                     engine)  # fmt: skip
                kept = state.models[0].loadings.copy(), state.weights.copy()
                ends.append(learner.step(state, Rows(batches[1]), engine))
                assert_array_equal(state.models[0].loadings, kept[0])
                assert_array_equal(state.weights, kept[1])
        assert_array_equal(ends[0].models[0].loadings, ends[1].models[0].loadings)
        assert ends[0].models[0].noise == ends[1].models[0].noise


def scores_by_class(learner, X, y, order):
    held_out = {c: X[y == c][::3] for c in order}
    state, table = None, []
    for c in order:
        rows = np.delete(X[y == c], np.s_[::3], axis=0)
        state = taught(learner, [rows[i : i + 5] for i in range(0, len(rows), 5)], state)
        with open_engine("serial"):
            state = learner.consolidate(state)
        table.append([score(state, held_out[j]) for j in order])
    return table


def test_digits_one_by_one_are_kept_by_the_constraint_and_forgotten_without():
    X, y = load_digits(return_X_y=True)
    X, order = X / 16.0, np.random.default_rng(0).permutation(10).tolist()
    train = {c: np.delete(X[y == c], np.s_[::3], axis=0) for c in order}
    oracle_scores = []
    for i in range(10):
        best = Moments.of_rows(np.concatenate([train[c] for c in order[: i + 1]])).ppca(10)
        oracle_scores.append([best.log_likelihood(X[y == c][::3]).mean() for c in order])
    found = {
        name: continual_summary(scores_by_class(learner, X, y, order), oracle=oracle_scores)
        for name, learner in {
            "moments": NaturalEM(10, 20, "step"),
            "tasks": NaturalEM(10, 20, "task"),
            "plain": NaturalEM(10, 20, None, step_size=StepSize(0.05)),
        }.items()
    }
    assert abs(found["moments"].regret) < 0.5
    assert abs(found["tasks"].regret) < 0.5
    assert found["plain"].regret > 10
    assert found["moments"].final > found["plain"].final
    last = np.mean(oracle_scores[-1])
    assert found["moments"].final > last - 0.01 * abs(last)
    assert found["moments"].forgetting < 0.3 * found["plain"].forgetting
