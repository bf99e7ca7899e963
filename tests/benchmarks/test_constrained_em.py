"""Online EM with a constrained M-step, which `OnlinePPCA` is compared with."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.reference.constrained_em import ConstrainedEM, constrained_ppca
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.ppca.moments import Moments
from everlearn.ppca.natural_em import StepSize
from oracles import ppca as oracle
from support.ppca_data import rows_of
from support.ppca_streams import D, Q, batches_of, learner_of, score, taught
from support.streams import file_of

FORMS = ["kl", "gain", "ewc"]
forms = pytest.mark.parametrize("form", FORMS)
constraints = pytest.mark.parametrize("constraint", ["step", "task", "previous"])


def em_of(constraint, form="kl", **how):
    return learner_of(constraint, ConstrainedEM, form=form, **how)


@pytest.mark.parametrize("gamma", [1e-9, 1e-3, 0.3, 1.0])
@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
@constraints
def test_every_step_size_and_weight_is_stable(gamma, weight, constraint):
    batches = batches_of(4, 30) + batches_of(4, 30, seed=1)
    for form in FORMS:
        learner = em_of(constraint, form, weight=weight, step_size=StepSize(gamma))
        state = taught(learner, batches, tasks=True)
        assert state.is_finite()
        assert state.models[0].noise > 0


@forms
def test_one_task_is_plain_online_em(form):
    plain = taught(learner_of(), batches_of())
    state = taught(em_of("task", form, weight=3.0), batches_of())
    assert_array_equal(state.models[0].loadings, plain.models[0].loadings)


def test_it_climbs_to_the_exact_maximiser():
    """Repeated EM steps on a fixed window end where merged moments are at once."""
    window = batches_of(1, 400, seed=3)[0]
    truth = Moments.of_rows(batches_of(1, 200)[0])
    learner = em_of("task", weight=2.0, step_size=StepSize(1.0))
    state = replace(taught(learner, [window]), reference=(truth,))
    state = taught(learner, [window] * 500, state)
    exact = (truth.with_mass(2.0) + Moments.of_rows(window, np.full(400, 1 / 400))).ppca(Q)
    assert oracle.divergence(exact, state.models[0]) < 1e-6


@pytest.mark.parametrize(("constraint", "form"), [("task", "kl"), ("step", "gain")])
def test_it_does_not_know_units(constraint, form):
    found = []
    for scale in (1.0, 16.0):
        batches = [X for s in range(3) for X in batches_of(3, 30, s, scale=scale)]
        state = taught(em_of(constraint, form), batches, tasks=True)
        found.append(score(state, batches[0]) + D * np.log(scale))
    assert found[0] == pytest.approx(found[1], abs=1e-6)


@forms
def test_the_rotation_of_a_reference_does_not_matter(form):
    learner = em_of("task", form, weight=0.4)
    state = taught(learner, batches_of(2), tasks=True)
    R = np.linalg.qr(np.random.default_rng(0).normal(size=(Q, Q)))[0]
    turned = replace(state.reference[0], factor=state.reference[0].factor @ R)
    models = [
        taught(learner, batches_of(2, seed=1), s).models[0]
        for s in (state, replace(state, reference=(turned,)))
    ]
    assert_allclose(models[0].covariance(), models[1].covariance(), atol=1e-9)


@pytest.mark.parametrize(("constraint", "weight"), [("task", None), ("step", 2.0)])
def test_a_component_is_added_for_rows_that_none_explains(constraint, weight):
    far = [X + 30 for X in batches_of(20, 10, seed=1)]
    learner = em_of(constraint, weight=weight, max_components=3)
    before = taught(learner, batches_of(20, 10), tasks=True)
    assert len(before.models) == 1
    after = taught(learner, far, before, tasks=True)
    assert len(after.models) == 2
    assert after.weights.sum() == pytest.approx(1)
    assert oracle.divergence(before.models[0], after.models[0]) < 0.3
    X = np.concatenate(far)
    best = oracle.batch_ml(X, Q).log_likelihood(X).mean()
    assert score(replace(after, models=after.models[1:]), X) > best - 1.5


def test_it_forgets_less_than_plain_online_em_and_more_than_merged_moments():
    first, second = batches_of(40, 10), batches_of(40, 10, seed=1)
    size = {"step_size": StepSize(0.1)}
    learners = [learner_of("task"), em_of("task", **size), learner_of(None, **size)]
    scores = []
    for learner in learners:
        state = taught(learner, first)
        state = taught(learner, second, learner.consolidate(state))
        scores.append(score(state, np.concatenate(first)))
    assert scores[0] > scores[1] > scores[2]


@pytest.mark.parametrize("form", ["gain", "ewc"])
@pytest.mark.parametrize("size", [1e78, 1e98])
def test_rows_too_large_for_a_form_are_refused(form, size):
    model = constrained_ppca(form, 2, constraint="task", batch_size=16, random_state=0)
    for task in range(2):
        model.partial_fit(rows_of(120, task), task=task)
    before = file_of(model)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="cannot learn from X"):
        model.partial_fit(size * rows_of(60, 2), task=9)
    assert file_of(model) == before
