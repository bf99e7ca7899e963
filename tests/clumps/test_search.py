"""The search for topics: rounds of splits and joins, the price of a topic, forced joins."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps import search as topic_search
from everlearn.clumps.epochs import ClumpedLearner
from everlearn.clumps.merges import apply_joins
from everlearn.clumps.search import TopicSearch, choose_disjoint
from everlearn.clumps.splits import apply_splits
from everlearn.clumps.state import ClumpedState
from everlearn.engine.local import SerialEngine
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus, dense_of, epoch_of, joins_of, settled, splits_of
from support.clumped_data import settings_of, taught

every = named(FAMILIES)


@every
def test_disjoint_moves_add_up(case):
    """All moves of a round are judged alone and made together."""
    c = corpus(case, n=60, k=6)
    topics, found = settled(c)
    splits, joins = splits_of(c, topics, found), joins_of(c, topics, found)
    pairs = list(zip(joins.first.tolist(), joins.second.tolist(), strict=True))
    net = np.concatenate([joins.gains + 1e6, splits.gains + 1e6])  # all of them are welcome
    moves = [*pairs, *((k,) for k in splits.chosen.tolist())]
    chosen = choose_disjoint(net, moves, 0.0)
    touched = [t for i in chosen for t in moves[i]]
    assert len(touched) == len(set(touched))
    divided = [i - len(pairs) for i in chosen if i >= len(pairs)]
    joined = [i for i in chosen if i < len(pairs)]
    after = apply_joins(apply_splits(topics, splits, divided, 6), joins, joined)
    gain = splits.gains[divided].sum() + joins.gains[joined].sum()
    before = c.bound(topics)
    assert_allclose(c.bound(after) - before, gain, atol=1e-9 * abs(before))
    assert_allclose(after.counts.sum(), len(c.oracle.X), rtol=1e-12)


def test_moves_of_a_round_share_no_topic():
    net, touched = np.array([5.0, 1.0, 9.0, 8.0, 7.0]), [(0, 1), (1, 2), (0,), (1,), (2,)]
    assert choose_disjoint(net, touched, 0.0) == [2, 3, 4]
    assert choose_disjoint(net[:3], touched[:3], 0.0) == [2, 1]
    assert choose_disjoint(net, touched, 10.0) == []
    assert choose_disjoint(np.array([np.nan, -np.inf, 1.0]), [(0, 1), (2,), (0,)], 0.0) == [2]


@every
def test_moves_leave_topics_as_they_were(case):
    c = corpus(case, n=60, k=4)
    topics, found = settled(c)
    copy = [a.copy() for a in (topics.n, topics.t, topics.counts, topics.alpha)]
    splits, joins = splits_of(c, topics, found), joins_of(c, topics, found)
    apply_splits(topics, splits, [0, 2], 4)
    apply_joins(topics, joins, [0])
    for old, now in zip(copy, (topics.n, topics.t, topics.counts, topics.alpha), strict=True):
        assert_array_equal(old, now)


@every
def test_an_empty_topic_is_no_obstacle(case):
    """n = 0: its halves are empty, and joining it with another costs nothing."""
    c = corpus(case, n=60, k=4)
    topics, found = settled(c)
    wide = replace(c, k=5)
    q = np.column_stack([dense_of(found, 4), np.zeros(len(c.items))])
    topics = wide.of(q, np.append(topics.alpha, 1e-10))
    splits, joins = splits_of(wide, topics, found), joins_of(wide, topics, found)
    assert 4 not in splits.chosen
    assert not np.isnan(splits.gains).any()
    assert np.isfinite(joins.gains).all()
    assert (joins.second == 4).any()
    assert_allclose(joins.gains[joins.second == 4], 0.0, atol=1e-6)


@every
def test_one_topic_has_no_partner(case):
    c = corpus(case, k=1)
    topics, found = settled(c)
    assert len(joins_of(c, topics, found).gains) == 0
    assert np.isfinite(splits_of(c, topics, found).gains).all()


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


@every
def test_bounds_do_not_fall_while_an_epoch_is_built(case, monkeypatch):
    """Iterations on the same items and topics only ever raise the bound."""
    real, falls = TopicSearch.iterate, []

    def spy(self, most, least_gain=0.0):
        for _ in range(most):
            before, k = self.bound, len(self.topics)
            counted = self.topics
            real(self, 1)
            if np.isclose(counted.n.sum(), self.items.mass.sum()) and k == len(self.topics):
                falls.append((before - self.bound) / abs(self.bound))

    monkeypatch.setattr(TopicSearch, "iterate", spy)
    taught(case.name, max_clumps=None, memory_budget=None)
    assert len(falls) > 5
    assert max(falls) <= 1e-9
