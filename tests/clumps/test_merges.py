"""Splits and joins of topics: gains are differences of the bound, to the last nat (M7)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.merges import apply_joins, propose_joins
from everlearn.clumps.search import choose_disjoint
from everlearn.clumps.splits import apply_splits, propose_splits
from everlearn.engine.local import SerialEngine
from everlearn.engine.opening import open_engine
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus, dense_of

every = named(FAMILIES)
FEW = settings(max_examples=max(5, settings.default.max_examples // 4))


def settled(c, seed=0, steps=3):
    """Topics and the assignments whose sums they are."""
    topics, _ = c.topics(seed)
    for _ in range(steps):
        topics, found = c.step.iterate(topics, c.sizes, c.items)
    return topics, found


def splits_of(c, topics, found):
    every_topic = np.arange(len(topics))
    return propose_splits(c.model, SerialEngine(), topics, c.sizes, c.items, found, every_topic)


def joins_of(c, topics, found):
    return propose_joins(c.model, topics, c.sizes, c.items, found)


@every
@FEW
@given(st.integers(0, 1000), st.booleans(), st.integers(1, 5), st.integers(0, 3))
def test_m7_split_gains_are_what_the_bound_gains(case, seed, tied, k, steps):
    c = corpus(case, tied=tied, n=60, k=k, seed=seed)
    topics, found = settled(c, seed, steps + 1)
    before, proposals = c.bound(topics), splits_of(c, topics, found)
    finite = range(len(proposals.gains))
    for where in [[i] for i in finite] + [[*finite]]:
        after = apply_splits(topics, proposals, where, next_id=10)
        gain = proposals.gains[where].sum()
        assert_allclose(c.bound(after) - before, gain, atol=1e-9 * max(1.0, abs(before)))
        assert len(after) == len(topics) + len(where)
        assert_array_equal(after.ids, [*range(k), *range(10, 10 + len(where))])
        assert_allclose(after.n.sum(), topics.n.sum(), rtol=1e-12)
        assert_allclose(after.t.sum(axis=0), topics.t.sum(axis=0), rtol=1e-9, atol=1e-9)
        assert_allclose(after.alpha.sum(), topics.alpha.sum(), rtol=1e-12)
        assert (after.alpha > 0).all()
        assert (after.n[k:] <= after.n[proposals.chosen[where]] + 1e-9).all()


@every
@FEW
@given(st.integers(0, 1000), st.booleans(), st.integers(2, 7), st.integers(0, 3))
def test_m7_join_gains_are_what_the_bound_gains(case, seed, tied, k, steps):
    c = corpus(case, tied=tied, n=60, k=k, seed=seed)
    topics, found = settled(c, seed, steps + 1)
    before, proposals = c.bound(topics), joins_of(c, topics, found)
    q = dense_of(found, k)
    for i, (j, m) in enumerate(zip(proposals.first, proposals.second, strict=True)):
        after = apply_joins(topics, proposals, [i])
        gain = proposals.gains[i]
        assert_allclose(c.bound(after) - before, gain, atol=1e-9 * max(1.0, abs(before)))
        both = q.copy()
        both[:, j] += both[:, m]
        stay = [x for x in range(k) if x != (j if topics.n[j] < topics.n[m] else m)]
        if topics.n[j] < topics.n[m]:
            both[:, m] = both[:, j]
        alpha = topics.alpha.copy()
        alpha[[j, m]] = topics.alpha[j] + topics.alpha[m]
        want = -c.oracle.free_energy(both[:, stay], alpha[stay])
        assert_allclose(c.bound(after), want, rtol=1e-9)
        assert_array_equal(after.ids, np.array(stay))


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
def test_some_topics_are_divided_as_all_are(case):
    c = corpus(case, n=60, k=5)
    topics, found = settled(c)
    together = splits_of(c, topics, found)
    given = (c.model, SerialEngine(), topics, c.sizes, c.items, found)
    some = propose_splits(*given, together.chosen[1:])
    assert_array_equal(some.chosen, together.chosen[1:])
    assert_allclose(some.gains, together.gains[1:], rtol=1e-12)
    best = together.gains.max()
    good = propose_splits(*given, np.arange(5), np.nextafter(best, -np.inf))
    assert_array_equal(good.chosen, together.chosen[together.gains == best])
    assert len(propose_splits(*given, np.arange(0)).gains) == 0


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
def test_splits_do_not_depend_on_threads(case):
    c = corpus(case, n=60, k=7)
    topics, found = settled(c)
    alone = splits_of(c, topics, found)
    with open_engine("threads") as engine:
        given = (c.model, engine, topics, c.sizes, c.items, found)
        both = propose_splits(*given, np.arange(len(topics)))
    assert_array_equal(alone.gains, both.gains)
    assert_array_equal(alone.halves.t, both.halves.t)


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


@every
def test_equal_items_cannot_be_divided_for_a_gain(case):
    c = corpus(case, tied=False, n=20, n_documents=1, k=1)
    features = np.tile(c.items.features[:1], (20, 1))
    c = replace(c, items=replace(c.items, features=features))
    topics, found = settled(c)
    gains = splits_of(c, topics, found).gains
    assert (gains <= 1e-6).all()


@every
def test_lopsided_halves_keep_alpha_positive(case):
    """A half so small that its share of the points rounds to nothing."""
    c = corpus(case, n=60, k=2)
    topics, found = settled(c)
    splits = splits_of(c, topics, found)
    tiny = replace(splits.halves, n=np.array([1e-18, topics.n[1]]))
    after = apply_splits(topics, replace(splits, halves=tiny), [0, 1], 2)
    assert (after.alpha > 0).all()
    assert np.isfinite(c.model.dirichlet.expected_log(after.alpha, after.counts, c.sizes)).all()


@pytest.mark.parametrize("offset", [0.0, 1e6])
@named(FAMILIES[:2])
def test_halves_of_far_away_points_are_possible(case, offset):
    """Points far from the origin of the moments: what is left of a topic may not be sound."""
    c = corpus(case, n=60, k=3)
    X = c.oracle.X + offset
    features = np.ascontiguousarray(case.family.features(X))
    groups = c.oracle.group[c.oracle.document].astype(np.int32)
    c = replace(c, items=type(c.items).points(features, groups))
    topics, found = settled(c)
    splits, joins = splits_of(c, topics, found), joins_of(c, topics, found)
    assert not np.isnan(splits.gains).any()
    assert np.isfinite(joins.gains).all()
    best = int(np.argmax(splits.gains))
    after = apply_splits(topics, splits, [best], 3)
    after, _ = c.step.iterate(after, c.sizes, c.items)
    assert np.isfinite(c.bound(after))
