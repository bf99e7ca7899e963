"""Bounds and updates of topic models over clumps, against the equations one by one.

M1 to M14 are the laws of the specification that a memory-bounded topic model must keep.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.items import Items, clumped
from everlearn.clumps.local import ClumpStep
from everlearn.clumps.merges import merge_loss
from everlearn.core.priors.learned_dirichlet import GroupCounts, LearnedDirichlet
from everlearn.engine.local import SerialEngine
from everlearn.engine.opening import open_engine
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, TIGHT, corpus, dense_of, not_lower

every = named(FAMILIES)
tied = pytest.mark.parametrize("tied", [False, True], ids=["points", "clumps"])
FEW = settings(max_examples=max(5, settings.default.max_examples // 4))


# The oracle against itself: the printed form and the definition


@every
def test_printed_free_energy_and_slack_are_the_definition(case):
    c = corpus(case, n=15)
    rng = np.random.default_rng(0)
    _, q = c.topics(1)
    other = rng.dirichlet(np.ones(c.k), len(q))
    alpha = rng.gamma(1.0, 1.0, c.k)
    xi, zeta = c.oracle.topics(other), c.oracle.mixtures(other, alpha + 0.3)
    anywhere = c.oracle.free_energy_at(q, xi, zeta, alpha)
    printed = c.oracle.printed(q, xi, zeta, alpha) + c.oracle.slack(q, xi, zeta, alpha)
    assert_allclose(printed, anywhere, rtol=1e-10)
    xi, zeta = c.oracle.topics(q), c.oracle.mixtures(q, alpha)
    best = c.oracle.free_energy_at(q, xi, zeta, alpha)
    assert_allclose(c.oracle.slack(q, xi, zeta, alpha), 0.0, atol=1e-8)
    assert_allclose(best, c.oracle.free_energy(q, alpha), rtol=1e-10)
    assert best <= anywhere + 1e-9


# The library against the oracle


@every
@tied
def test_bound_is_the_free_energy(case, tied):
    c = corpus(case, tied=tied)
    topics, q = c.topics()
    assert_allclose(c.bound(topics), -c.oracle.free_energy(q, topics.alpha), rtol=1e-10)


@every
@tied
def test_statistics_are_the_sums(case, tied):
    c = corpus(case, tied=tied)
    topics, q = c.topics()
    assert_allclose(topics.counts, c.oracle.group_counts(q), rtol=1e-12, atol=1e-13)
    assert_allclose(topics.n, c.oracle.group_counts(q).sum(axis=0), rtol=1e-12)
    want = q[c.oracle.clump].T @ case.family.features(c.oracle.X)
    assert_allclose(topics.t, want, rtol=1e-10, atol=1e-10)


@every
@tied
def test_assignments_are_those_of_equation_21(case, tied):
    c = corpus(case, tied=tied)
    topics, q = c.topics()
    found = c.step.assign(topics, c.sizes, c.items)
    xi, zeta = c.oracle.topics(q), c.oracle.mixtures(q, topics.alpha)
    scores = c.oracle.scores(xi, zeta)
    assert_allclose(dense_of(found, c.k), c.oracle.assignments(xi, zeta), atol=1e-9)
    base = np.array([case.family.log_base(c.oracle.X[c.oracle.points(i)]).mean()
                     for i in range(len(scores))])  # fmt: skip
    want = np.logaddexp.reduce(scores, axis=1) - base
    assert_allclose(found.log_norm, want, rtol=1e-9, atol=1e-9)
    assert (np.diff(found.shares, axis=1) <= 0).all()


@every
@tied
def test_alpha_steps_are_those_of_the_equations(case, tied):
    c = corpus(case, tied=tied)
    topics, q = c.topics()
    N, entries = c.oracle.group_counts(q), GroupCounts.of(topics.counts, c.sizes)
    prior = c.model.dirichlet
    assert_allclose(prior.bound(topics.alpha, entries), c.oracle.alpha_objective(topics.alpha, N))
    for copies in (1.0, 4.0):
        for safe in (False, True):
            want = topics.alpha
            for _ in range(5):
                want = c.oracle.alpha_step(want, N, copies, safe=safe)
            got = prior._steps(topics.alpha, entries, copies, safe=safe)
            assert_allclose(got, want, rtol=1e-9)


# M1


@every
@tied
@given(st.lists(st.sampled_from(["assign", "alpha"]), max_size=8), st.integers(0, 10_000))
def test_m1_no_update_ever_lowers_the_bound(case, tied, order, seed):
    """Any order: topics and mixtures are optimal for the assignments whenever these are summed."""
    c = corpus(case, tied=tied, seed=seed % 3)
    topics, _ = c.topics(seed)
    before = c.bound(topics)
    for update in order:
        if update == "assign":
            topics = c.step.summarize(topics, c.items, c.step.assign(topics, c.sizes, c.items))
        else:
            topics = topics.with_better_alpha(c.model, c.sizes)
        after = c.bound(topics)
        assert not_lower(after, before)
        before = after


@every
@FEW
@given(st.permutations(["q", "xi", "zeta"]), st.integers(0, 100))
def test_m1_the_definition_never_rises_in_any_order(case, order, seed):
    """The same for the oracle's updates one by one, with beliefs that lag behind."""
    c = corpus(case, n=12, n_documents=4, seed=seed)
    topics, q = c.topics(seed)
    alpha = topics.alpha
    xi, zeta = c.oracle.topics(q[::-1]), c.oracle.mixtures(q[::-1], alpha)
    before = c.oracle.free_energy_at(q, xi, zeta, alpha)
    for update in (*order, *order[:2]):
        if update == "q":
            q = c.oracle.assignments(xi, zeta)
        elif update == "xi":
            xi = c.oracle.topics(q)
        elif update == "zeta":
            zeta = c.oracle.mixtures(q, alpha)
        after = c.oracle.free_energy_at(q, xi, zeta, alpha)
        assert after <= before + TIGHT * abs(before)
        before = after


@every
def test_m1_many_topics_are_cut_to_eight(case):
    """Assignments among the best few of many topics do not lower the bound either."""
    c = corpus(case, k=14, n=60)
    rng = np.random.default_rng(0)
    q = np.zeros((len(c.items), c.k))
    for row in q:  # at most eight topics an item, as iterations leave them
        row[rng.choice(c.k, 8, replace=False)] = rng.dirichlet(np.ones(8))
    topics = c.of(q, np.full(c.k, 0.3))
    before = c.bound(topics)
    for _ in range(12):
        topics, found = c.step.iterate(topics, c.sizes, c.items)
        assert found.topics.shape[1] == 8
        assert_allclose(found.shares.sum(axis=1), 1.0, rtol=1e-12)
        assert not_lower(c.bound(topics), before)
        before = c.bound(topics)


# M2 and M13


@every
def test_m2_clumps_of_one_point_are_points(case):
    c = corpus(case, tied=False)
    order = np.arange(len(c.items), dtype=np.int32)
    alone = clumped(c.items, order, len(order))
    for name in ("features", "mass", "starts", "groups", "counts"):
        assert_array_equal(getattr(alone, name), getattr(c.items, name))
    topics, _ = c.topics()
    other = replace(c, items=alone)
    for _ in range(4):
        one, found = c.step.iterate(topics, c.sizes, c.items)
        two, same = other.step.iterate(topics, c.sizes, alone)
        assert_allclose(two.t, one.t, rtol=1e-12)
        assert_allclose(two.alpha, one.alpha, rtol=1e-12)
        assert_allclose(same.shares, found.shares, atol=1e-12)
        assert_allclose(other.bound(two), c.bound(one), rtol=1e-12)
        topics = one


@every
def test_m13_a_clump_scores_as_the_mean_of_its_points(case):
    c = corpus(case, tied=True)
    q = case.family.posterior(*_sums(c))
    eta, constant = case.family.natural(q)
    points = case.family.features(c.oracle.X) @ eta.T + constant
    clumps = c.items.features @ eta.T + constant
    for i in range(len(clumps)):
        assert_allclose(clumps[i], points[c.oracle.points(i)].mean(axis=0), rtol=1e-10, atol=1e-9)


def _sums(c):
    topics, _ = c.topics()
    return topics.n, topics.t


# M3


@every
@given(st.integers(0, 1000))
def test_m3_tying_loosens_at_fixed_beliefs(case, seed):
    """min over shared q of F >= min over free q, beliefs of topics and mixtures fixed."""
    c = corpus(case, tied=True, seed=seed)
    topics, _ = c.topics(seed)
    found = c.step.assign(topics, c.sizes, c.items)
    groups = c.oracle.group[c.oracle.document].astype(np.int32)
    free = Items.points(np.ascontiguousarray(case.family.features(c.oracle.X)), groups)
    loose = c.step.assign(topics, c.sizes, free)
    together, apart = c.items.mass @ found.log_norm, loose.log_norm.sum()
    assert together <= apart + TIGHT * abs(apart)


@every
def test_m3_equal_points_of_a_group_lose_nothing(case):
    X = np.repeat(case.X[:6], 4, axis=0)
    groups = np.repeat(np.arange(3, dtype=np.int32), 8)
    points = Items.points(np.ascontiguousarray(case.family.features(X)), groups)
    items = clumped(points, np.repeat(np.arange(6, dtype=np.int32), 4), 6)
    c = replace(corpus(case), items=items, sizes=np.ones(3))
    topics, _ = c.topics()
    found = c.step.assign(topics, c.sizes, items)
    free = c.step.assign(topics, c.sizes, points)
    assert_allclose(items.mass @ found.log_norm, free.log_norm.sum(), rtol=1e-12)


@given(st.integers(1, 6), st.integers(2, 8), st.integers(0, 10_000))
def test_m3_merging_groups_loses(k, n_groups, seed):
    rng = np.random.default_rng(seed)
    alpha = np.maximum(rng.gamma(0.3, 1.0, k), 1e-10)
    sizes = rng.integers(1, 9, n_groups).astype(float)
    counts = rng.gamma(0.5, 5.0, (n_groups, k)) * (rng.random((n_groups, k)) < 0.7)
    first, second = np.triu_indices(n_groups, 1)
    loss = merge_loss(alpha, counts, sizes, first, second)
    scale = 1.0 + np.abs(counts).sum() + sizes.sum()
    assert (loss >= -1e-9 * scale).all()
    prior = LearnedDirichlet()
    for s, t, one in zip(first, second, loss, strict=True):
        rest = [g for g in range(n_groups) if g not in (s, t)]
        merged = np.vstack([counts[rest], counts[s] + counts[t]])
        left = np.append(sizes[rest], sizes[s] + sizes[t])
        before = prior.bound(alpha, GroupCounts.of(counts, sizes))
        after = prior.bound(alpha, GroupCounts.of(merged, left))
        assert_allclose(before - after, one, rtol=1e-7, atol=1e-8 * scale)


def test_m3_merging_equal_groups_loses_nothing():
    counts, alpha = np.array([[3.0, 0.0, 7.0], [6.0, 0.0, 14.0]]), np.array([0.4, 0.1, 2.0])
    loss = merge_loss(alpha, counts, np.array([1.0, 2.0]), np.array([0]), np.array([1]))
    assert_allclose(loss, 0.0, atol=1e-12)


# Hazards


@every
def test_one_topic_and_one_item(case):
    c = corpus(case, tied=False, n=1, n_documents=1, k=1)
    topics, q = c.topics()
    after, found = c.step.iterate(topics, c.sizes, c.items)
    assert_allclose(found.shares, 1.0)
    assert_allclose(c.bound(after), -c.oracle.free_energy(q, after.alpha), rtol=1e-10)


@every
def test_alpha_at_its_floor_gives_finite_numbers(case):
    c = corpus(case)
    topics, _ = c.topics()
    low = replace(topics, alpha=np.array([1e-10, 1.0, 1e-10]))
    for _ in range(5):
        before = c.bound(low)
        low, found = c.step.iterate(low, c.sizes, c.items)
        assert np.isfinite(found.shares).all()
        assert np.isfinite(c.bound(low))
        assert not_lower(c.bound(low), before)
        assert (low.alpha >= 1e-10).all()


def test_threads_and_serial_agree():
    c = corpus(FAMILIES[0], n=60, k=5)
    groups = c.items.groups[c.items.starts[:-1]]
    wide = Items.points(np.tile(c.items.features, (300, 1)), np.tile(groups, 300))
    topics, _ = c.topics()
    alone = ClumpStep(c.model, SerialEngine()).assign(topics, c.sizes, wide)
    with open_engine("threads") as engine:
        both = ClumpStep(c.model, engine).assign(topics, c.sizes, wide)
    for name in ("topics", "shares", "log_norm"):
        assert_array_equal(getattr(both, name), getattr(alone, name))


def test_sums_of_nothing_are_zero():
    case = FAMILIES[1]
    c = corpus(case)
    none = Items.points(np.empty((0, case.family.n_stats)), np.empty(0, np.int32))
    topics, _ = c.topics()
    found = c.step.assign(topics, c.sizes, none)
    empty = c.step.summarize(topics, none, found)
    assert empty.n.sum() == empty.entropy == 0.0
