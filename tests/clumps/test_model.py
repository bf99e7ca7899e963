"""The memory-bounded topic model and others: copies of data, empty topics, a plain mixture.

M9, M10, M11 and M14 of the specification.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import psi

from everlearn.core.priors.learned_dirichlet import GroupCounts, LearnedDirichlet
from oracles.cases import named
from oracles.clumped import TiedOracle
from oracles.clumped_runs import FAMILIES, corpus, dense_of, not_lower

every = named(FAMILIES)


@every
def test_m9_magnified_once_is_not_magnified(case):
    """(30) for one copy is what the model's densities give term by term."""
    c = corpus(case)
    o, (topics, q) = c.oracle, c.topics()
    zeta = np.array([topics.alpha + n / d for n, d in zip(o.group_counts(q), o.sizes, strict=True)])
    plain = o.free_energy_at(q, o.topics(q, 1.0), zeta, topics.alpha)
    assert_allclose(-c.bound(topics, 1.0), plain, rtol=1e-10)
    assert_allclose(o.free_energy(q, topics.alpha, 1.0, 1.0), plain, rtol=1e-10)


@every
@pytest.mark.parametrize("times", [2, 3])
def test_m10_magnified_is_as_many_copies(case, times):
    c = corpus(case, n=20)
    o, (topics, q) = c.oracle, c.topics()
    alpha = topics.alpha
    n_documents, n_groups = len(o.group), len(o.sizes)
    copies = TiedOracle(
        o.family,
        np.tile(o.X, (times, 1)),
        np.concatenate([o.clump + i * len(q) for i in range(times)]),
        np.concatenate([o.document + i * n_documents for i in range(times)]),
        np.concatenate([o.group + i * n_groups for i in range(times)]),
    )
    plain = copies.free_energy(np.tile(q, (times, 1)), alpha, base=False)
    assert_allclose(o.free_energy(q, alpha, times, times, base=False), plain, rtol=1e-10)
    bound = c.bound(topics, times) - times * c.base
    assert_allclose(-bound, plain, rtol=1e-10)


def test_m10_magnified_alpha_is_that_of_as_many_copies():
    rng = np.random.default_rng(0)
    counts, sizes = rng.gamma(0.6, 4.0, (5, 3)), np.array([1.0, 2.0, 1.0, 4.0, 1.0])
    alpha, prior = np.array([0.2, 1.0, 0.5]), LearnedDirichlet()
    copies = GroupCounts.of(np.tile(counts, (3, 1)), np.tile(sizes, 3))
    want = prior.improved(alpha, copies)
    assert_allclose(prior.improved(alpha, GroupCounts.of(counts, sizes), 3.0), want, rtol=1e-11)


@every
def test_m11_an_empty_topic_changes_nothing(case):
    c = corpus(case)
    topics, q = c.topics()
    wider = replace(c, k=c.k + 1)
    empty = wider.of(np.column_stack([q, np.zeros(len(q))]), np.append(topics.alpha, 1e-10))
    assert_allclose(wider.bound(empty), c.bound(topics), rtol=1e-11)
    better = empty.with_better_alpha(c.model, c.sizes)
    assert better.alpha[-1] == 1e-10
    after, found = wider.step.iterate(empty, c.sizes, c.items)
    assert np.isfinite(after.t).all()
    assert np.isfinite(found.log_norm).all()
    assert not_lower(wider.bound(after), wider.bound(empty))


# M14


@every
def test_m14_one_document_is_a_finite_mixture(case):
    """A document by itself, at fixed alpha: batch variational Bayes of a Dirichlet mixture."""
    c = corpus(case, tied=False, n=40, n_documents=1, k=3)
    topics, q = c.topics(3)
    alpha, family = topics.alpha, case.oracle
    r = q
    for _ in range(5):
        found = c.step.assign(topics, c.sizes, c.items)
        topics = c.step.summarize(topics, c.items, found)
        posteriors = [family.posterior(c.oracle.X, r[:, k]) for k in range(3)]
        weights = c.oracle.mixtures(r, alpha)[0]
        rho = np.array(
            [[family.expected_log_likelihood(x, p) for p in posteriors] for x in c.oracle.X]
        )
        rho += psi(weights) - psi(weights.sum())
        r = np.exp(rho - np.logaddexp.reduce(rho, axis=1)[:, None])
        assert_allclose(dense_of(found, 3), r, atol=1e-8)
    assert_allclose(topics.n, r.sum(axis=0), rtol=1e-7, atol=1e-7)
