"""Gains of merging nodes, and sums over branches, against plain loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from everlearn.trees.kernels.merges import add_children, add_word_gains
from oracles.trees import random_tree


@pytest.mark.parametrize("members", [[], [2], [0, 3], [4, 1, 2, 0]])
@pytest.mark.parametrize("prior", [0.01, 0.5, 30.0])
def test_gains_are_differences_of_evidence(prior: float, members: list[int]) -> None:
    counts = np.random.default_rng(0).poisson(1.0, (9, 5)).astype(float)
    counts[0], counts[1] = 0.0, 7.5  # a word that no node has, and counts that are no integers
    n = len(members)
    gains = np.full((n, n), 2.0)
    add_word_gains(counts, np.array(members, np.int64), prior, gains)

    def evidence(words: np.ndarray) -> float:
        return float((gammaln(words + prior) - gammaln(prior)).sum())

    for i in range(n):
        for j in range(n):
            one, two = counts[:, members[i]], counts[:, members[j]]
            gain = evidence(one + two) - evidence(one) - evidence(two)
            assert_allclose(gains[i, j], 2.0 + gain if i < j else 2.0, rtol=1e-9)


def test_nodes_without_common_words_gain_nothing() -> None:
    gains = np.zeros((2, 2))
    add_word_gains(np.array([[3.0, 0.0], [0.0, 5.0]]), np.array([0, 1]), 0.5, gains)
    assert not gains.any()


@pytest.mark.parametrize(("n_branches", "depth"), [(0, 1), (0, 3), (1, 2), (6, 4)])
def test_a_node_gets_the_words_of_its_whole_branch(n_branches: int, depth: int) -> None:
    tree = random_tree(1, n_branches, depth)
    own = np.random.default_rng(1).poisson(2.0, (4, len(tree))).astype(float)
    whole = own.copy()
    add_children(tree.parents, whole)
    for node in range(len(tree)):
        assert_array_equal(whole[:, node], own[:, tree.descends(node)].sum(axis=1))
