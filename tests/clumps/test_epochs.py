"""Epochs of the lifelong topic model and the search in them: moves, compression, limits."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps import search as topic_search
from everlearn.clumps.compress import Compressor
from everlearn.clumps.epochs import ClumpedLearner
from everlearn.clumps.search import TopicSearch
from everlearn.clumps.state import ClumpedState, Epoch
from everlearn.engine.local import SerialEngine
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus, dense_of
from support.clumped_data import settings_of

every = named(FAMILIES)


def epoch_of(case, n=60, n_documents=6):
    return Epoch(np.array_split(case.X[:n], n_documents))


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


def test_gains_that_do_not_come_true_end_the_search(monkeypatch):
    """Rounding can promise what the next iteration does not keep, for ever if one believes it."""
    case, real, rounds = FAMILIES[0], topic_search.propose_splits, []

    def promise(*args):
        rounds.append(1)
        found = real(*args)
        return replace(found, gains=np.full(len(found.gains), 1e6))

    model = corpus(case).model
    learner = ClumpedLearner(SerialEngine(), settings_of())
    honest, _ = learner.learn(ClumpedState.fresh(model, 20.0), epoch_of(case))
    monkeypatch.setattr(topic_search, "propose_splits", promise)
    state, _ = learner.learn(ClumpedState.fresh(model, 20.0), epoch_of(case))
    assert len(rounds) < 15
    assert len(state.topics) <= len(honest.topics) + 1
    assert np.isfinite(state.bound)


@pytest.mark.parametrize("gain", [np.nan, -np.inf])
def test_topics_are_joined_even_if_nothing_is_known_of_the_loss(gain, monkeypatch):
    case, real = FAMILIES[1], topic_search.propose_joins

    def unknown(*args):
        joins = real(*args)
        return replace(joins, gains=np.full(len(joins.gains), gain))

    free = ClumpedLearner(SerialEngine(), settings_of())
    state, _ = free.learn(ClumpedState.fresh(corpus(case).model, 1.0), epoch_of(case))
    assert len(state.topics) > 2
    monkeypatch.setattr(topic_search, "propose_joins", unknown)
    tight = ClumpedLearner(SerialEngine(), settings_of(max_clumps=2))
    small, info = tight.recompress(state)
    assert len(small.topics) <= 2
    assert info.forced_joins > 0


def test_scales_that_no_sum_can_hold_do_not_keep_it_for_ever():
    """A few points a hundred orders of magnitude away from the others."""
    rng = np.random.default_rng(0)
    case = FAMILIES[0]
    parts = [rng.normal(size=(20, 3)), 1e80 * rng.normal(size=(20, 3)), rng.normal(size=(20, 3))]
    learner = ClumpedLearner(SerialEngine(), settings_of(options={"max_topics": 200}))
    state, _ = learner.learn(ClumpedState.fresh(corpus(case).model, 0.0), Epoch(parts))
    assert np.isfinite(state.bound)
    assert len(state.topics) < 100


# Expected points


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


# The price, and joins


def search_of(c, price=0.0, iterations=20):
    """A search after some iterations, and the gain of joining each pair of its topics by (29)."""
    topics, _ = c.topics()
    search = TopicSearch(c.step, price, 100, c.sizes, c.items, topics, c.k)
    search.iterate(iterations)
    q, alpha = dense_of(search.assignment, c.k), search.topics.alpha
    with_alpha = c.step.summarize(search.topics, c.items, search.assignment)
    search.topics, before = with_alpha, -c.oracle.free_energy(q, alpha)
    gains = {}
    for j, k in combinations(range(c.k), 2):
        both = np.delete(q, k, axis=1)
        both[:, j] += q[:, k]
        joined = np.delete(alpha, k)
        joined[j] += alpha[k]
        gains[j, k] = -c.oracle.free_energy(both, joined) - before
    return search, gains


@every
def test_topics_worth_less_than_the_price_are_joined_and_others_stay(case):
    c = corpus(case, tied=False, n=60, k=2)
    worth = -search_of(c)[1][0, 1]
    assert worth > 1.0
    for price, left in ((0.9 * worth, 2), (1.1 * worth, 1)):
        search, _ = search_of(c, price)
        assert search.move(np.empty(0, np.int64)) == (left == 1)
        assert len(search.topics) == left


@every
def test_forced_joins_are_of_the_pair_that_loses_least(case, monkeypatch):
    c = corpus(case, n=60, k=5)
    search, gains = search_of(c, iterations=3)
    first, second = sorted(gains, key=gains.__getitem__, reverse=True)[:2]
    assert gains[first] > gains[second] + 1e-3
    before, old = c.bound(search.topics), search.topics
    monkeypatch.setattr(TopicSearch, "iterate", lambda self, most: None)
    assert search.force_joins(1) == 1
    assert_allclose(c.bound(search.topics) - before, gains[first], atol=1e-9 * abs(before))
    gone = set(old.ids.tolist()) - set(search.topics.ids.tolist())
    assert gone == {int(old.ids[min(first, key=lambda k: old.n[k])])}
