"""Documents laid out for kernels agree with the plain ones."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from everlearn.core.documents import Documents
from everlearn.inference.kernels.word_counts import word_runs
from everlearn.inference.local.topics import as_bags, picked

texts = st.lists(st.lists(st.integers(0, 6), max_size=9), max_size=7)


@given(texts, st.data())
def test_picked_documents_are_those_taken(tokens, data):
    documents = Documents.from_tokens(tokens)
    places = st.integers(0, max(0, len(tokens) - 1))
    rows = np.array(data.draw(st.lists(places, max_size=9 if tokens else 0)), dtype=np.int64)
    found, expected = picked(documents, rows), documents.take(rows)
    for name in ("indptr", "words", "counts"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@given(texts)
def test_tokens_begin_where_those_of_the_document_before_end(tokens):
    documents = Documents.from_tokens(tokens)
    starts = as_bags(documents).starts
    np.testing.assert_array_equal(starts, np.concatenate([[0], np.cumsum(documents.lengths)]))


@given(texts, st.integers(1, 5))
def test_every_entry_is_in_one_of_the_runs_and_every_word_too(tokens, n_runs):
    bags = as_bags(Documents.from_tokens(tokens))
    runs = word_runs(bags, n_runs)
    np.testing.assert_array_equal(runs.entries[0], bags.indptr[:-1])
    np.testing.assert_array_equal(runs.entries[-1], bags.indptr[1:])
    places = np.concatenate([[0], np.cumsum(bags.counts)])
    np.testing.assert_array_equal(runs.tokens, places[runs.entries[:-1]])
    seen = [
        {int(w) for a, b in zip(*ends, strict=True) for w in bags.words[a:b]}
        for ends in pairwise(runs.entries)
    ]
    assert sum(map(len, seen)) == len(set(bags.words.tolist()))


def test_words_are_shared_out_evenly():
    tokens = np.random.default_rng(0).zipf(1.3, (300, 40)).clip(max=5000) - 1
    bags = as_bags(Documents.from_tokens(tokens))
    sizes = np.diff(word_runs(bags, 3).entries, axis=0).sum(axis=1)
    assert sizes.max() < 0.45 * len(bags.words)
