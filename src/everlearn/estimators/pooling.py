"""Small data sets, written down in one way: each distinct row once, with its weight.

A row that comes three times says what a row of weight 3 says, and the order of rows says
nothing. `pooled` makes all such data sets the same one, bit for bit, so whatever is learned
from them, with whatever randomness, is the same too. The order is that of a digest of each
row: fixed by the content, yet as good as shuffled, so batches of it are fair samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from scipy import sparse

from everlearn.core.arrays import Table
from everlearn.inference.rows import Rows

MAX_POOLED_ROWS = 10_000
"""Larger data sets are left as they came: hashing each row would take time, sorting memory."""
_DIGEST_BYTES = 16


def pooled(rows: Rows) -> Rows:
    """Distinct rows in the order of their digests; rows of weight zero are left out."""
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
    """The bytes of each row: equal for equal rows, whatever their storage and precision."""
    if sparse.issparse(X):
        x = sparse.csr_array(X, dtype=np.float64, copy=True)
        x.sum_duplicates()
        x.eliminate_zeros()
        indices, starts = x.indices.astype(np.int64), x.indptr.tolist()
        for start, end in pairwise(starts):
            yield indices[start:end].tobytes() + x.data[start:end].tobytes()
        return
    plain = np.asarray(X, np.float64) + 0.0  # -0.0 becomes 0.0
    plain[np.isnan(plain)] = np.nan
    for row in plain:
        yield row.tobytes()
