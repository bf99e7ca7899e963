"""Pool a small data set: each distinct row once, with its weight, in a fixed order.

`fit` then gives the same bits for any order of the rows, and three equal rows count like one row of
weight 3. Rows are sorted by a digest of their content. That order is as good as random, so each
batch is a fair sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import numpy as np
from scipy import sparse

from everlearn.core.arrays import Table
from everlearn.engine.rows import Rows

MAX_POOLED_ROWS: Final = 10_000
"""Larger data sets keep their order: hashing and sorting would take time and memory."""
_MAX_POOLED_BYTES: Final = 8_000_000
_BUDGET_PART: Final = 24
_DIGEST_BYTES: Final = 16


def can_be_pooled(rows: Rows, memory_budget: int | None) -> bool:
    """Whether a data set is small enough to be copied and sorted."""
    most = _MAX_POOLED_BYTES
    if memory_budget is not None:
        most = min(most, memory_budget // _BUDGET_PART)
    return len(rows) <= MAX_POOLED_ROWS and rows.nbytes <= most


def pooled(rows: Rows) -> Rows:
    """Distinct rows with their weights, ordered by digest, without rows of weight zero."""
    digests = b"".join(
        blake2b(content, digest_size=_DIGEST_BYTES).digest() for content in _contents(rows.X)
    )
    keys = np.frombuffer(digests, np.dtype(">u8")).reshape(-1, 2)
    order = np.lexsort(keys.T)
    keys = keys[order]
    first = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))
    each = np.ones(len(rows)) if rows.weights is None else rows.weights[order]
    weights = np.bincount(np.cumsum(first) - 1, each).astype(np.float64)
    kept = weights > 0
    chosen, weights = order[first][kept], weights[kept]
    return Rows(rows.X[chosen], None if (weights == 1.0).all() else weights)


def _contents(X: Table) -> Iterator[bytes]:
    """The bytes of each row, which are equal for equal rows in any storage and precision."""
    if sparse.issparse(X):
        x = sparse.csr_array(X, dtype=np.float64, copy=True)
        x.sum_duplicates()
        x.eliminate_zeros()
        indices, starts = x.indices.astype(np.int64), x.indptr.tolist()
        for start, end in pairwise(starts):
            yield indices[start:end].tobytes() + x.data[start:end].tobytes()
        return
    plain = np.asarray(X, np.float64) + 0.0  # -0.0 becomes 0.0
    plain[np.isnan(plain)] = np.nan  # one bit pattern for all NaNs
    for row in plain:
        yield row.tobytes()
