"""Variational learning of topic trees: posteriors, bounds, and batches that are remembered."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.engine.opening import open_engine
from everlearn.testing.data import planted_tree
from everlearn.trees.batch import BatchPlan, begin, drawn, pruned, refined, visit
from everlearn.trees.kernels.paths import digamma, level_divergence, level_weights
from everlearn.trees.local import MeanFieldStep, PathStep, expected_table, mean_table
from everlearn.trees.model import TreeRules, TreeTopics, topic_evidence
from everlearn.trees.sampler import TreeSampler
from oracles import tree_gibbs
from oracles.trees import random_tree

ALPHA = np.array([3.0, 2.0, 1.0])
RULES = TreeRules(3, NestedPrior(0.7), 0.5, 100)
STEPS = {"path": PathStep(99, 8), "meanfield": MeanFieldStep(99, 8)}


def quiet(done: int, n_nodes: int) -> None:
    """Tells nobody."""


def random_topics(seed: int = 0, n_words: int = 7) -> TreeTopics:
    rng = np.random.default_rng(seed)
    tree = random_tree(seed, 5, 3)
    counts = rng.gamma(0.4, 8.0, (n_words, len(tree)))
    slots = rng.gamma(1.0, 2.0, len(tree))
    return TreeTopics(tree, counts, slots, ALPHA, int(tree.ids.max()) + 1)


def random_documents(seed: int, n: int = 9, n_words: int = 7) -> Documents:
    rng = np.random.default_rng(seed)
    return Documents.from_dense(rng.poisson(0.9, (n, n_words)))


def planted(seed: int = 0, n: int = 120) -> tuple[Documents, TreeTopics, TreeRules]:
    truth = planted_tree(seed, n_documents=n, n_tokens=40)
    documents = Documents.from_dense(truth.counts)
    rules = TreeRules(3, NestedPrior(1.0), 0.5, 100)
    start = TreeTopics.empty(truth.counts.shape[1], np.array([10.0, 5.0, 5.0]))
    plan = BatchPlan(5, 0, STEPS["path"], moves=None)
    return documents, drawn(documents, start, rules, plan, 1, quiet)[0], rules


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
    found = step.start(documents, topics.tree)
    with open_engine("serial") as engine:
        step.run(documents, paths, found, engine, choose=True)
    dense = documents.to_csr(7).toarray()
    for d in range(len(documents)):
        scores, g = tree_gibbs.slot_scores(
            dense[d], topics.tree.paths, np.log(paths.table.T), np.log(paths.unseen), ALPHA, 300
        )
        whole = paths.log_weights + scores
        expected = np.exp(whole - whole.max())
        shares, levels = np.zeros(len(whole)), np.zeros_like(g)
        shares[found.slots[d]] = found.shares[d]
        levels[found.slots[d]] = found.g[d]
        assert_allclose(shares, expected / expected.sum(), rtol=1e-3, atol=1e-6)
        assert_allclose(levels, g, rtol=1e-3, atol=1e-3)
        assert_allclose(found.bounds[d], np.logaddexp.reduce(whole), rtol=1e-7)


def test_bound_has_every_term() -> None:
    """The log-sum is what the long form says, term by term, for the very factors found."""
    topics, documents = random_topics(1), random_documents(1)
    paths = expected_table(topics, RULES)
    step = PathStep(99, 3)
    found = step.start(documents, topics.tree)
    with open_engine("serial") as engine:
        step.run(documents, paths, found, engine, choose=True)
    dense = documents.to_csr(7).toarray()
    table = np.column_stack([paths.table, np.full(7, paths.unseen)])
    for d in range(len(documents)):
        total = 0.0
        for slot, share, g in zip(found.slots[d], found.shares[d], found.g[d], strict=True):
            if share == 0.0:
                continue
            expected = psi(g) - psi(g.sum())
            logs = np.log(table[:, topics.tree.paths[slot]]).T
            phi = np.exp(expected[:, None] + logs)
            phi /= phi.sum(axis=0)
            inner = (dense[d] * phi * (expected[:, None] + logs - np.log(phi))).sum()
            inner -= tree_gibbs.divergence(g, ALPHA)
            total += share * (paths.log_weights[slot] + inner - np.log(share))
        assert_allclose(found.bounds[d], total, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("local", STEPS)
@pytest.mark.parametrize("learn_levels", [True, False])
@pytest.mark.parametrize("n_batches", [1, 4])
def test_bound_never_falls(local: str, learn_levels: bool, n_batches: int) -> None:
    documents, topics, rules = planted()
    rules = TreeRules(3, rules.paths, rules.word_prior, 100, learn_levels)
    size = -(-len(documents) // n_batches)
    batches = [documents[i : i + size] for i in range(0, len(documents), size)]
    state, bounds = begin(topics, batches, STEPS[local]), []
    with open_engine("serial") as engine:
        for lap in range(12):
            for which in range(n_batches):
                state = visit(state, which, rules, STEPS[local], engine, choose=lap == 0)
                bounds.append(state.bound(rules))
    bounds = np.array(bounds)[np.isfinite(bounds)]
    assert len(bounds) == 12 * n_batches - n_batches + 1
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert bounds[-1] > bounds[0] + 1.0


def test_a_posterior_for_each_path_is_tighter() -> None:
    documents, topics, rules = planted()
    found = {}
    for local, step in STEPS.items():
        with open_engine("serial") as engine:
            paths, here = expected_table(topics, rules), step.start(documents, topics.tree)
            step.run(documents, paths, here, engine, choose=True)
        found[local] = here.bounds
    assert (found["path"] >= found["meanfield"] - 1e-6).all()
    assert found["path"].sum() > found["meanfield"].sum()


def test_statistics_are_those_of_all_documents() -> None:
    documents, topics, rules = planted()
    paths = expected_table(topics, rules)
    for step in STEPS.values():
        found = step.start(documents, topics.tree)
        with open_engine("serial") as engine:
            step.run(documents, paths, found, engine, choose=True)
        stats = step.gathered(documents, paths, found)
        assert_allclose(stats.slots.sum(), len(documents), rtol=1e-9)
        assert stats.counts.sum() <= documents.n_tokens * (1 + 1e-9)
        assert stats.counts.sum() > 0.9 * documents.n_tokens


def test_engines_agree_to_the_bit() -> None:
    documents, topics, rules = planted(n=150)
    results = []
    for name in ("serial", "threads"):
        with open_engine(name) as engine:
            plan = BatchPlan(0, 5, PathStep())
            results.append(refined(topics, documents, rules, plan, engine, 0, quiet))
    assert results[0][1] == results[1][1]
    assert_array_equal(results[0][0].topics.counts, results[1][0].topics.counts)


def test_few_candidates_lose_little() -> None:
    documents, topics, rules = planted(n=200)
    bounds = []
    for most in (3, 99):
        with open_engine("serial") as engine:
            plan = BatchPlan(0, 6, PathStep(most), min_mass=0.0)
            bounds.append(refined(topics, documents, rules, plan, engine, 0, quiet)[1][-1])
    assert bounds[1] == pytest.approx(bounds[0], abs=0.1 * len(documents))


def test_pruned_branches_leave_their_documents_to_their_parents() -> None:
    topics = random_topics(2)
    small = pruned(topics, float(np.median(topics.mass)))
    assert 0 < len(small.tree) < len(topics.tree)
    assert_allclose(small.slots.sum(), topics.slots.sum())
    assert pruned(topics, 0.0) is topics


def test_last_nodes_without_words_leave_their_documents_to_their_parents() -> None:
    topics = random_topics(2)
    last = np.flatnonzero(topics.tree.levels == 2)
    topics.counts[:, last[0]] = 0.01
    small = pruned(replace(topics, slots=topics.slots + 1.0), 0.5)
    assert_array_equal(
        np.setdiff1d(topics.tree.ids, small.tree.ids), topics.tree.ids[last[:1]]
    )  # fmt: skip
    parent = topics.tree.parents[last[0]]
    at = small.tree.at([topics.tree.ids[parent]])[0]
    assert_allclose(small.slots[at], topics.slots[[parent, last[0]]].sum() + 2.0)


@pytest.mark.parametrize(("word_prior", "first"), [(0.5, 0.1), (0.05, 0.05)])
def test_the_prior_of_words_grows_before_levels_are_learned(
    word_prior: float, first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, bool]] = []
    plain = TreeSampler.sweep

    def spy(self: TreeSampler, seed: int, clock: int) -> None:
        seen.append((self.word_prior, np.array_equal(self.alpha, ALPHA)))
        plain(self, seed, clock)

    monkeypatch.setattr(TreeSampler, "sweep", spy)
    documents = Documents.from_dense(planted_tree(0, n_documents=60).counts)
    rules = replace(RULES, word_prior=word_prior)
    start = TreeTopics.empty(documents.words.max() + 1, ALPHA)
    drawn(documents, start, rules, BatchPlan(20, 0, STEPS["path"]), 0, quiet)
    priors = [prior for prior, _ in seen]
    assert priors[0] == first
    assert priors == sorted(priors)
    assert_allclose(priors[9:], word_prior)
    assert_allclose(priors[4], max(word_prior / 2, first))
    assert [same for _, same in seen] == [True] * 10 + [False] * 10


def test_evidence_is_what_topics_contribute() -> None:
    counts = np.random.default_rng(0).integers(0, 5, (6, 3)).astype(float)
    expected = [tree_gibbs.dirichlet_multinomial(c, np.full(6, 0.3)) for c in counts.T]
    assert_allclose(topic_evidence(counts, 0.3), expected)


def test_predictions_use_probabilities() -> None:
    topics = random_topics(3)
    paths = mean_table(topics, 0.5, RULES.paths)
    assert_allclose(paths.table.sum(axis=0), 1.0)
    assert_allclose(np.exp(paths.log_weights).sum(), 1.0)
    assert paths.unseen == 1 / 7
