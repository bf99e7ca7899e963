"""Documents in chunks: sizes, what a chunk tells of itself, and words that all chunks share."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from everlearn.core.documents import Documents
from everlearn.text.inputs import documents_of
from everlearn.topics.corpus import (
    ChunkedDocuments,
    DocumentInfo,
    DocumentReader,
    _are_word_numbers,
    _renumber,
    _shared_words,
)
from everlearn.topics.topic_model import TopicModel
from support.corpora import chunks_here

COUNTS = np.random.default_rng(0).poisson(0.7, (11, 6))


def read(documents: Any, **params: Any) -> tuple[Documents, DocumentInfo]:
    found = DocumentReader(TopicModel(n_topics=2, **params))(documents)
    assert found[0] is not None
    assert found[1] is not None
    return found  # type: ignore[return-value]


def test_batches_take_every_chunk_once() -> None:
    whole = chunks_here(Documents.from_dense(COUNTS), 2)
    assert (len(whole), whole.n_tokens) == (11, COUNTS.sum())
    assert_array_equal(whole.positions, np.arange(11))
    for size, n in ((1, 6), (4, 3), (100, 1)):
        batches = whole.blocks(size)
        assert len(batches) == n
        positions = np.concatenate([batch.positions for batch in batches])
        assert_array_equal(np.sort(positions), np.arange(11))
        assert sum(batch.n_tokens for batch in batches) == COUNTS.sum()
        assert [c.start for c in batches[0].chunks] == [c.start for c in whole.chunks[::n]]
    assert len(ChunkedDocuments(())) == 0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda x: x.astype(float)])
def test_a_table_of_counts_tells_its_first_row(form: Any) -> None:
    documents, info = read(form(COUNTS))
    assert_array_equal(documents.to_csr(6).toarray(), COUNTS)
    assert (info.n_documents, info.n_tokens) == (11, COUNTS.sum())
    assert info.space is not None
    assert (info.space.kind, info.space.n_words) == ("counts", 6)
    assert info.words is info.widths is None
    head = info.head.toarray() if sparse.issparse(info.head) else info.head
    assert_array_equal(head, COUNTS[:1])


def test_texts_tell_their_words_in_order() -> None:
    documents, info = read(["cats purr cats", "", "dogs purr"])
    assert info.words == ["cats", "purr", "dogs"]
    assert_array_equal(documents.to_csr(3).toarray(), [[2, 1, 0], [0, 0, 0], [0, 1, 1]])
    assert info.widths == {1}
    assert info.space is not None
    assert info.space.vocabulary is None  # words travel once


def test_chunks_without_words_or_documents() -> None:
    nothing, info = read([[], []])
    assert (len(nothing), nothing.n_tokens) == (2, 0)
    assert info.space is None
    assert info.n_documents == 2
    assert DocumentReader(TopicModel())(np.zeros((0, 6))) == (None, None)
    assert DocumentReader(TopicModel())([]) == (None, None)


def test_numbers_of_words_are_known_by_lengths_that_differ() -> None:
    """In a chunk of documents of one length they look like a table of counts."""
    even, uneven = [[0, 2], [1, 2]], [[3], [1, 2, 2]]
    infos = [read(chunk)[1] for chunk in (even, uneven)]
    assert [info.space and info.space.kind for info in infos] == ["counts", "ids"]
    assert _are_word_numbers(infos)
    assert _are_word_numbers([infos[0], read([[1, 1, 1]])[1]])
    assert not _are_word_numbers(infos[:1])
    assert not _are_word_numbers([infos[0], read(np.array([[1, 2, 3]]))[1]])  # a table is one
    assert not _are_word_numbers([read(["a b"])[1], infos[0]])
    again = DocumentReader(TopicModel(), word_numbers=True)(even)[1]
    assert again is not None
    assert again.space is not None
    assert again.space.kind == "ids"


def shared(*chunks: Any, **params: Any) -> tuple[Any, list[Documents]]:
    """The words of all chunks, and the documents of each under the common numbers."""
    model = TopicModel(n_topics=2, **params)
    found = [read(chunk, **params) for chunk in chunks]
    words, numbers = _shared_words(model, [info for _, info in found])
    pairs = zip(found, numbers, strict=True)
    return words, [_renumber(None, (documents, own))[1] for (documents, _), own in pairs]


def test_chunks_are_numbered_as_all_documents_together() -> None:
    texts = ["cats purr cats", "dogs bark", "", "cats bark bark at dogs", "mice"]
    words, parts = shared(texts[:2], texts[2:4], texts[4:])
    whole, space = documents_of(TopicModel(n_topics=2), texts, None, grow=True)
    assert words.vocabulary.words == space.vocabulary.words
    n = words.n_words
    found = np.concatenate([part.to_csr(n).toarray() for part in parts])
    assert_array_equal(found, whole.to_csr(n).toarray())
    for part in parts:  # ascending words within a document, as everywhere
        for start, stop in zip(part.indptr[:-1], part.indptr[1:], strict=True):
            assert (np.diff(part.words[start:stop]) > 0).all()


def test_words_beyond_the_limit_are_dropped() -> None:
    words, parts = shared(["aa bb", "bb cc"], ["cc dd dd", "aa"], text={"max_features": 3})
    assert words.vocabulary.words == ["aa", "bb", "cc"]
    found = np.concatenate([part.to_csr(3).toarray() for part in parts])
    assert_array_equal(found, [[1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 0]])


def test_chunks_of_two_kinds_or_widths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"documents of one kind in all chunks. Got \['counts', "):
        shared(COUNTS, ["some words"])
    with pytest.raises(ValueError, match="5 features"):
        shared(COUNTS, COUNTS[:, 1:])
    with pytest.raises(ValueError, match="a word in at least one of the documents"):
        shared([""], [" "])
    words, parts = shared(COUNTS[:4], COUNTS[4:])
    assert (words.kind, words.n_words) == ("counts", 6)
    assert_array_equal(np.concatenate([p.to_csr(6).toarray() for p in parts]), COUNTS)
