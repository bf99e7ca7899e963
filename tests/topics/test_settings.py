"""What follows from the settings of a topic model."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import Loss, TopicSettings
from support.topic_learners import learned

LEARNER = TopicSettings(FixedTopics(0.1), 0.2)
AVERAGING = Loss("averaging", 16.0, 50.0, 4e-4)
GIBBS = Loss("gibbs", 164.0, 1.0, 10.0)


@pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
def test_the_margin_is_only_a_unit(loss):
    """(a margin, c / a, a^2 variance) is the same model in other units (spec 5)."""
    wider = replace(loss, margin=4 * loss.margin, c=loss.c / 4, variance=16 * loss.variance)
    one, other = (learned(replace(LEARNER, loss=each)) for each in (loss, wider))
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_allclose(4 * one.weights.mean, other.weights.mean, rtol=1e-6)
    changed = learned(replace(LEARNER, loss=replace(loss, margin=4 * loss.margin)))
    assert not np.allclose(4 * one.weights.mean, changed.weights.mean, rtol=1e-3)


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
