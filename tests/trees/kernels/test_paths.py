"""Posteriors of paths and levels, against sums over all slots of a tree."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi
from scipy.special import softmax as plain_softmax

from everlearn.core.documents import Documents
from everlearn.engine.opening import open_engine
from everlearn.trees.kernels import paths as kernels
from everlearn.trees.kernels.paths import choose_slots, gather, predict_words
from everlearn.trees.local import (
    PathStep,
    empty_posteriors,
    expected_table,
    mean_table,
    word_counts,
)
from oracles import tree_gibbs
from support.kernels import from_python
from trees.small_trees import ALPHA, RULES, random_documents, random_topics

digamma, level_divergence, level_weights, softmax = map(
    from_python,
    (kernels.digamma, kernels.level_divergence, kernels.level_weights, kernels.softmax),
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


def rough_scores(counts: np.ndarray, paths: kernels.PathTable) -> np.ndarray:
    """Scores of all slots with levels as expected from the prior."""
    g = paths.alpha * (1.0 + counts.sum() / paths.alpha.sum())
    weights = np.exp(psi(g) - psi(g.sum()))
    seen = np.append(paths.table, np.full((len(counts), 1), paths.unseen), axis=1)
    return paths.log_weights + counts @ np.log(seen[:, paths.paths] @ weights)


@pytest.mark.parametrize("most", [1, 3, 99])
@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_the_slots_with_the_best_scores(seed: int, most: int) -> None:
    topics, documents = random_topics(seed), random_documents(seed, n=20)
    paths = expected_table(topics, RULES)
    q = empty_posteriors(20, min(most, len(topics.tree)), 3)
    choose_slots(word_counts(documents), 0, 20, paths, q)
    dense = documents.to_csr(7).toarray()
    for d in range(20):
        scores = rough_scores(dense[d], paths)
        best = np.argsort(-scores)[: q.slots.shape[1]]
        best = best[scores[best] >= scores.max() - 30.0]
        chosen = q.slots[d][q.slots[d] >= 0]
        assert_allclose(scores[chosen], scores[best], rtol=1e-9)
        assert len(set(chosen.tolist())) == len(chosen)
    assert not q.shares.any()


def test_slots_with_a_share_stay_candidates() -> None:
    topics, documents = random_topics(0), random_documents(0, n=5)
    paths = expected_table(topics, RULES)
    q = empty_posteriors(5, 2, 3)
    scores = [rough_scores(row, paths) for row in documents.to_csr(7).toarray()]
    worst = np.array([s.argmin() for s in scores])
    q.slots[:, 1], q.shares[:, 1], q.g[:, 1] = worst, 0.3, [1.0, 2.0, 3.0]
    q.slots[4, 1], q.shares[4, 1] = worst[4], 1e-5  # negligible
    choose_slots(word_counts(documents), 0, 5, paths, q)
    for d in range(4):
        at = np.flatnonzero(q.slots[d] == worst[d])
        assert len(at) == 1
        assert q.shares[d, at[0]] == 0.3
        assert_array_equal(q.g[d, at[0]], [1.0, 2.0, 3.0])
        assert scores[d].argmax() in q.slots[d]
    assert worst[4] not in q.slots[4]


def posteriors_of(
    paths: kernels.PathTable, documents: Documents, n_slots: int
) -> kernels.Posteriors:
    """Any posteriors: some slots with random shares and levels, some without."""
    rng = np.random.default_rng(4)
    q = empty_posteriors(len(documents), n_slots, 3)
    for d in range(len(documents)):
        used = int(rng.integers(1, n_slots + 1))
        q.slots[d, :used] = rng.permutation(len(paths.levels))[:used]
        q.shares[d, :used] = rng.dirichlet(np.ones(used))
        q.g[d, :used] = rng.gamma(2.0, 2.0, (used, 3))
    return q


def test_expected_words_are_those_of_each_slot_and_level() -> None:
    topics, documents = random_topics(2), random_documents(2)
    paths = expected_table(topics, RULES)
    q, k = posteriors_of(paths, documents, 4), len(topics.tree)
    counts, slots, logs = np.ones((7, k)), np.ones(k), np.ones(3)
    gather(word_counts(documents), paths, q, counts, slots, logs)
    want = np.ones((7, k)), np.ones(k), np.ones(3)
    seen = np.append(paths.table, np.full((7, 1), paths.unseen), axis=1)
    for d, row in enumerate(documents.to_csr(7).toarray()):
        for slot, share, g in zip(q.slots[d], q.shares[d], q.g[d], strict=True):
            if slot < 0:
                continue
            want[1][slot] += share
            want[2][:] += share * (psi(g) - psi(g.sum()))
            each = np.exp(psi(g) - psi(g.sum())) * seen[:, paths.paths[slot]]
            each /= each.sum(axis=1, keepdims=True)
            for level, node in enumerate(paths.paths[slot]):
                if node >= 0:  # what new nodes would have is not kept
                    want[0][:, node] += share * row * each[:, level]
    for found, plain in zip((counts, slots, logs), want, strict=True):
        assert_allclose(found, plain, rtol=1e-10)


def test_other_words_of_a_document_share_its_path() -> None:
    topics, documents = random_topics(3), random_documents(3)
    paths = mean_table(topics, 0.5, RULES.paths)
    q, out = posteriors_of(paths, documents, 3), np.zeros(len(documents))
    predict_words(word_counts(documents), paths, q, out)
    seen = np.append(paths.table, np.full((7, 1), paths.unseen), axis=1)
    for d, row in enumerate(documents.to_csr(7).toarray()):
        whole = 0.0
        for slot, share, g in zip(q.slots[d], q.shares[d], q.g[d], strict=True):
            if slot >= 0:
                probabilities = seen[:, paths.paths[slot]] @ (g / g.sum())
                whole += share * np.prod(probabilities**row)
        assert_allclose(out[d], np.log(whole), rtol=1e-9)


def test_a_document_without_words_is_the_prior() -> None:
    topics = random_topics(1)
    paths = expected_table(topics, RULES)
    nothing = Documents.from_dense(np.zeros((1, 7), int))
    q = PathStep(99, 8).start(nothing, topics.tree)
    with open_engine("serial") as engine:
        PathStep(99, 8).run(nothing, paths, q, engine, choose=True)
    shares = np.zeros(len(topics.tree))
    shares[q.slots[0]] = q.shares[0]
    weights = np.exp(paths.log_weights)
    assert_allclose(shares, weights / weights.sum(), rtol=1e-9)
    assert_allclose(q.g[0], np.tile(ALPHA, (len(topics.tree), 1)), rtol=1e-12)
    assert_allclose(q.bounds[0], np.log(weights.sum()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "scores",
    [[-3.0], [2.0, 2.0, 2.0], [0.0, -50.0, 1.0], [-1e300, 5.0], [-np.inf, 0.0], [1e5, 1e5 + 1.0]],
)
def test_softmax(scores: list[float]) -> None:
    shares = np.empty(len(scores))
    whole = softmax(np.array(scores), shares)
    want = plain_softmax(scores)
    assert_allclose(whole, np.logaddexp.reduce(scores), rtol=1e-12)
    assert_allclose(shares, np.where(want < 1e-12, 0.0, want), rtol=1e-12)
