"""Codebooks: a few hundred prototypes that stand for the rows, and a graph that links them.

Several codebooks are learned independently and share one graph, because the borders of the cells
of a single one are noise. The nearest prototype of a row in each codebook is linked to the next
ones in every codebook, its own included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.clusters.kernels import smallest
from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.core.random import stream

N_CODEBOOKS: Final = 3
_PER_ROOT, _FEWEST, _ROWS_EACH = 7.2, 20, 4
"""Prototypes: this times the root of the number of rows, at least 20, one for 4 rows at most."""
_LLOYD_STEPS: Final = 5
_LINKED: Final = 4
N_NEAR: Final = 10
"""Prototypes of each codebook that vote for the group of a row."""
_BLOCK: Final = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Symmetric links between the prototypes of all codebooks, in CSR form.

    Attributes
    ----------
    starts, ends, weights : links of node i are those from starts[i] to starts[i + 1]
    """

    starts: IntVec
    ends: IntVec
    weights: Vec

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sources(self) -> IntVec:
        """The node at which each link starts."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def between(self, groups: NDArray[np.integer], n_groups: int) -> Mat:
        """Weight of the links between groups of nodes, (n_groups, n_groups)."""
        pairs = groups[self.sources].astype(np.int64) * n_groups + groups[self.ends]
        links = np.bincount(pairs, self.weights, n_groups**2).astype(np.float64)
        return links.reshape(n_groups, n_groups)


def codebook_size(n_rows: int) -> int:
    """Number of prototypes of a sample with `n_rows` rows."""
    most = max(n_rows // _ROWS_EACH, 2)
    return int(np.clip(_PER_ROOT * np.sqrt(n_rows), min(_FEWEST, most), most))


def learn_codebooks(rows: Mat, seed: int, *position: int) -> Cube:
    """Codebooks of the rows, (n_codebooks, n_prototypes, d)."""
    size = codebook_size(len(rows))
    books = [_codebook(rows, size, stream(seed, "start", *position, k)) for k in range(N_CODEBOOKS)]
    return np.stack(books)


def _codebook(rows: Mat, size: int, rng: np.random.Generator) -> Mat:
    """Prototypes by k-means++ and a few steps of k-means."""
    book = rows[_spread_out(rows, size, rng)]
    for _ in range(_LLOYD_STEPS):
        nearest = _nearest(rows, book, 1)[:, 0]
        counts = np.bincount(nearest, minlength=size)
        used = counts > 0
        first = (np.cumsum(counts) - counts)[used]
        sums = np.add.reduceat(rows[np.argsort(nearest, kind="stable")], first, axis=0)
        book[used] = sums / counts[used, None]
    return book


def _spread_out(rows: Mat, size: int, rng: np.random.Generator) -> IntVec:
    """Positions of rows, each drawn in proportion to its squared distance from earlier ones."""
    squares = np.einsum("ij,ij->i", rows, rows)
    chosen = np.empty(size, np.int64)
    distance = np.full(len(rows), np.inf)
    for k, draw in enumerate(rng.random(size)):
        if k == 0:
            chosen[k] = int(draw * len(rows))
        else:
            total = np.cumsum(distance)  # all zero if there are fewer distinct rows
            chosen[k] = min(int(np.searchsorted(total, draw * total[-1], "right")), len(rows) - 1)
        own = rows[chosen[k]]
        distance = np.minimum(distance, squares - 2 * (rows @ own) + squares[chosen[k]])
        np.maximum(distance, 0.0, out=distance)
    return chosen


def near_prototypes(rows: Mat, books: Cube, k: int = N_NEAR) -> NDArray[np.int32]:
    """The k nearest prototypes of each row in each codebook, (n_codebooks, n, k)."""
    return np.stack([_nearest(rows, book, min(k, len(book))) for book in books])


def _nearest(rows: Mat, book: Mat, k: int) -> NDArray[np.int32]:
    half = np.einsum("ij,ij->i", book, book) / 2
    blocks = [rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK)]
    return np.concatenate([smallest(half - block @ book.T, k) for block in blocks])


def graph_of(near: NDArray[np.int32], size: int) -> Graph:
    """The graph of the prototypes, from the nearest ones of each row in each codebook."""
    n_books, _, k = near.shape
    nodes = near.astype(np.int64) + size * np.arange(n_books)[:, None, None]
    total = sparse.csr_array((n_books * size, n_books * size))
    for a in range(n_books):
        for b in range(n_books):
            first = int(a == b)  # the best prototype itself is no link
            others = nodes[b, :, first : first + min(_LINKED, k - 1)]
            best = np.repeat(nodes[a, :, 0], others.shape[1])
            each = np.full(others.size, 1.0 / (n_books * _LINKED))
            total += sparse.coo_array((each, (best, others.ravel())), total.shape).tocsr()
    total = (total + total.T).tocsr()
    total.sort_indices()
    return Graph(total.indptr.astype(np.int64), total.indices.astype(np.int64), total.data)


def squared_distances(rows: Mat, books: Cube) -> Vec:
    """Squared distance of each row from its nearest prototype, the mean over codebooks."""
    near = near_prototypes(rows, books, 1)[:, :, 0]
    apart = [((rows - book[best]) ** 2).sum(axis=1) for book, best in zip(books, near, strict=True)]
    return np.asarray(np.mean(apart, axis=0))
