"""The state before any data, and word factors of a state."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.topics.priors import FixedTopics
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, first_state, word_factors

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
