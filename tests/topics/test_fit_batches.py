"""Documents cut into batches: all of them, in order."""

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.topics.batches import Targets
from everlearn.topics.fit import cut_batches

N = 53


@pytest.fixture
def corpus():
    rng = np.random.default_rng(0)
    tokens = [rng.integers(0, 30, n).tolist() for n in rng.integers(0, 12, N)]
    return Documents.from_tokens(tokens), Targets(np.ones((N, 1), np.int8), np.arange(N)[:, None])


def positions(batches):
    return [batch.targets.values[:, 0].astype(int).tolist() for batch in batches]


def test_batches_follow_the_orders(corpus):
    documents, targets = corpus
    order = np.random.default_rng(1).permutation(N)
    batches = list(cut_batches(documents, targets, [None, order], (20, 8)))
    expected = [list(range(20)), *(list(range(i, min(i + 8, N))) for i in range(20, N, 8))]
    expected += [order[i : i + 8].tolist() for i in range(0, N, 8)]
    assert positions(batches) == expected
    for batch, rows in zip(batches, expected, strict=True):
        taken = documents.take(rows)
        np.testing.assert_array_equal(batch.documents.words, taken.words)
        np.testing.assert_array_equal(batch.documents.counts, taken.counts)
        np.testing.assert_array_equal(batch.documents.indptr, taken.indptr)
