"""The sampler of topic trees: its joint from first principles, its counts, and Geweke's test."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.core.tree import Tree
from everlearn.testing.data import planted_tree
from everlearn.trees.kernels import scores
from everlearn.trees.kernels.scores import Scratch, Tokens
from everlearn.trees.model import (
    TreeRules,
    TreeTopics,
    level_prior_of_counts,
    level_prior_of_logs,
    log_joint,
)
from everlearn.trees.sampler import TreeSampler
from oracles import tree_gibbs
from support.kernels import from_python

log_rising, score_level, score_slots = map(
    from_python, (scores.log_rising, scores.score_level, scores.score_slots)
)
ALPHA = np.array([2.0, 1.0, 0.5])
N_WORDS = 5


def rules_of(word_prior: float = 0.4, gamma: float = 0.8, **more: object) -> TreeRules:
    return TreeRules(3, NestedPrior(gamma), word_prior, more.pop("max_nodes", 50), **more)


def corpus(seed: int = 0, n: int = 12, length: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.sort(rng.integers(0, N_WORDS, length)) for _ in range(n)]


def drawn(tokens: list[np.ndarray], rules: TreeRules, sweeps: int = 5) -> TreeSampler:
    sampler = TreeSampler(TreeTopics.empty(N_WORDS, ALPHA), rules)
    sampler.add(Documents.from_tokens(tokens), 3, 0)
    for i in range(sweeps):
        sampler.sweep(3, i + 1)
    return sampler


@pytest.mark.parametrize("x", [0.3, 5.0, 15.9, 16.0, 1234.5])
@pytest.mark.parametrize("n", [0.0, 1.0, 7.0, 300.0])
def test_log_rising(x: float, n: float) -> None:
    assert_allclose(log_rising(x, n), gammaln(x + n) - gammaln(x), rtol=1e-11, atol=1e-11)


def test_joint_is_that_of_first_principles() -> None:
    tokens, rules = corpus(), rules_of()
    sampler = drawn(tokens, rules)
    found = sampler.topics()
    ends = np.cumsum([len(t) for t in tokens])[:-1]
    levels = np.split(sampler.levels, ends)
    paths = [tuple(found.tree.ids[found.tree.paths[i]]) for i in found.tree.at(sampler.leaves)]
    expected = tree_gibbs.log_joint(tokens, levels, paths, ALPHA, 0.4, 0.8, N_WORDS)
    assert_allclose(log_joint(found, sampler.level_counts, rules), expected, rtol=1e-12)


def test_counts_follow_every_draw() -> None:
    tokens = corpus(n=30)
    sampler = drawn(tokens, rules_of(gamma=3.0), sweeps=20)
    found = sampler.topics()
    counts = np.zeros_like(found.counts)
    rows = np.repeat(found.tree.at(sampler.leaves), [len(t) for t in tokens])
    np.add.at(counts, (np.concatenate(tokens), found.tree.paths[rows, sampler.levels]), 1.0)
    assert_array_equal(found.counts, counts)
    passed = found.tree.paths[found.tree.at(sampler.leaves)].ravel()
    assert_array_equal(found.mass, np.bincount(passed))
    assert len(np.unique(found.tree.ids)) == len(found.tree)
    assert found.next_id > found.tree.ids.max()


def test_no_more_nodes_than_allowed() -> None:
    sampler = drawn(corpus(n=60), rules_of(gamma=50.0, max_nodes=9), sweeps=10)
    assert sampler.n_nodes <= 9
    assert drawn(corpus(n=60), rules_of(gamma=50.0), sweeps=1).n_nodes > 9


def test_known_documents_go_on_as_if_never_interrupted() -> None:
    rules = rules_of()
    sampler = drawn(corpus(), rules)
    other = TreeSampler(sampler.topics(), rules)
    other.add_known(Documents.from_tokens(corpus()), sampler.levels, sampler.leaves)
    assert_array_equal(other.level_counts, sampler.level_counts)
    assert_array_equal(other.leaves, sampler.leaves)
    assert log_joint(other.topics(), other.level_counts, rules) == log_joint(
        sampler.topics(), sampler.level_counts, rules
    )


@pytest.mark.parametrize("word_prior", [0.4, 40.0])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 15, 16, 17, 35, 64])
def test_scores_of_a_level_are_those_of_its_words_together(n: int, word_prior: float) -> None:
    sampler = drawn(corpus(length=9), rules_of(word_prior=word_prior))
    nodes, room = sampler._nodes, len(sampler._nodes.ids)
    rng = np.random.default_rng(n)
    words = np.sort(rng.integers(0, N_WORDS, 2 * n))
    levels = rng.permutation(np.repeat([1, 2], n)).astype(np.uint8)
    tokens = Tokens(
        np.array([0, 2 * n]), words.astype(np.int32), levels, np.full((1, 3), -1)
    )  # fmt: skip
    scratch = Scratch(
        *(np.full(room, 7.0) for _ in range(5)), np.full(3, 7.0),
        np.empty(2 * n, np.int64), np.empty(2 * n),
    )  # fmt: skip
    score_level(tokens, 0, 2 * n, 2, nodes, sampler._priors(), scratch)
    mine = np.bincount(words[levels == 2], minlength=N_WORDS)
    for at in range(nodes.firsts[2], nodes.firsts[3]):
        before = nodes.counts[:, at] + word_prior
        each = gammaln(before + mine) - gammaln(before)
        together = gammaln(before.sum() + n) - gammaln(before.sum())
        assert_allclose(scratch.scores[at], each.sum() - together, rtol=1e-9, atol=1e-9)
    new = (gammaln(word_prior + mine) - gammaln(word_prior)).sum()
    new -= gammaln(N_WORDS * word_prior + n) - gammaln(N_WORDS * word_prior)
    assert_allclose(scratch.fresh[2], new, rtol=1e-9, atol=1e-9)


def test_places_follow_the_tree_when_it_shrinks() -> None:
    sampler = drawn(corpus(n=400), rules_of(word_prior=0.01, gamma=50.0, max_nodes=2000), sweeps=0)
    most = sampler.n_nodes
    sampler._rules = rules_of(gamma=1e-3)
    sampler.word_prior = 5.0
    for i in range(10):
        sampler.sweep(3, i + 1)
    found = sampler.topics()
    assert sampler.n_nodes < most / 4
    assert len(sampler._nodes.ids) < most / 2
    assert_array_equal(found.tree.at(sampler.leaves) >= 0, True)
    assert found.counts.sum() == 400 * 6


def test_scores_of_slots_are_those_of_words_on_any_level() -> None:
    sampler = drawn(corpus(length=9), rules_of())
    nodes, priors, room = sampler._nodes, sampler._priors(), len(sampler._nodes.ids)
    document = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, *[4] * 20])
    tokens = Tokens(
        np.array([0, len(document)]), document.astype(np.int32),
        np.zeros(len(document), np.uint8), np.full((1, 3), -1),
    )  # fmt: skip
    scratch = Scratch(
        *(np.ones(room) for _ in range(5)), np.zeros(3),
        np.empty(len(document), np.int64), np.empty(len(document)),
    )  # fmt: skip
    score_slots(tokens, 0, len(document), nodes, priors, scratch)
    found = sampler.topics()
    shares = ALPHA / ALPHA.sum()
    topics = np.append(found.topics(0.4), np.full((N_WORDS, 1), 1.0 / N_WORDS), axis=1)
    expected = np.log(topics[document][:, found.tree.paths] @ shares).sum(axis=0)
    root = expected[0]
    for node, score in zip(found.tree.ids, expected, strict=True):
        at, total = int(np.flatnonzero(nodes.ids == node)[0]), root
        while at > 0:
            total, at = total + scratch.scores[at], int(nodes.parents[at])
        assert_allclose(total, score, rtol=1e-12)
    assert not scratch.fresh.any()


@pytest.mark.parametrize("informed", [True, False])
def test_new_documents_find_known_branches_if_their_levels_fit_them(informed: bool) -> None:
    planted = planted_tree(0, branching=3, n_documents=60)
    tree, leaves = planted.tree, np.bincount(planted.leaves, minlength=len(planted.tree))
    found = TreeTopics(tree, 2000.0 * planted.topics.T, 20.0 * leaves, np.full(3, 5.0), len(tree))
    sampler = TreeSampler(found, rules_of(word_prior=0.5, gamma=1.0, max_nodes=500))
    sampler.add(Documents.from_dense(planted.counts), 0, 0, informed=informed)
    if informed:
        assert_array_equal(sampler.leaves, planted.leaves)
    else:
        assert np.mean(sampler.leaves == planted.leaves) < 0.5


def test_priors_of_levels_climb() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([8.0, 1.0, 3.0])
    shares = rng.dirichlet(truth, 4000)
    found = np.ones(3)
    for _ in range(200):
        found = level_prior_of_logs(found, np.log(shares).sum(axis=0), len(shares))
    assert_allclose(found, truth, rtol=0.1)
    counts = np.array([rng.multinomial(60, p) for p in shares]).astype(float)
    found = np.ones(3)
    for _ in range(100):
        found = level_prior_of_counts(found, counts)
    assert_allclose(found, truth, rtol=0.15)


# ----------------------------------------------------------------------- Geweke

N, LENGTH, WORD_PRIOR, GAMMA = 4, 5, 0.5, 1.2


def forward(rng: np.random.Generator) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Paths and levels from their prior."""
    seen: dict[tuple[int, ...], list[int]] = {}
    paths = []
    for _ in range(N):
        path: tuple[int, ...] = (0,)
        for _ in range(2):
            tables = seen.setdefault(path, [])
            weights = np.array([*tables, GAMMA], float)
            at = rng.choice(len(weights), p=weights / weights.sum())
            if at == len(tables):
                tables.append(0)
            tables[at] += 1
            path = (*path, int(at))
        paths.append(path)
    shares = rng.dirichlet(ALPHA, N)
    levels = np.array([rng.choice(3, LENGTH, p=p) for p in shares])
    return paths, levels


def words_of(rng: np.random.Generator, paths: list, levels: np.ndarray) -> np.ndarray:
    """Words with fresh topics for all nodes."""
    topics: dict[tuple[int, ...], np.ndarray] = {}
    words = np.empty_like(levels)
    for d, path in enumerate(paths):
        for i, level in enumerate(levels[d]):
            node = tuple(path[: level + 1])
            topic = topics.setdefault(node, rng.dirichlet(np.full(N_WORDS, WORD_PRIOR)))
            words[d, i] = rng.choice(N_WORDS, p=topic)
    return words


def statistics_of(paths: list, levels: np.ndarray, words: np.ndarray) -> list[float]:
    upper = {p[:2] for p in paths}
    same = words[:, :, None] == words[:, None, :]
    tally = np.bincount(words.ravel(), minlength=N_WORDS)
    return [
        len(upper),
        len(set(paths)),
        (levels == 0).sum(),
        (levels == 2).sum(),
        same.sum(),
        (tally**2).sum(),
        sum(paths[0][:2] == p[:2] for p in paths),
    ]


def as_state(paths: list, levels: np.ndarray, words: np.ndarray) -> tuple:
    """Counts of a tree for draws, and documents with tokens in the order of words."""
    nodes = sorted({p[:k] for p in paths for k in (1, 2, 3)}, key=lambda n: (len(n), n))
    place = {node: i for i, node in enumerate(nodes)}
    parents = np.array([place[n[:-1]] if len(n) > 1 else -1 for n in nodes])
    tree = Tree(np.arange(len(nodes)), parents, 3)
    counts, slots = np.zeros((N_WORDS, len(nodes))), np.zeros(len(nodes))
    order = np.argsort(words, axis=1, kind="stable")
    words, levels = np.take_along_axis(words, order, 1), np.take_along_axis(levels, order, 1)
    for d, path in enumerate(paths):
        slots[place[path]] += 1
        for w, level in zip(words[d], levels[d], strict=True):
            counts[w, place[path[: level + 1]]] += 1
    leaves = np.array([place[p] for p in paths])
    topics = TreeTopics(tree, counts, slots, ALPHA, len(nodes))
    return topics, Documents.from_tokens(list(words)), levels.ravel(), leaves


def test_geweke() -> None:
    """Prior draws, and draws that alternate between the sampler and new words, agree."""
    rules, rng = rules_of(WORD_PRIOR, GAMMA), np.random.default_rng(1)
    prior, chain = [], []
    paths, levels = forward(rng)
    for step in range(4000):
        one = forward(rng)
        prior.append(statistics_of(*one, words_of(rng, *one)))
        levels = rng.permuted(levels, axis=1)  # tokens are kept in the order of words
        words = words_of(rng, paths, levels)
        topics, documents, flat, leaves = as_state(paths, levels, words)
        sampler = TreeSampler(topics, rules)
        sampler.add_known(documents, flat, leaves)
        sampler.sweep(7, step)
        found = sampler.topics().tree
        paths = [tuple(found.ids[found.paths[i]].tolist()) for i in found.at(sampler.leaves)]
        levels = sampler.levels.reshape(N, LENGTH)
        chain.append(statistics_of(paths, levels, np.sort(words, axis=1)))
    for power in (1, 2):
        a, b = np.array(prior, float) ** power, np.array(chain, float) ** power
        blocks = b.reshape(50, -1, b.shape[1]).mean(axis=1)
        spread = np.sqrt(a.var(axis=0) / len(a) + blocks.var(axis=0, ddof=1) / len(blocks))
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4.0 * spread).all()
