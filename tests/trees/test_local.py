"""Posteriors of paths and levels, their bounds and statistics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import psi

from everlearn.engine.opening import open_engine
from everlearn.trees.kernels import paths
from everlearn.trees.local import PathStep, expected_table, mean_table
from oracles import tree_gibbs
from support.kernels import from_python
from trees.small_trees import ALL_SLOTS, ALPHA, RULES, planted, random_documents, random_topics

digamma, level_divergence, level_weights = map(
    from_python, (paths.digamma, paths.level_divergence, paths.level_weights)
)


@pytest.mark.parametrize("x", [1e-3, 0.5, 1.0, 7.9, 8.0, 400.0])
def test_digamma(x: float) -> None:
    assert_allclose(digamma(x), psi(x), rtol=1e-12, atol=1e-12)


def test_levels() -> None:
    g = np.array([2.5, 0.1, 40.0])
    out = np.empty(3)
    level_weights(g, out)
    assert_allclose(out, np.exp(psi(g) - psi(g.sum())), rtol=1e-12)
    assert_allclose(level_divergence(g, ALPHA), tree_gibbs.divergence(g, ALPHA), rtol=1e-12)
    assert_allclose(level_divergence(ALPHA, ALPHA), 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_path_posterior_is_that_of_all_slots(seed: int) -> None:
    topics, documents = random_topics(seed), random_documents(seed)
    paths = expected_table(topics, RULES)
    step = PathStep(99, 200)
    q = step.start(documents, topics.tree)
    with open_engine("serial") as engine:
        step.run(documents, paths, q, engine, choose=True)
    dense = documents.to_csr(7).toarray()
    for d in range(len(documents)):
        scores, g = tree_gibbs.slot_scores(
            dense[d], topics.tree.paths, np.log(paths.table.T), np.log(paths.unseen), ALPHA, 300
        )
        whole = paths.log_weights + scores
        expected = np.exp(whole - whole.max())
        shares, levels = np.zeros(len(whole)), np.zeros_like(g)
        shares[q.slots[d]] = q.shares[d]
        levels[q.slots[d]] = q.g[d]
        assert_allclose(shares, expected / expected.sum(), rtol=1e-3, atol=1e-6)
        assert_allclose(levels, g, rtol=1e-3, atol=1e-3)
        assert_allclose(q.bounds[d], np.logaddexp.reduce(whole), rtol=1e-7)


def test_bound_has_every_term() -> None:
    """The log-sum is what the long form says, term by term, for the very factors found."""
    topics, documents = random_topics(1), random_documents(1)
    paths = expected_table(topics, RULES)
    step = PathStep(99, 3)
    q = step.start(documents, topics.tree)
    with open_engine("serial") as engine:
        step.run(documents, paths, q, engine, choose=True)
    dense = documents.to_csr(7).toarray()
    table = np.column_stack([paths.table, np.full(7, paths.unseen)])
    for d in range(len(documents)):
        total = 0.0
        for slot, share, g in zip(q.slots[d], q.shares[d], q.g[d], strict=True):
            if share == 0.0:
                continue
            expected = psi(g) - psi(g.sum())
            logs = np.log(table[:, topics.tree.paths[slot]]).T
            phi = np.exp(expected[:, None] + logs)
            phi /= phi.sum(axis=0)
            inner = (dense[d] * phi * (expected[:, None] + logs - np.log(phi))).sum()
            inner -= tree_gibbs.divergence(g, ALPHA)
            total += share * (paths.log_weights[slot] + inner - np.log(share))
        assert_allclose(q.bounds[d], total, rtol=1e-9, atol=1e-8)


def test_statistics_are_those_of_all_documents() -> None:
    documents, topics, rules = planted()
    paths = expected_table(topics, rules)
    q = ALL_SLOTS.start(documents, topics.tree)
    with open_engine("serial") as engine:
        ALL_SLOTS.run(documents, paths, q, engine, choose=True)
    stats = ALL_SLOTS.gathered(documents, paths, q)
    assert_allclose(stats.slots.sum(), len(documents), rtol=1e-9)
    assert stats.counts.sum() <= documents.n_tokens * (1 + 1e-9)
    assert stats.counts.sum() > 0.9 * documents.n_tokens


def test_predictions_use_probabilities() -> None:
    topics = random_topics(3)
    paths = mean_table(topics, 0.5, RULES.paths)
    assert_allclose(paths.table.sum(axis=0), 1.0)
    assert_allclose(np.exp(paths.log_weights).sum(), 1.0)
    assert paths.unseen == 1 / 7
