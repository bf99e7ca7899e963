"""What tying points costs, and how compression goes by it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from everlearn.clumps.budget import KeepLimits
from everlearn.clumps.compress import Compressor, StorageRoom
from everlearn.clumps.partition import Refiner, Tying, location, principal_axes
from oracles.cases import named
from oracles.clumped import log_base
from oracles.clumped_runs import FAMILIES, corpus, settled

every = named(FAMILIES)


def tying_of(c, topics):
    return Tying.of(c.model, topics, c.sizes, c.items)


def compressed(c, most):
    """Leaves, and the beliefs at which they were found."""
    topics, found = settled(c)
    family = c.case.family
    prices = KeepLimits(max_items=most).prices(family.n_stats, family.n_features)
    room = StorageRoom(prices, np.inf, most)
    leaves = Compressor.of(c.model, topics, c.sizes, c.items, found).compressed(room, 1.0)
    return leaves, tying_of(c, topics)


@every
def test_worth_is_the_log_normalizer_of_all_points(case):
    c = corpus(case)
    topics, q = c.topics()
    o = c.oracle
    scores = o.scores(o.topics(q), o.mixtures(q, topics.alpha))
    base = [sum(log_base(o.family, o.X[i]) for i in o.points(k)) for k in range(o.n_clumps)]
    own = np.arange(len(c.items), dtype=np.int32)
    want = c.items.mass * logsumexp(scores, axis=1) - base
    assert_allclose(tying_of(c, topics).worth(own, len(own)), want, rtol=1e-8)


@every
@given(st.integers(0, 1000), st.integers(1, 8))
def test_sharing_topics_never_gains(case, seed, n_sets):
    c = corpus(case, seed=seed)
    tying = tying_of(c, c.topics(seed)[0])
    rng = np.random.default_rng(seed)
    sets = np.concatenate([np.arange(n_sets), rng.integers(0, n_sets, len(c.items))])
    sets = sets[: len(c.items)].astype(np.int32)
    own = np.arange(len(c.items), dtype=np.int32)
    apart = np.bincount(sets, tying.worth(own, len(own)))
    together = tying.worth(sets, int(sets.max()) + 1)
    assert (together <= apart + 1e-9 * np.abs(apart)).all()


@every
def test_leaves_know_what_they_are_worth(case):
    leaves, tying = compressed(corpus(case, tied=False, n=60), 25)
    assert len(leaves) == 25
    assert_allclose(leaves.facts.tied, tying.worth(leaves.of, 25), rtol=1e-12)


@every
def test_documents_stay_apart_where_there_is_room(case):
    c = corpus(case, tied=False, n=60, n_documents=3, k=1)
    leaves, _ = compressed(c, 7)
    assert len(leaves) == 7
    for leaf in range(7):
        assert len(np.unique(c.items.groups[leaves.of == leaf])) == 1


@every
def test_no_known_division_loses_more_than_that_along_the_widest_direction(case):
    gained = []
    for seed in range(8):
        c = corpus(case, tied=False, n=60, seed=seed, k=7)  # too many: they share points
        leaves, tying = compressed(c, 7)
        found = []
        for how in (tying, None):
            leaves.gain[:] = np.where(leaves.facts.size > 1, np.nan, -np.inf)
            Refiner(c.model, c.items, c.sizes, tying=how)._find_divisions(leaves)
            _, halves = np.unique(2 * leaves.of + leaves.side, return_inverse=True)
            found.append(tying.worth(halves.astype(np.int32), int(halves.max()) + 1).sum())
        gained.append(found[0] - found[1])
    assert np.min(gained) > -1e-9
    assert np.max(gained) > 1e-3


@every
def test_divisions_gain_what_the_magnified_bound_gains(case):
    """M10 for leaves: a division's gain is that of two hard topics for one."""
    c = corpus(case, tied=True, n=60)
    leaves, _ = compressed(c, 3.0)
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
