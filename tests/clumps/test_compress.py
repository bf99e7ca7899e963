"""What is kept of items within a limit on bytes or leaves, and the first clumps of documents."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.budget import KeepLimits
from everlearn.clumps.compress import (
    Compressor,
    StoragePrices,
    StorageRoom,
    first_clumps,
    kept_clumps,
)
from everlearn.clumps.items import clumped
from everlearn.clumps.partition import LeafFacts
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus, settled

every = named(FAMILIES)


def compressed(c, limits, copies=1.0):
    """Leaves that fit, and the room they had."""
    topics, found = settled(c, steps=1)
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
def test_first_clumps_are_within_documents(case):
    c = corpus(case, tied=False, n=60, n_documents=4)
    documents = c.oracle.document.astype(np.int32)
    clumps = first_clumps(c.model, c.items, documents, 5)
    assert (np.diff(clumps.starts) == 1).all()
    assert (np.bincount(clumps.groups) <= 5).all()
    assert_array_equal(np.bincount(clumps.groups, clumps.counts), np.bincount(documents))
    one = first_clumps(c.model, c.items, documents, 1)
    assert len(one) == 4


def test_a_leaf_is_kept_as_points_where_that_is_cheaper():
    """A clump has 8 bytes for each statistic, its mass and start, and 12 for each group."""
    prices = StoragePrices.of(9, 3, singles=True)
    assert (prices.clump, prices.single) == (8 * 11, 8 * 3 + 4)
    facts = LeafFacts(
        n=np.array([1.0, 3.0, 4.0, 3.0, 40.0]),
        t=np.zeros((5, 9)),
        span=np.array([1, 1, 1, 2, 30]),
        size=np.array([1, 3, 4, 3, 40]),
        clumps=np.array([0, 0, 0, 1, 0]),
        alpha=np.ones(5),
        term=np.zeros(5),
        tied=np.zeros(5),
    )
    # 3 points take 84 bytes, a clump of one group 100; 4 points take 112. A clump stays one.
    assert_array_equal(prices.as_singles(facts), [True, True, False, False, False])
    assert_array_equal(prices.leaf(facts), [28, 84, 100, 112, 88 + 360])
    counted = StoragePrices.of(9, 3, singles=False)
    assert_array_equal(counted.as_singles(facts), [True, False, False, False, False])
    assert_array_equal(counted.leaf(facts), [28, 100, 100, 112, 448])


def test_room_is_taken_until_there_is_none():
    room = StorageRoom(StoragePrices.of(9, 3, singles=True), 100.0, 2.0)
    assert not room.take(0, 101.0)
    assert (room.free_bytes, room.free_leaves) == (100.0, 2.0)  # what is refused takes nothing
    assert room.take(0, 100.0)
    assert room.take(0, -10.0)  # two halves may be cheaper than the whole
    assert not room.take(0, 0.0)  # no leaf is left
    assert (room.free_bytes, room.free_leaves) == (10.0, 0.0)
