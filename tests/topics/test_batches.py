"""Batches hold the documents they are made of, and their targets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from everlearn.core.documents import Documents
from everlearn.topics.batches import Batch, Targets, as_bags, renumber_words

token_lists = st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=12)

texts = st.lists(st.lists(st.integers(0, 6), max_size=9), max_size=7)


@given(texts)
def test_a_batch_is_its_documents(tokens):
    documents = Documents.from_tokens(tokens)
    values = np.arange(2.0 * len(tokens)).reshape(len(tokens), 2)
    targets = Targets((values % 3 - 1).astype(np.int8), values)
    batch = Batch.of(documents, targets)
    assert len(batch) == len(tokens)
    assert batch.n_tokens == sum(map(len, tokens))
    assert batch.targets is targets
    for name in ("indptr", "words", "counts"):
        ours, theirs = getattr(batch.documents, name), getattr(documents, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert batch.lengths.tolist() == [max(len(words), 1) for words in tokens]


@given(texts)
def test_tokens_begin_where_those_of_the_document_before_end(tokens):
    documents = Documents.from_tokens(tokens)
    starts = as_bags(documents).starts
    np.testing.assert_array_equal(starts, np.concatenate([[0], np.cumsum(documents.lengths)]))


@given(token_lists)
def test_words_are_numbered_by_those_that_documents_have(tokens):
    bags = as_bags(Documents.from_tokens(tokens))
    distinct, own = renumber_words(bags)
    assert distinct.tolist() == sorted({word for words in tokens for word in words})
    np.testing.assert_array_equal(distinct[own.words], bags.words)
    assert own.words.dtype == np.int32


def test_targets_are_cut_together():
    targets = Targets(np.arange(6, dtype=np.int8).reshape(3, 2), np.arange(6.0).reshape(3, 2))
    part = targets[1:]
    assert part.signs.tolist() == [[2, 3], [4, 5]]
    assert part.values.tolist() == [[2, 3], [4, 5]]
    assert Targets.none(4).signs.shape == (4, 0)
