"""Documents laid out for kernels agree with the plain ones."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.attic.inference_shifts import TAKEN
from everlearn.core.documents import Documents
from everlearn.engine.local import ThreadEngine
from everlearn.engine.protocol import among
from everlearn.topics import batches as topic_batches
from everlearn.topics.batches import as_bags, laid_out, layout_of
from everlearn.topics.kernels.layout import lay_out_one
from everlearn.topics.settings import Targets
from oracles.batches import batch_of

texts = st.lists(st.lists(st.integers(0, 6), max_size=9), max_size=7)


def numbered(n):
    """Targets that say which document they belong to."""
    values = np.arange(2.0 * n).reshape(n, 2)
    return Targets((values % 3 - 1).astype(np.int8), values)


def assert_taken(batch, documents, targets, rows):
    expected = as_bags(documents.take(rows))
    for ours, theirs in zip(batch.bags, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(batch.targets.signs, targets.signs[rows])
    np.testing.assert_array_equal(batch.targets.values, targets.values[rows])
    np.testing.assert_array_equal(batch.lengths, np.maximum(np.diff(expected.starts), 1))


@given(texts, st.data())
def test_batches_are_the_documents_taken(tokens, data):
    documents, targets = Documents.from_tokens(tokens), numbered(len(tokens))
    rows = st.lists(st.integers(0, max(0, len(tokens) - 1)), max_size=9 if tokens else 0)
    parts = [np.array(part, np.int64) for part in data.draw(st.lists(rows, max_size=4))]
    layout = layout_of(documents, parts, data.draw(st.integers(1, 3)))
    batches = laid_out(layout, targets, layout)
    assert len(batches) == len(parts)
    for batch, part in zip(batches, parts, strict=True):
        assert_taken(batch, documents, targets, part)


@pytest.fixture
def many():
    rng = np.random.default_rng(0)
    documents = Documents.from_tokens(rng.zipf(1.3, (300, 40)).clip(max=5000) - 1)
    return documents, numbered(300), np.split(rng.permutation(300), 10)


@pytest.mark.parametrize("n_ahead", [0, 1, 9, 10, 12])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_whoever_lays_them_out(many, n_ahead, n_threads):
    """Some beforehand, the others at once."""
    documents, targets, parts = many
    layout = layout_of(documents, parts, n_threads)
    assert [lay_out_one(layout) for _ in range(n_ahead)] == [True] * min(n_ahead, 10) + [False] * (
        n_ahead - 10
    )
    with ThreadEngine(n_threads) as engine:
        batches = laid_out(layout, targets, layout, among(engine, 10))
    for batch, part in zip(batches, parts, strict=True):
        assert_taken(batch, documents, targets, part)


def test_nobody_waits_for_ever_for_one_who_sleeps_over_a_batch(many, monkeypatch):
    monkeypatch.setattr(topic_batches, "_SLEEP", 0.01)
    documents, targets, parts = many
    layout = layout_of(documents, parts, 1)
    layout.turns[TAKEN] = 3
    for batch, part in zip(laid_out(layout, targets, layout), parts, strict=True):
        assert_taken(batch, documents, targets, part)


@given(texts)
def test_tokens_begin_where_those_of_the_document_before_end(tokens):
    documents = Documents.from_tokens(tokens)
    starts = as_bags(documents).starts
    np.testing.assert_array_equal(starts, np.concatenate([[0], np.cumsum(documents.lengths)]))


@given(texts, st.integers(1, 3))
def test_every_entry_is_in_one_of_the_runs_and_every_word_too(tokens, n_workers):
    batch = batch_of(Documents.from_tokens(tokens), Targets.none(len(tokens)), n_workers)
    (firsts, starts), bags = batch.runs, batch.bags
    np.testing.assert_array_equal(firsts[0], bags.indptr[:-1])
    np.testing.assert_array_equal(firsts[-1], bags.indptr[1:])
    places = np.concatenate([[0], np.cumsum(bags.counts)])
    np.testing.assert_array_equal(starts, places[firsts[:-1]])
    seen = [
        {int(w) for a, b in zip(*ends, strict=True) for w in bags.words[a:b]}
        for ends in pairwise(firsts)
    ]
    assert sum(map(len, seen)) == len(set(bags.words.tolist()))


def test_words_are_shared_out_evenly(many):
    batch = batch_of(many[0], many[1], n_workers=2)
    sizes = np.diff(batch.runs.firsts, axis=0).sum(axis=1)
    assert len(sizes) > 2
    assert sizes.max() < 0.3 * len(batch.bags.words)
