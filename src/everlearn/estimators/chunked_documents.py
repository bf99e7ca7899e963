"""Dask collections of documents: read where they are, with one vocabulary for all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.estimators.base import named_errors
from everlearn.estimators.collections import (
    as_rows,
    brought_here,
    held_chunks,
    n_rows_of,
    open_collection,
    parts_of,
    twin_of,
)
from everlearn.estimators.documents import WordSpace, documents_of
from everlearn.features.text import listed
from everlearn.features.vocabulary import Vocabulary
from everlearn.inference.engine import Engine
from everlearn.inference.local.chunked_topics import ChunkedDocuments, DocumentChunk


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What is known here of a chunk: sizes, and the words as the chunk numbers them.

    space : None, if no document has an entry: then nothing is known of their kind
    widths : numbers of entries of the documents of a list
    head : the first row of a table
    """

    n_documents: int
    n_tokens: int
    space: WordSpace | None = None
    words: list[str] | None = None
    widths: frozenset[int] | None = None
    head: Any = None


@dataclass(frozen=True, slots=True)
class DocumentCheck:
    """Reads a chunk where it is, as a twin of the estimator would read a list or a table.

    ids : whether rows of numbers are known to be numbers of words
    """

    twin: Any
    ids: bool = False

    def __call__(self, chunk: Any) -> tuple[Documents | None, DocumentInfo | None]:
        """The documents, which stay, and what is told of them; a chunk may be empty."""
        chunk = as_rows(chunk)
        if n_rows_of(chunk) == 0:
            return None, None
        rows = listed(chunk)
        widths = None if rows is None else frozenset(map(np.size, rows))  # of a text: 1
        if rows is not None and not any(widths or ()):
            nothing = Documents.from_tokens([[] for _ in rows])
            return nothing, DocumentInfo(len(rows), 0, widths=widths)
        begun = WordSpace("ids", 0) if self.ids else None
        documents, space = documents_of(self.twin, chunk, begun, grow=True, allow_empty=True)
        words = None if space.vocabulary is None else space.vocabulary.words
        lean = replace(space, vocabulary=None)
        head = chunk[:1] if space.kind == "counts" else None
        told = DocumentInfo(len(documents), documents.n_tokens, lean, words, widths, head)
        return documents, told


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents for the time of one call, their words, the engine, and what goes with them."""

    documents: Documents | ChunkedDocuments
    words: WordSpace
    engine: Engine
    y: Any = None


def learns_in_chunks(estimator: Any) -> bool:
    """Whether chunks of documents may stay where they are: tokens must not see all others.

    With collapsed counts they do. Topics that are born are judged by documents that are here, and
    weights of words learn from one document after the other.
    """
    given = getattr(estimator, "n_topics", "infer") != "infer"
    alone = given and estimator.word_factor != "collapsed"
    return alone and not getattr(estimator, "word_weights", False)


@contextmanager
def open_corpus(estimator: Any, X: Any, y: Any) -> Iterator[Corpus]:
    """The documents of a collection, checked and numbered on their workers; `y` comes here."""
    parts = parts_of(type(estimator).__name__, "X", X)
    check = DocumentCheck(twin_of(estimator))
    with open_collection(estimator) as engine:
        known = held_chunks(estimator, engine, parts, check, "document")
        if _are_ids([info for _, info in known]):
            check = replace(check, ids=True)
            known = held_chunks(estimator, engine, parts, check, "document")
        words, numbers = _joined(estimator, [info for _, info in known])
        items = [(handle, number) for (handle, _), number in zip(known, numbers, strict=True)]
        _, kept = engine.map_sum_kept(_renumbered, items, None)
        starts = [0, *accumulate(info.n_documents for _, info in known)]
        chunks = tuple(
            DocumentChunk(handle, start, info.n_documents, info.n_tokens)
            for handle, start, (_, info) in zip(kept, starts, known, strict=False)
        )
        (y,) = brought_here(estimator, engine, y=y)
        yield Corpus(ChunkedDocuments(chunks), words, engine, y)


def _are_ids(infos: list[DocumentInfo]) -> bool:
    """Whether rows that a chunk alone takes for counts are numbers of words, seen all together.

    Lists of whole numbers of different lengths are; a chunk may have some of the same length.
    """
    kinds = {info.space.kind for info in infos if info.space is not None}
    widths: set[int] = set().union(*(info.widths or () for info in infos))
    every_list = all(info.widths is not None for info in infos)
    return "counts" in kinds and kinds <= {"counts", "ids"} and every_list and len(widths) > 1


def _joined(
    estimator: Any, infos: list[DocumentInfo]
) -> tuple[WordSpace, list[NDArray[np.int64] | None]]:
    """The words of all chunks, in the order in which they come, and the new number of each."""
    told = [info for info in infos if info.space is not None] or infos
    kinds = {"counts" if info.space is None else info.space.kind for info in told}
    if len(kinds) > 1:
        raise ValueError(
            f"X of {type(estimator).__name__} must have documents of one kind in all chunks. "
            f"Got {sorted(kinds)}."
        )
    kind = kinds.pop()
    if kind == "counts":
        space = documents_of(estimator, told[0].head, None, grow=True)[1]
        for info in told[1:]:
            documents_of(estimator, info.head, space, grow=False)
        return space, [None] * len(infos)
    for stale in ("n_features_in_", "feature_names_in_"):
        estimator.__dict__.pop(stale, None)
    n_words = max(cast(WordSpace, info.space).n_words for info in told)
    if kind == "ids" or estimator.vocabulary is not None:
        fixed = None if estimator.vocabulary is None else Vocabulary.fixed(estimator.vocabulary)
        return WordSpace(kind, n_words, fixed), [None] * len(infos)
    vocabulary = Vocabulary(max_words=estimator.max_words)
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


def _renumbered(_: None, item: tuple[Documents, IntVec | None]) -> tuple[int, Documents]:
    """Documents whose words have the numbers that all chunks agree on; a number may be missing."""
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
