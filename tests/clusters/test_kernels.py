"""Compiled loops against code too plain to be wrong."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from everlearn.clusters.codebook import Graph
from everlearn.clusters.kernels import communities, smallest, votes
from everlearn.clusters.ladder import modularity
from everlearn.core.arrays import IntVec, Mat


def graph_from(matrix: Mat) -> Graph:
    links = sparse.csr_array(matrix)
    return Graph(links.indptr.astype(np.int64), links.indices.astype(np.int64), links.data)


def plain_modularity(matrix: Mat, groups: IntVec, resolution: float) -> float:
    total, degrees = matrix.sum(), matrix.sum(axis=1)
    same = groups[:, None] == groups
    return float((same * (matrix - resolution * np.outer(degrees, degrees) / total)).sum() / total)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_smallest_sorts_the_columns_of_each_row(k: int) -> None:
    scores = np.random.default_rng(k).normal(size=(20, 7))
    np.testing.assert_array_equal(smallest(scores, k), np.argsort(scores, axis=1)[:, :k])


def test_smallest_of_equal_scores_and_of_no_rows() -> None:
    assert smallest(np.zeros((1, 4)), 2).tolist() == [[0, 1]]
    assert smallest(np.zeros((0, 4)), 2).shape == (0, 2)


def test_votes_add_up_over_ranks_and_codebooks() -> None:
    near = np.array([[[0, 1, 2]], [[2, 1, 0]]], np.int32)
    groups = np.array([0, 1, 1, 0, 1, 1], np.int32)  # two codebooks of three prototypes
    assert votes(near, groups, 2).tolist() == [1]  # 7/3 for 1, 4/3 for 0
    assert votes(near[:1], groups[:3], 2).tolist() == [0]


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_communities_reach_the_best_modularity_of_a_small_graph(resolution: float) -> None:
    rng = np.random.default_rng(4)
    half = rng.random((8, 8)) * (rng.random((8, 8)) < 0.2)
    half[:4, :4] += rng.random((4, 4))
    half[4:, 4:] += rng.random((4, 4))
    matrix = half + half.T
    np.fill_diagonal(matrix, 0.0)
    graph = graph_from(matrix)
    partitions = (np.array(p) for p in itertools.product(range(3), repeat=8))
    best = max(plain_modularity(matrix, p, resolution) for p in partitions)
    found = max(
        plain_modularity(
            matrix,
            communities(graph.starts, graph.ends, graph.weights, resolution, np.uint64(w)),
            resolution,
        )
        for w in range(1, 6)
    )
    assert found >= best - 1e-9


def test_modularity_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    half = rng.random((9, 9)) * (rng.random((9, 9)) < 0.5)
    matrix, groups = half + half.T, rng.integers(3, size=9).astype(np.int32)
    wanted = plain_modularity(matrix, groups, 1.7)
    assert modularity(graph_from(matrix), groups, 1.7) == pytest.approx(wanted)


def test_a_graph_without_links_stays_apart() -> None:
    graph = graph_from(np.zeros((3, 3)))
    found = communities(graph.starts, graph.ends, np.zeros(0), 1.0, np.uint64(1))
    assert found.tolist() == [0, 1, 2]
