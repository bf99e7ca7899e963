"""Where a topic model begins, and what follows from its settings."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.topics.batches import Targets
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, first_state, word_factors
from support.topic_learners import learned

LEARNER = TopicSettings(FixedTopics(0.1), 0.2)
AVERAGING = Loss("averaging", 16.0, 50.0, 4e-4)
GIBBS = Loss("gibbs", 164.0, 1.0, 10.0)


def test_topics_are_anchored_in_the_order_of_the_tasks():
    learner = replace(LEARNER, loss=AVERAGING)
    state = first_state(learner, 7, 5, np.array([2, 0, 1]), seed=4)
    assert state.codes.tolist() == [2, 0, 1, 2, 0]
    assert isinstance(state.weights, FixedSpread)
    assert state.weights.mean[:, 0].tolist() == [-16.0, -16.0, 16.0]
    assert (state.n_words, state.n_topics, state.seed) == (7, 5, 4)


@pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
def test_the_margin_is_only_a_unit(loss):
    """(a margin, c / a, a^2 variance) is the same model in other units (spec 5)."""
    wider = replace(loss, margin=4 * loss.margin, c=loss.c / 4, variance=16 * loss.variance)
    one, other = (learned(replace(LEARNER, loss=each)) for each in (loss, wider))
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_allclose(4 * one.weights.mean, other.weights.mean, rtol=1e-6)
    changed = learned(replace(LEARNER, loss=replace(loss, margin=4 * loss.margin)))
    assert not np.allclose(4 * one.weights.mean, changed.weights.mean, rtol=1e-3)


def test_one_task_alternates():
    state = first_state(replace(LEARNER, loss=AVERAGING), 7, 4, np.array([0]), seed=0)
    assert state.weights.mean.tolist() == [[16, -16, 16, -16]]


def test_one_task_against_several_others():
    state = first_state(replace(LEARNER, loss=AVERAGING), 7, 5, np.array([0]), seed=0, n_rest=2)
    assert state.codes.tolist() == [0, 1, 1, 0, 1]
    assert state.weights.mean.tolist() == [[16, -16, -16, 16, -16]]


def test_fewer_topics_than_tasks():
    state = first_state(replace(LEARNER, loss=AVERAGING), 7, 2, np.array([3, 1, 0, 2]), seed=0)
    assert state.codes.tolist() == [3, 1]
    assert state.weights.mean[[0, 2]].tolist() == [[-16, -16], [-16, -16]]


def test_the_gibbs_prior_has_the_same_means_and_its_variance():
    state = first_state(replace(LEARNER, loss=GIBBS), 7, 3, np.arange(2), seed=0)
    assert isinstance(state.weights, Gaussians)
    mean, covariance = state.weights.moments()
    np.testing.assert_allclose(mean, [[164, -164, 164], [-164, 164, -164]])
    np.testing.assert_allclose(covariance, [10.0 * np.eye(3)] * 2)


@pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
def test_without_anchors_weights_start_at_zero(loss):
    learner = replace(LEARNER, loss=replace(loss, anchored=False))
    state = first_state(learner, 7, 3, np.arange(2), seed=0)
    assert not state.weights.mean.any()
    assert state.codes.tolist() == [-1, -1, -1]


def test_without_a_loss_there_are_no_weights():
    state = first_state(LEARNER, 7, 3, np.arange(0), seed=0)
    assert state.weights is None
    assert state.codes.tolist() == [-1, -1, -1]


def test_word_factors_are_the_expected_probabilities():
    state = first_state(LEARNER, 4, 2, np.arange(0), seed=0).with_room(4, 3)
    state.counts[:, :2] = np.arange(8).reshape(4, 2)
    state.totals[:2] = state.counts[:, :2].sum(axis=0)
    factors = word_factors(LEARNER, state)
    delta = state.counts[:, :2] + 0.2
    found = (factors.counts[:, :2] + factors.smoothing) * factors.scale
    np.testing.assert_allclose(found, delta / delta.sum(axis=0), rtol=1e-14)


def test_settings_that_follow():
    assert not LEARNER.collapsed
    assert not LEARNER.grows
    assert LEARNER.max_multiplier == 0.0
    assert replace(LEARNER, word_factor="collapsed").collapsed
    born = replace(LEARNER, prior=SharedSticks(5.0, 1.0))
    assert born.grows
    assert born.collapsed
    many = replace(LEARNER, loss=AVERAGING, ghosts=3, n_sweeps=5, burn_in=2)
    assert many.n_kept == 3
    assert many.max_multiplier == 2 * 50.0 * 3


def test_only_the_first_round_of_an_anchored_model_makes_its_own_multipliers():
    learner = replace(LEARNER, loss=AVERAGING, ghosts=2)
    assert learner.closed_form(0) == (16.0, 4e-4, 200.0)
    assert learner.closed_form(1)[2] == 0.0
    assert replace(learner, loss=replace(AVERAGING, anchored=False)).closed_form(0)[2] == 0.0
    assert LEARNER.closed_form(0)[2] == 0.0


def test_labels_pull_at_first_under_the_gibbs_loss_with_anchors():
    gibbs = Loss("gibbs", 164.0, 1.5, 10.0)
    assert replace(LEARNER, loss=gibbs, ghosts=4).first_pull == 3.0
    for loss in (None, AVERAGING, replace(gibbs, anchored=False)):
        assert replace(LEARNER, loss=loss).first_pull == 0.0


def test_targets_are_cut_together():
    targets = Targets(np.arange(6, dtype=np.int8).reshape(3, 2), np.arange(6.0).reshape(3, 2))
    part = targets[1:]
    assert part.signs.tolist() == [[2, 3], [4, 5]]
    assert part.values.tolist() == [[2, 3], [4, 5]]
    assert Targets.none(4).signs.shape == (4, 0)
