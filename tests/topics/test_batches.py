"""Batches hold the documents they are made of, and their targets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from everlearn.core.documents import Documents
from everlearn.topics.batches import Batch, Targets, as_bags

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
