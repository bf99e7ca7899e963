"""Prototypes and their graph."""

import numpy as np
import pytest

from everlearn.clusters.codebook import (
    N_CODEBOOKS,
    codebook_size,
    graph_of,
    learn_codebooks,
    near_prototypes,
    squared_distances,
)
from support.cluster_data import rows_of

ROWS = rows_of(400)


def test_prototypes_are_near_the_rows() -> None:
    books = learn_codebooks(ROWS, 0)
    assert books.shape == (N_CODEBOOKS, codebook_size(400), 3)
    some = ROWS[np.random.default_rng(0).choice(400, codebook_size(400), replace=False)]
    drawn = squared_distances(ROWS, np.stack([some]))
    assert squared_distances(ROWS, books).mean() < 0.8 * drawn.mean()


def test_nearest_prototypes_by_brute_force() -> None:
    books = learn_codebooks(ROWS, 0)
    near = near_prototypes(ROWS, books, 4)
    for book, found in zip(books, near, strict=True):
        apart = np.linalg.norm(ROWS[:, None] - book, axis=2)
        np.testing.assert_array_equal(found, np.argsort(apart, axis=1)[:, :4])


def test_links_are_counted_as_the_definition_says() -> None:
    books = learn_codebooks(ROWS[:60], 0)
    near, size = near_prototypes(ROWS[:60], books), books.shape[1]
    wanted = np.zeros((N_CODEBOOKS * size, N_CODEBOOKS * size))
    for row in range(60):
        for a in range(N_CODEBOOKS):
            for b in range(N_CODEBOOKS):
                others = near[b, row, 1:5] if a == b else near[b, row, :4]
                for other in others:
                    wanted[a * size + near[a, row, 0], b * size + other] += 1 / 12
    graph = graph_of(near, size)
    found = np.zeros_like(wanted)
    found[graph.sources, graph.ends] = graph.weights
    np.testing.assert_allclose(found, wanted + wanted.T)
    groups = np.arange(len(graph)) % 3
    np.testing.assert_allclose(
        graph.between(groups, 3),
        [[found[np.ix_(groups == a, groups == b)].sum() for b in range(3)] for a in range(3)],
    )


@pytest.mark.parametrize(("n_rows", "size"), [(2, 2), (16, 4), (100, 25), (5000, 509)])
def test_size(n_rows: int, size: int) -> None:
    assert codebook_size(n_rows) == size


def test_equal_rows_can_be_learned() -> None:
    books = learn_codebooks(np.repeat([[1.0, 2.0], [3.0, 4.0]], 50, axis=0), 0)
    assert np.isfinite(books).all()
