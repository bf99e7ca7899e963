"""Splits of topics: gains are differences of the bound, to the last nat (M7)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.splits import apply_splits, propose_splits
from everlearn.engine.local import SerialEngine
from everlearn.engine.opening import open_engine
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus, joins_of, settled, splits_of

every = named(FAMILIES)
FEW = settings(max_examples=max(5, settings.default.max_examples // 4))


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
