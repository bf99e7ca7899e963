"""Documents to learn from in `fit`, in this process or in the chunks of a Dask collection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.engine.chunks import split_chunks
from everlearn.engine.opening import EngineChoice
from everlearn.engine.protocol import Engine, Handle
from everlearn.estimator.base import named_errors
from everlearn.estimator.collections import (
    as_rows,
    fetch_collections,
    held_chunks,
    n_rows_of,
    open_collection,
    parts_of,
    portable_clone,
)
from everlearn.text.inputs import DocumentParams, WordSpace, documents_of, text_options
from everlearn.text.tokens import listed
from everlearn.text.vocabulary import Vocabulary


class DocumentEstimator(DocumentParams, Protocol):
    """The parameters of an estimator that say how and where to read documents."""

    engine: EngineChoice


@dataclass(frozen=True, slots=True, eq=False)
class DocumentChunk:
    """Documents that a worker holds.

    handle : refers to a list of one `Documents`
    start : position of the first document in the collection
    n_documents, n_tokens : sizes
    """

    handle: Handle
    start: int
    n_documents: int
    n_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedDocuments:
    """Documents in chunks on the workers."""

    chunks: tuple[DocumentChunk, ...]

    def __len__(self) -> int:
        return sum(chunk.n_documents for chunk in self.chunks)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all documents."""
        return sum(chunk.n_tokens for chunk in self.chunks)

    def blocks(self, size: int) -> list[ChunkedDocuments]:
        """Batches of about `size` documents, at least a chunk each."""
        return split_chunks(self, size)

    @property
    def positions(self) -> IntVec:
        """Positions of the documents in the collection."""
        parts = [c.start + np.arange(c.n_documents) for c in self.chunks]
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The input of one call: documents, their words, the open engine, and labels or numbers."""

    documents: Documents | ChunkedDocuments
    words: WordSpace
    engine: Engine
    y: Any = None


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What a worker reports about a chunk that it has read.

    n_documents, n_tokens : sizes
    space : kind and number of words; None if all documents are empty, because then the kind is
        unknown
    words : the words in the order of their numbers in the chunk; None if they have no names
    widths : lengths of the documents of a list; None for a table
    head : the first row of a table
    """

    n_documents: int
    n_tokens: int
    space: WordSpace | None = None
    words: list[str] | None = None
    widths: frozenset[int] | None = None
    head: Any = None


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reads a chunk on its worker, exactly as the estimator would read it in this process.

    twin : a copy of the estimator that can be sent to workers
    word_numbers : whether rows of numbers are known to be word numbers, not counts
    """

    twin: DocumentEstimator
    word_numbers: bool = False

    def __call__(self, chunk: Any) -> tuple[Documents | None, DocumentInfo | None]:
        """The documents, which stay on the worker, and the report. Both None without a row."""
        chunk = as_rows(chunk)
        if n_rows_of(chunk) == 0:
            return None, None
        rows = listed(chunk)
        widths = None if rows is None else frozenset(map(np.size, rows))  # of a text: 1
        if rows is not None and not any(widths or ()):
            nothing = Documents.from_tokens([[] for _ in rows])
            return nothing, DocumentInfo(len(rows), 0, widths=widths)
        known = WordSpace("ids", 0) if self.word_numbers else None
        documents, space = documents_of(self.twin, chunk, known, grow=True, allow_empty=True)
        words = None if space.vocabulary is None else space.vocabulary.words
        lean = replace(space, vocabulary=None)
        head = chunk[:1] if space.kind == "counts" else None
        info = DocumentInfo(len(documents), documents.n_tokens, lean, words, widths, head)
        return documents, info


@contextmanager
def open_chunks(estimator: DocumentEstimator, X: Any, y: Any) -> Iterator[Corpus]:
    """The documents of a Dask collection, read on their workers, and `y`, loaded here."""
    parts = parts_of(type(estimator).__name__, "X", X)
    reader = DocumentReader(portable_clone(estimator))
    with open_collection(estimator) as engine:
        known = held_chunks(estimator, engine, parts, reader, "document")
        if _are_word_numbers([info for _, info in known]):
            reader = replace(reader, word_numbers=True)
            known = held_chunks(estimator, engine, parts, reader, "document")
        words, numbers = _shared_words(estimator, [info for _, info in known])
        items = [(handle, number) for (handle, _), number in zip(known, numbers, strict=True)]
        _, kept = engine.map_sum_and_keep(_renumber, items, None)
        starts = [0, *accumulate(info.n_documents for _, info in known)]
        chunks = tuple(
            DocumentChunk(handle, start, info.n_documents, info.n_tokens)
            for handle, start, (_, info) in zip(kept, starts, known, strict=False)
        )
        (y,) = fetch_collections(estimator, engine, y=y)
        yield Corpus(ChunkedDocuments(chunks), words, engine, y)


def _are_word_numbers(infos: list[DocumentInfo]) -> bool:
    """Whether chunks that look like tables of counts are in fact lists of word numbers.

    Lists of whole numbers are word numbers if their lengths differ. Within one chunk the lengths
    may be equal by chance, so this compares all chunks.
    """
    kinds = {info.space.kind for info in infos if info.space is not None}
    widths: set[int] = set().union(*(info.widths or () for info in infos))
    every_list = all(info.widths is not None for info in infos)
    return "counts" in kinds and kinds <= {"counts", "ids"} and every_list and len(widths) > 1


def _shared_words(
    estimator: DocumentEstimator, infos: list[DocumentInfo]
) -> tuple[WordSpace, list[NDArray[np.int64] | None]]:
    """The words of all chunks, and for each chunk the new numbers of its words."""
    used = [info for info in infos if info.space is not None] or infos
    kinds = {"counts" if info.space is None else info.space.kind for info in used}
    if len(kinds) > 1:
        raise ValueError(
            f"X of {type(estimator).__name__} must have documents of one kind in all chunks. "
            f"Got {sorted(kinds)}."
        )
    kind = kinds.pop()
    if kind == "counts":
        space = documents_of(estimator, used[0].head, None, grow=True)[1]
        for info in used[1:]:
            documents_of(estimator, info.head, space, grow=False)
        return space, [None] * len(infos)
    for stale in ("n_features_in_", "feature_names_in_"):
        estimator.__dict__.pop(stale, None)
    n_words = max(cast(WordSpace, info.space).n_words for info in used)
    if kind == "ids" or estimator.vocabulary is not None:
        fixed = None if estimator.vocabulary is None else Vocabulary.fixed(estimator.vocabulary)
        return WordSpace(kind, n_words, fixed), [None] * len(infos)
    vocabulary = Vocabulary(max_features=text_options(estimator).max_features)
    numbers: list[NDArray[np.int64] | None] = []
    with named_errors(estimator, "X"):
        for info in infos:
            words = info.words or []
            vocabulary, _ = vocabulary.encode([words])
            columns = vocabulary.columns
            numbers.append(np.array([columns.get(word, -1) for word in words], np.int64))
        if not vocabulary:
            raise ValueError("expected a word in at least one of the documents, got none")
    return WordSpace("words", len(vocabulary), vocabulary), numbers


def _renumber(_: None, item: tuple[Documents, IntVec | None]) -> tuple[int, Documents]:
    """The documents of a chunk with the new numbers of its words. -1 drops a word."""
    documents, numbers = item
    if numbers is None:
        return len(documents), documents
    words = numbers[documents.words]
    rows = np.repeat(np.arange(len(documents)), np.diff(documents.indptr))
    order = np.lexsort((words, rows))
    order = order[words[order] >= 0]
    indptr = np.searchsorted(rows[order], np.arange(len(documents) + 1))
    counts = documents.counts[order]
    return len(documents), Documents(indptr, words[order].astype(np.int32), counts)
