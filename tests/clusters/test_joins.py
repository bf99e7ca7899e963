"""Borders of groups: valleys stay, others go."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

from everlearn.clusters.codebook import Graph, graph_of, learn_codebooks, near_prototypes
from everlearn.clusters.joins import border_ratio, joined
from everlearn.core.arrays import Mat


def line_graph(ends: Mat) -> tuple[Graph, Mat]:
    """A graph with one link for each pair of positions on a line."""
    n = len(ends)
    links = sparse.coo_array((np.ones(n), (np.arange(n), n + np.arange(n))), (2 * n, 2 * n)).tocsr()
    links = (links + links.T).tocsr()
    graph = Graph(links.indptr.astype(np.int64), links.indices.astype(np.int64), links.data)
    return graph, ends.T.reshape(-1, 1)


@pytest.mark.parametrize("correlation", [0.3, 0.8, 0.97])
@pytest.mark.parametrize("border", [0.0, 0.7])
def test_links_of_a_gaussian_have_a_ratio_of_one(correlation: float, border: float) -> None:
    moments = [[1, correlation], [correlation, 1]]
    ends = multivariate_normal(cov=moments).rvs(100_000, random_state=0)
    graph, positions = line_graph(ends)
    side = positions[:, 0] > border
    ratio = border_ratio(graph, positions, np.flatnonzero(side), np.flatnonzero(~side))
    assert ratio == pytest.approx(1.0, abs=0.03)


def codebook_graph(rows: Mat) -> tuple[Graph, Mat]:
    books = learn_codebooks(rows, 0)
    graph = graph_of(near_prototypes(rows, books), books.shape[1])
    return graph, books.reshape(-1, rows.shape[1])


@pytest.mark.parametrize(("distance", "wanted"), [(0.0, 1), (1.0, 1), (5.0, 2), (8.0, 2)])
def test_halves_of_one_gaussian_are_joined_and_two_are_not(distance: float, wanted: int) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(1200, 4))
    rows[:600, 0] += distance
    graph, positions = codebook_graph(rows)
    halves = (positions[:, 0] > distance / 2).astype(np.int32)
    after, joins = joined(graph, positions, halves, fewest=1)
    assert after.max() + 1 == wanted
    assert len(joins) == 2 - wanted


def test_joins_stop_at_the_given_number() -> None:
    rng = np.random.default_rng(2)
    graph, positions = codebook_graph(rng.normal(size=(600, 2)))
    parts = (np.digitize(positions[:, 0], [-1, 0, 1])).astype(np.int32)
    after, joins = joined(graph, positions, parts, fewest=2, join_from=0.0)
    assert after.max() + 1 == 2
    assert len(joins) == 2
    for join in joins:
        assert 0 < join.shares[1] <= join.shares[0] <= 1


def test_islands_without_links_are_joined_by_distance() -> None:
    positions = np.repeat([[0.0], [1.0], [9.0]], 2, axis=0)
    links = sparse.csr_array(np.kron(np.eye(3), [[0, 1], [1, 0]]))
    graph = Graph(links.indptr.astype(np.int64), links.indices.astype(np.int64), links.data)
    groups = np.repeat([0, 1, 2], 2).astype(np.int32)
    after, _ = joined(graph, positions, groups, fewest=2, join_from=0.0)
    assert after.tolist() == [0, 0, 0, 0, 1, 1]
    stay, joins = joined(graph, positions, groups, fewest=1)
    assert stay.tolist() == groups.tolist()
    assert joins == ()
