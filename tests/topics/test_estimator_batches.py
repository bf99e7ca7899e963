"""Documents cut into batches: all of them, in order, those of the next group while one is used."""

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.topics import estimator as topic_batches
from everlearn.topics.estimator import cut_batches
from everlearn.topics.kernels.layout import lay_out_one
from everlearn.topics.settings import Targets

N = 53


@pytest.fixture
def corpus():
    rng = np.random.default_rng(0)
    tokens = [rng.integers(0, 30, n).tolist() for n in rng.integers(0, 12, N)]
    return Documents.from_tokens(tokens), Targets(np.ones((N, 1), np.int8), np.arange(N)[:, None])


def positions(batches):
    return [batch.targets.values[:, 0].astype(int).tolist() for batch in batches]


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize("at_once", [1, 20, 4096])
def test_batches_follow_the_orders(corpus, n_workers, at_once, monkeypatch):
    monkeypatch.setattr(topic_batches, "_AT_ONCE", at_once)
    documents, targets = corpus
    order = np.random.default_rng(1).permutation(N)
    with ThreadEngine(n_workers) as engine:
        batches = list(cut_batches(documents, targets, [None, order], (20, 8), engine))
    expected = [list(range(20)), *(list(range(i, min(i + 8, N))) for i in range(20, N, 8))]
    expected += [order[i : i + 8].tolist() for i in range(0, N, 8)]
    assert positions(batches) == expected
    for batch, rows in zip(batches, expected, strict=True):
        taken = documents.take(rows)
        np.testing.assert_array_equal(batch.documents.words, taken.words)
        np.testing.assert_array_equal(batch.documents.counts, taken.counts)
        np.testing.assert_array_equal(batch.documents.indptr, taken.indptr)


def test_batches_ahead_are_those_of_the_next_group(corpus, monkeypatch):
    """What is laid out meanwhile is what comes next; beside the last group nothing is left."""
    monkeypatch.setattr(topic_batches, "_AT_ONCE", 16)
    documents, targets = corpus
    batches = list(cut_batches(documents, targets, [None], (8, 8), SerialEngine()))
    assert len(batches) == 7
    for batch, later in zip(batches, batches[2:], strict=False):
        assert np.shares_memory(batch.ahead.indptr, later.bags.indptr)
    assert not lay_out_one(batches[-1].ahead)
