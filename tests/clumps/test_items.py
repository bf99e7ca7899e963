"""Items: clumps of clumps, parts and wholes, and groups that were merged."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.items import Items, clumped, joined, regrouped
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus

every = named(FAMILIES)


def same(one, two):
    for name in ("features", "mass", "starts", "groups", "counts"):
        assert_array_equal(getattr(one, name), getattr(two, name))


@every
@given(st.integers(0, 1000), st.integers(1, 8))
def test_clumps_of_clumps_are_clumps_of_points(case, seed, n_leaves):
    c = corpus(case, seed=seed)
    rng = np.random.default_rng(seed)
    leaf = np.concatenate([np.arange(n_leaves), rng.integers(0, n_leaves, len(c.items))])
    leaf = leaf[: len(c.items)].astype(np.int32)
    n_leaves = int(leaf.max()) + 1
    twice = clumped(c.items, leaf, n_leaves)
    features = np.ascontiguousarray(case.family.features(c.oracle.X))
    points = Items.points(features, c.oracle.group[c.oracle.document].astype(np.int32))
    once = clumped(points, leaf[c.oracle.clump], n_leaves)
    for name in ("mass", "starts", "groups", "counts"):
        assert_array_equal(getattr(twice, name), getattr(once, name))
    assert_allclose(twice.features, once.features, rtol=1e-12, atol=1e-12)
    assert twice.groups.dtype == np.int32
    assert twice.starts.dtype == np.int64


@every
def test_parts_and_wholes(case):
    c = corpus(case)
    n = len(c.items)
    same(joined([c.items]), c.items)
    none = c.items[:0]
    assert len(none) == 0
    same(joined([none, c.items, none]), c.items)
    same(c.items[:n], c.items)
    twice = joined([c.items, c.items])
    same(twice[:n], c.items)
    assert_array_equal(np.diff(twice.starts), np.tile(np.diff(c.items.starts), 2))
    same(joined([c.items, c.items], twice.features), twice)
    arrays = (c.items.features, c.items.mass, c.items.starts, c.items.groups, c.items.counts)
    assert c.items.nbytes == sum(a.nbytes for a in arrays)


@every
def test_regrouping_moves_points_and_loses_none(case):
    c = corpus(case, n_groups=3)
    after = regrouped(c.items, np.array([0, 0, 1]))
    assert after.counts.sum() == c.items.counts.sum()
    before = np.bincount(c.items.groups, c.items.counts)
    want = [before[0] + before[1], before[2]]
    assert_array_equal(np.bincount(after.groups, after.counts), want)
    assert_array_equal(np.add.reduceat(after.counts, after.starts[:-1]), c.items.mass)
    same(regrouped(c.items, np.arange(3)), c.items)
