"""Documents in two halves, of which one is to be told from the other."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.documents import Documents
from everlearn.core.random import stream

_LONGEST: Final = 10**9
"""NumPy draws without replacement from fewer tokens than this."""


def split_documents(documents: Documents, seed: int) -> tuple[Documents, Documents]:
    """Two halves of the tokens of each document, drawn at random without replacement.

    The draw depends on the seed and on what is in the document, so that a document is split in the
    same way whatever comes with it. If the number of tokens is odd, the first half has one more.

    Returns
    -------
    observed, held_out : Documents
        Each with as many documents as there were; their counts add up to the counts given.
    """
    if documents.lengths.max(initial=0) >= _LONGEST:
        raise ValueError(
            f"a document to split must have fewer than {_LONGEST} tokens, "
            f"got {documents.lengths.max()}"
        )
    observed = np.zeros_like(documents.counts)
    for start, stop in zip(documents.indptr[:-1], documents.indptr[1:], strict=True):
        counts = documents.counts[start:stop].astype(np.int64)
        content = documents.words[start:stop].tobytes() + documents.counts[start:stop].tobytes()
        key = int.from_bytes(blake2b(content, digest_size=16).digest(), "little")
        draw = stream(seed, "subsample", key).multivariate_hypergeometric
        observed[start:stop] = draw(counts, (counts.sum() + 1) // 2)
    return _with_counts(documents, observed), _with_counts(documents, documents.counts - observed)


def _with_counts(documents: Documents, counts: NDArray[np.int32]) -> Documents:
    """The documents with other counts, of which zeros are left out."""
    kept = np.flatnonzero(counts)
    return Documents(np.searchsorted(kept, documents.indptr), documents.words[kept], counts[kept])
