"""Epochs of the lifelong topic model: what a step keeps, and how far compression looks ahead."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps import epochs as clumped_learner
from everlearn.clumps.compress import Compressor
from everlearn.clumps.epochs import ClumpedLearner
from everlearn.clumps.state import ClumpedState, Epoch
from everlearn.engine.local import SerialEngine
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus, epoch_of
from support.clumped_data import settings_of

every = named(FAMILIES)


@every
@pytest.mark.parametrize("limits", [{}, {"max_clumps": 12, "max_groups": 3}])
def test_a_step_leaves_its_input_alone(case, limits):
    model = corpus(case).model
    learner = ClumpedLearner(SerialEngine(), settings_of(**limits))
    state, _ = learner.learn(ClumpedState.fresh(model, 3.0), epoch_of(case))
    arrays = (state.topics.n, state.topics.t, state.topics.counts, state.past.clumps.features,
              state.past.clumps.counts, state.past.singles, state.sizes)  # fmt: skip
    copies = [a.copy() for a in arrays]
    after, info = learner.learn(state, epoch_of(case))
    learner.recompress(state)
    for array, copy in zip(arrays, copies, strict=True):
        assert_array_equal(array, copy)
    assert after.n_epochs == 2
    assert_allclose(after.compression_loss - state.compression_loss, info.compression_loss)


@every
def test_the_bound_of_a_state_is_that_of_its_items(case):
    """After an epoch, topics are the sums over what is kept: nothing lags behind."""
    model = corpus(case).model
    for limits in ({}, {"max_clumps": 15}, {"memory_budget": 4000}):
        learner = ClumpedLearner(SerialEngine(), settings_of(**limits))
        state, _ = learner.learn(ClumpedState.fresh(model, 3.0), epoch_of(case))
        items = state.past.items(model)
        t = items.mass @ items.features
        assert_allclose(state.topics.t.sum(axis=0), t, rtol=1e-10, atol=1e-9)
        assert_allclose(state.topics.n.sum(), 60, rtol=1e-12)
        base = [float(case.family.log_base(part).sum()) for part in epoch_of(case).parts]
        assert state.base == sum(base)
        assert state.bound == state.topics.bound(model, state.sizes, state.base)


def test_scales_that_no_sum_can_hold_do_not_keep_it_for_ever():
    """A few points a hundred orders of magnitude away from the others."""
    rng = np.random.default_rng(0)
    case = FAMILIES[0]
    parts = [rng.normal(size=(20, 3)), 1e80 * rng.normal(size=(20, 3)), rng.normal(size=(20, 3))]
    learner = ClumpedLearner(SerialEngine(), settings_of(options={"max_topics": 200}))
    state, _ = learner.learn(ClumpedState.fresh(corpus(case).model, 0.0), Epoch(parts))
    assert np.isfinite(state.bound)
    assert len(state.topics) < 100


@every
def test_compression_looks_as_far_ahead_as_points_are_expected(case, monkeypatch):
    real, looked = Compressor.compressed, []

    def spy(self, room, copies):
        looked.append(copies)
        return real(self, room, copies)

    monkeypatch.setattr(Compressor, "compressed", spy)
    kept = []
    for expected in (None, 1e6, 30.0):
        settings = settings_of(max_clumps=12, expected_points=expected)
        learner = ClumpedLearner(SerialEngine(), settings)
        state, _ = learner.learn(ClumpedState.fresh(corpus(case).model, 3.0), epoch_of(case))
        learner.learn(state, epoch_of(case))
        kept.append(np.sort(state.past.clumps.mass))
    assert looked == [1.0, 1.0, 1e6 / 60, 1e6 / 120, 1.0, 1.0]  # never less than was seen
    assert_array_equal(kept[0], kept[2])
    assert not np.array_equal(kept[0], kept[1])


@pytest.mark.parametrize(("hope", "n_topics"), [(-np.inf, 2), (0.5, 1)])
def test_points_show_what_first_clumps_hide(hope, n_topics, monkeypatch):
    """Documents of one clump each look all alike; their points have two places."""
    monkeypatch.setattr(clumped_learner, "_PROMISING_SHARE", hope)
    case = FAMILIES[0]
    family = corpus(case).model.family
    rng = np.random.default_rng(0)
    parts = [
        rng.normal(rng.choice([-6.0, 6.0], (5001, 1)), 1.0, (5001, family.n_features))
        for _ in range(2)
    ]
    learner = ClumpedLearner(SerialEngine(), settings_of(options={"first_clumps": 1}))
    fresh = ClumpedState.fresh(corpus(case).model, 10.0)
    state, _ = learner.learn(fresh, Epoch(parts))
    assert len(state.topics) == n_topics
    assert_array_equal(np.sort(state.topics.ids), np.arange(n_topics))
