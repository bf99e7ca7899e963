"""The sampler of topic trees: its joint from first principles, its counts, and Geweke's test."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.testing.data import planted_tree
from everlearn.trees.model import (
    TreeTopics,
    log_joint,
)
from everlearn.trees.sampler import TreeSampler
from oracles import tree_gibbs
from trees.small_trees import ALPHA, N_WORDS, corpus, drawn, rules_of


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
