"""Kernels of items, sets and retrieval against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, logsumexp, xlogy

from everlearn.clumps.kernels import (
    WINDOW,
    best_path_scores,
    best_topics,
    by_topic,
    divide_sets,
    document_terms,
    joint_entropy,
    median_sides,
    scatter_times,
    set_sums,
    split_shares,
    summarize,
)

SEED = st.integers(0, 2**32 - 1)


def items(rng, n, groups, stats=3):
    """Random items: features, masses, and their points in groups."""
    lengths = rng.integers(1, min(3, groups) + 1, n)
    own = [rng.choice(groups, m, replace=False) for m in lengths]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    counts = rng.integers(1, 6, starts[-1]).astype(float)
    mass = np.add.reduceat(counts, starts[:-1]) if n else np.empty(0)
    which = np.concatenate(own).astype(np.int32) if n else np.empty(0, np.int32)
    return rng.normal(size=(n, stats)), mass, starts, which, counts


def assignments(rng, n, k, width):
    """Sparse shares, largest first, zeros behind."""
    topics, shares = np.zeros((n, width), np.int32), np.zeros((n, width))
    for c in range(n):
        m = rng.integers(1, min(width, k) + 1)
        topics[c, :m] = rng.choice(k, m, replace=False)
        shares[c, :m] = np.sort(rng.dirichlet(np.ones(m)))[::-1]
    return topics, shares


@given(SEED, st.integers(0, 12), st.integers(1, 14), st.integers(1, 8), st.floats(0.01, 40.0))
def test_best_topics(seed, n, k, width, spread):
    rng = np.random.default_rng(seed)
    width = min(width, k)
    _, mass, starts, groups, counts = items(rng, n, 4)
    scores, bias = spread * rng.normal(size=(n, k)), rng.normal(size=(4, k))
    topics, shares = np.empty((n, width), np.int32), np.empty((n, width))
    log_norm = np.empty(n)
    best_topics(scores, bias, starts, groups, counts, topics, shares, log_norm)
    for c in range(n):
        inside = slice(starts[c], starts[c + 1])
        full = scores[c] + (counts[inside] / mass[c]) @ bias[groups[inside]]
        order = np.argsort(-full, kind="stable")[:width]
        order = order[full[order] >= full.max() - WINDOW * (1 - 1e-12)]
        assert_array_equal(topics[c, : len(order)], order)
        assert_allclose(log_norm[c], logsumexp(full[order]), rtol=1e-9, atol=1e-9)
        want = np.exp(full[order] - logsumexp(full[order]))
        assert_allclose(shares[c, : len(order)], want, rtol=1e-8)
        assert not shares[c, len(order) :].any()


def test_equal_scores_give_the_first_topics():
    topics, shares, log_norm = np.empty((1, 3), np.int32), np.empty((1, 3)), np.empty(1)
    given_items = (np.array([0, 1]), np.zeros(1, np.int32), np.ones(1))
    best_topics(np.zeros((1, 6)), np.zeros((1, 6)), *given_items, topics, shares, log_norm)
    assert_array_equal(topics, [[0, 1, 2]])
    assert_allclose(shares, 1 / 3)


def test_a_bias_of_minus_ten_billion_is_only_unlikely():
    """Alpha at its floor: psi(1e-10)."""
    bias = np.array([[-1e10, -1e10], [-1e10, 0.0]])
    topics, shares, log_norm = np.empty((2, 2), np.int32), np.empty((2, 2)), np.empty(2)
    given_items = (np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2))
    best_topics(np.zeros((2, 2)), bias, *given_items, topics, shares, log_norm)
    assert_allclose(shares, [[0.5, 0.5], [1.0, 0.0]])
    assert np.isfinite(log_norm).all()


@given(SEED, st.integers(0, 12), st.integers(1, 6))
def test_sums_sorting_and_joint_entropy(seed, n, k):
    rng = np.random.default_rng(seed)
    features, mass, starts, groups, counts = items(rng, n, 4)
    topics, shares = assignments(rng, n, k, min(k, 4))
    q = np.zeros((n, k))
    for c in range(n):
        q[c, topics[c][shares[c] > 0]] = shares[c][shares[c] > 0]
    sums, t, group_counts = np.zeros(k), np.zeros((k, 3)), np.zeros((4, k))
    entropy = summarize(
        topics, shares, features, mass, starts, groups, counts, sums, t, group_counts
    )
    assert_allclose(sums, mass @ q, atol=1e-12)
    assert_allclose(t, (mass[:, None] * q).T @ features, atol=1e-11)
    owner = np.repeat(np.arange(n), np.diff(starts))
    want = np.zeros((4, k))
    np.add.at(want, groups, counts[:, None] * q[owner])
    assert_allclose(group_counts, want, atol=1e-11)
    assert_allclose(entropy, -(mass @ xlogy(q, q).sum(axis=1)), atol=1e-10)

    chosen = rng.permutation(k)[: rng.integers(1, k + 1)]
    places = np.full(k, -1, np.int32)
    places[chosen] = np.arange(len(chosen))
    topic_starts, members, each = by_topic(topics, shares, places, len(chosen))
    assert len(members) == len(each) == topic_starts[-1] == np.count_nonzero(q[:, chosen])
    for place, i in enumerate(chosen):
        inside = slice(topic_starts[place], topic_starts[place + 1])
        assert_array_equal(members[inside], np.flatnonzero(q[:, i]))
        assert_array_equal(each[inside], q[:, i][q[:, i] > 0])

    first, second = np.triu_indices(k, 1)
    pair_starts = np.searchsorted(first, np.arange(k + 1)).astype(np.int64)
    loss = np.zeros(len(first))
    joint_entropy(topics, shares, mass, pair_starts, second.astype(np.int32), loss)
    for j, m, lost in zip(first, second, loss, strict=True):
        both = q[:, j] + q[:, m]
        gone = xlogy(both, both) - xlogy(q[:, j], q[:, j]) - xlogy(q[:, m], q[:, m])
        assert_allclose(lost, mass @ gone, atol=1e-10)


@pytest.mark.parametrize("hard", [False, True])
@given(SEED, st.floats(0.1, 1000.0))
def test_split_shares(hard, seed, steep):
    rng = np.random.default_rng(seed)
    features, mass, starts, groups, counts = items(rng, 10, 4)
    topics, shares = assignments(rng, 10, 3, 3)
    topic_starts, members, each = by_topic(topics, shares, np.arange(3, dtype=np.int32), 3)
    slope, offset = steep * rng.normal(size=(3, 3)), rng.normal(size=3)
    tilt = rng.normal(size=(3, 4))
    n, t = np.empty(3), np.empty((3, 3))
    group_counts, entropy = np.empty((3, 4)), np.empty(3)
    split_shares(0, 3, hard, topic_starts, members, each, features, mass, starts, groups, counts,
                 slope, offset, tilt, n, t, group_counts, entropy)  # fmt: skip
    for k in range(3):
        inside = slice(topic_starts[k], topic_starts[k + 1])
        c, q = members[inside], each[inside]
        lean = [tilt[k, groups[starts[i] : starts[i + 1]]] @ counts[starts[i] : starts[i + 1]]
                / mass[i] for i in c]  # fmt: skip
        score = features[c] @ slope[k] + offset[k] + lean
        with np.errstate(over="ignore"):
            g = (score > 0).astype(float) if hard else 1.0 / (1.0 + np.exp(-score))
        w = mass[c] * q
        assert_allclose(n[k], w @ g, atol=1e-10)
        assert_allclose(t[k], (w * g) @ features[c], atol=1e-9)
        assert_allclose(entropy[k], -(w @ (xlogy(g, g) + xlogy(1 - g, 1 - g))), atol=1e-8)
        assert_allclose(group_counts[k].sum(), n[k], atol=1e-10)


@given(SEED, st.integers(2, 12))
def test_division_of_sets(seed, n):
    rng = np.random.default_rng(seed)
    features, mass, starts, groups, counts = items(rng, n, 4)
    sizes = rng.integers(1, 5, 4).astype(float)
    of = np.sort(rng.integers(0, 2, n)).astype(np.int32)
    set_starts = np.searchsorted(of, [0, 1, 2]).astype(np.int64)
    members = np.arange(n, dtype=np.int32)
    total, sums = np.zeros(2), np.zeros((2, 3))
    set_sums(of, features, mass, total, sums)
    for i in range(2):
        assert_allclose(total[i], mass[of == i].sum())
        assert_allclose(sums[i], mass[of == i] @ features[of == i], atol=1e-12)
    slope, offset = rng.normal(size=(2, 3)), rng.normal(size=2)
    side, upper, t = np.full(n, -1, np.int32), np.empty(2), np.empty((2, 3))
    divide_sets(set_starts, members, features, mass, slope, offset, side, upper, t)
    want = (np.einsum("np,np->n", features, slope[of]) + offset[of] > 0).astype(int)
    assert_array_equal(side, want)
    alpha = rng.gamma(1.0, 1.0, (2, 2))
    spans, terms = np.empty((2, 2)), np.empty((2, 2))
    document_terms(set_starts, members, side, starts, groups, counts, sizes, alpha, spans, terms)
    owner = np.repeat(np.arange(n), np.diff(starts))
    for i in range(2):
        for s in range(2):
            inside = (of[owner] == i) & (side[owner] == s)
            N = np.bincount(groups[inside], counts[inside], 4)
            assert spans[i, s] == np.count_nonzero(N)
            each = gammaln(alpha[i, s] + N / sizes) - gammaln(alpha[i, s])
            assert_allclose(terms[i, s], sizes @ each, atol=1e-9)
    vectors, out = rng.normal(size=(2, 2, 3)), np.zeros((2, 2, 3))
    centres = rng.normal(size=(2, 3))
    wide = np.ascontiguousarray(np.hstack([rng.normal(size=(n, 2)), features]))
    scatter_times(set_starts, members, np.ones(n), wide, 2, mass, centres, vectors, out)
    for i in range(2):
        away = features[of == i] - centres[i]
        scatter = (mass[of == i, None] * away).T @ away
        assert_allclose(out[i], vectors[i] @ scatter, atol=1e-9)


@given(SEED, st.integers(2, 9), st.booleans())
def test_medians_leave_no_side_empty(seed, n, equal):
    rng = np.random.default_rng(seed)
    features = np.zeros((n, 2)) if equal else rng.normal(size=(n, 2))
    mass = 10.0 ** rng.integers(0, 4, n)
    side, upper, t = np.zeros(n, np.int32), np.empty(1), np.empty((1, 2))
    members, slope = np.arange(n, dtype=np.int32), rng.normal(size=(1, 2))
    median_sides(np.array([0]), np.array([0, n]), members, features, mass, slope, side, upper, t)
    assert 0 < side.sum() < n
    assert_allclose(upper[0], mass[side == 1].sum())
    assert_allclose(t[0], mass[side == 1] @ features[side == 1], atol=1e-9)
    along = features @ slope[0]
    assert along[side == 0].max() <= along[side == 1].min() + 1e-12


@given(SEED, st.integers(0, 6), st.integers(1, 5), st.integers(0, 4))
def test_m12_scores_of_best_paths(seed, n, k, m):
    rng = np.random.default_rng(seed)
    scores, weights, out = rng.normal(size=(n, k)), -rng.gamma(1, 9, (m, k)), np.empty(m)
    best_path_scores(scores, weights, out)
    want = (scores[None] + weights[:, None]).max(axis=2).sum(axis=1) if n else np.zeros(m)
    assert_allclose(out, want, atol=1e-10)
