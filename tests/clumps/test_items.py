"""Items, their partition into leaves, and what is kept of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.budget import KeepLimits
from everlearn.clumps.compress import Compressor, StorageRoom, first_clumps, kept_clumps
from everlearn.clumps.items import Items, clumped, joined, regrouped
from everlearn.clumps.merges import merge_groups, merge_loss
from everlearn.clumps.partition import Refiner, location, principal_axes
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


def compressed(c, limits, copies=1.0):
    """Leaves that fit, and the room they had."""
    topics, _ = c.topics()
    topics, found = c.step.iterate(topics, c.sizes, c.items)
    family = c.case.family
    prices = limits.prices(family.n_stats, family.n_features)
    room = StorageRoom(
        prices,
        limits.item_bytes(c.model, len(topics), len(c.sizes)),
        limits.items_within(len(topics)),
    )
    leaves = Compressor.of(c.model, topics, c.sizes, c.items, found).compressed(room, copies)
    return leaves, room, found


@every
@given(st.integers(2000, 12_000), st.booleans(), st.sampled_from([3.0, 9.0, np.inf]),
       st.integers(0, 100), st.sampled_from([1.0, 50.0]))  # fmt: skip
def test_bytes_as_charged_are_bytes_as_kept(case, budget, tied, most, seed, copies):
    c = corpus(case, tied=tied, n=60, n_documents=8, seed=seed)
    leaves, room, _ = compressed(c, KeepLimits(budget, most), copies)
    numbers, n_leaves = kept_clumps(leaves, room.prices)
    alone = numbers < 0
    clumps = clumped(c.items, numbers, n_leaves)
    n_single = int(alone.sum())
    assert (c.items.mass[alone] == 1).all()
    held = clumps.nbytes + n_single * (8 * case.family.n_features + 4)
    assert held == room.prices.leaf(leaves.facts).sum() + 8
    if room.prices.leaf(leaves.facts).sum() > room.free_bytes:  # topics alone are too many
        assert len(leaves) <= 3
    if most < np.inf:
        assert n_leaves + n_single == len(leaves) <= max(most, 3)
    for leaf in range(len(leaves)):  # facts that were updated along the way
        inside = leaves.of == leaf
        assert leaves.facts.size[leaf] == inside.sum()
        assert leaves.facts.n[leaf] == c.items.mass[inside].sum()
        assert leaves.facts.clumps[leaf] == (c.items.mass[inside] > 1).sum()
        entries = np.repeat(inside, np.diff(c.items.starts))
        assert leaves.facts.span[leaf] == len(np.unique(c.items.groups[entries]))
        want = c.items.mass[inside] @ c.items.features[inside]
        assert_allclose(leaves.facts.t[leaf], want, rtol=1e-8, atol=1e-8)


@every
def test_all_the_room_is_used(case):
    c = corpus(case, tied=False, n=60)
    for most in (5, 12, 40):
        leaves, _, found = compressed(c, KeepLimits(max_items=float(most)))
        assert len(leaves) == most
        best = found.topics[:, 0]
        for leaf in range(most):  # leaves never cross topics
            assert len(np.unique(best[leaves.of == leaf])) == 1
    leaves, _, _ = compressed(c, KeepLimits(max_items=1000.0))
    assert len(leaves) == 60


@every
def test_divisions_gain_what_the_magnified_bound_gains(case):
    """M10 for leaves: a division's gain is that of two hard topics for one."""
    c = corpus(case, tied=True, n=60)
    leaves, _, _ = compressed(c, KeepLimits(max_items=3.0))
    for copies in (1.0, 7.0):
        leaves.gain[:] = np.where(leaves.facts.size > 1, np.nan, -np.inf)
        Refiner(c.model, c.items, c.sizes, copies)._find_divisions(leaves)
        q = np.eye(len(leaves))[leaves.of]
        o = c.oracle
        before = o.free_energy(q, leaves.facts.alpha, copies, copies, base=False)
        for leaf in np.flatnonzero(np.isfinite(leaves.gain)):
            moved = (leaves.of == leaf) & (leaves.side == 1)
            split = np.column_stack([q * ~moved[:, None], moved])
            alpha = np.append(leaves.facts.alpha, leaves.upper.alpha[leaf])
            alpha[leaf] = leaves.lower.alpha[leaf]
            after = o.free_energy(split, alpha, copies, copies, base=False)
            assert_allclose(leaves.gain[leaf], before - after, atol=1e-8 * abs(before))


@every
def test_first_clumps_are_within_documents(case):
    c = corpus(case, tied=False, n=60, n_documents=4)
    documents = c.oracle.document.astype(np.int32)
    clumps = first_clumps(c.model, c.items, documents, 5)
    assert (np.diff(clumps.starts) == 1).all()
    assert (np.bincount(clumps.groups) <= 5).all()
    assert_array_equal(np.bincount(clumps.groups, clumps.counts), np.bincount(documents))
    one = first_clumps(c.model, c.items, documents, 1)
    assert len(one) == 4


@every
def test_axes_are_the_widest_directions(case):
    c = corpus(case, tied=False, n=60, n_documents=1, k=1)
    topics, _ = c.topics()
    every_item = (np.array([0, 60]), np.arange(60, dtype=np.int32), np.ones(60))
    axes = principal_axes(case.family, topics.n, topics.t, c.items, every_item, 3)
    place = location(case.family)
    x = c.items.features[:, place]
    assert_allclose(x - x[0], c.oracle.X - c.oracle.X[0], atol=1e-12)
    outside = np.ones(case.family.n_stats, bool)
    outside[place] = False
    assert not axes[:, 0, outside].any()
    vectors = axes[:, 0, place]
    assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-9)
    spread = ((x - x.mean(axis=0)) @ vectors.T).var(axis=0)
    largest = np.linalg.eigvalsh(np.cov(x.T, bias=True))[-1]
    assert spread[0] > 0.9 * largest


@given(st.integers(0, 1000), st.integers(2, 12), st.sampled_from(["cosine", "free-energy"]))
def test_merged_groups(seed, n_groups, criterion):
    c = corpus(FAMILIES[1], n=40, n_documents=max(n_groups, 4), n_groups=n_groups, seed=seed)
    topics, _ = c.topics(seed)
    n_groups = len(c.sizes)
    for most in range(1, n_groups + 1):
        into = merge_groups(topics, c.sizes, most, criterion)
        assert len(np.unique(into)) == into.max() + 1 == most
        first = np.unique(into, return_index=True)[1]
        assert (np.diff(first) > 0).all()
    into = merge_groups(topics, c.sizes, n_groups - 1, criterion)
    (pair,) = (np.flatnonzero(into == g) for g in range(n_groups - 1) if (into == g).sum() == 2)
    one, two = np.triu_indices(n_groups, 1)
    if criterion == "free-energy" and n_groups <= 10:
        losses = merge_loss(topics.alpha, topics.counts, c.sizes, one, two)
        best = losses.argmin()
        assert_array_equal(pair, [one[best], two[best]])
    elif criterion == "cosine":  # (27)
        zeta = topics.alpha + topics.counts / c.sizes[:, None]
        mean = zeta / zeta.sum(axis=1, keepdims=True)
        unit = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        score = np.einsum("sk,sk->s", unit[one], unit[two])
        assert score[(one == pair[0]) & (two == pair[1])] >= score.max() - 1e-12
