"""Joins of topics and merges of groups: gains are differences of the bound (M7)."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.merges import apply_joins, merge_groups, merge_loss
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus, dense_of, joins_of, settled

every = named(FAMILIES)
FEW = settings(max_examples=max(5, settings.default.max_examples // 4))


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
