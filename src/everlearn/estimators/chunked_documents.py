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
from everlearn.estimators.collections import open_collection, parts_of, twin_of
from everlearn.estimators.documents import WordSpace, documents_of
from everlearn.features.vocabulary import Vocabulary
from everlearn.inference.engine import Engine
from everlearn.inference.local.chunked_topics import ChunkedDocuments, DocumentChunk
from everlearn.runtime.engine import is_collection


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What is known here of a chunk: sizes, and the words as the chunk numbers them."""

    n_documents: int
    n_tokens: int
    space: WordSpace | None
    words: list[str] | None
    head: Any


@dataclass(frozen=True, slots=True)
class DocumentCheck:
    """Reads a chunk where it is, as a twin of the estimator would read a list or a table."""

    twin: Any

    def __call__(self, chunk: Any) -> tuple[Documents | None, DocumentInfo]:
        """The documents, which stay, and what is told of them; a chunk may be empty."""
        if not hasattr(chunk, "shape"):
            chunk = list(chunk)
        n = chunk.shape[0] if hasattr(chunk, "shape") else len(chunk)
        if n == 0:
            return None, DocumentInfo(0, 0, None, None, None)
        documents, space = documents_of(self.twin, chunk, None, grow=True)
        words = None if space.vocabulary is None else space.vocabulary.words
        lean = replace(space, vocabulary=None)
        head = chunk[:1] if space.kind == "counts" else None
        return documents, DocumentInfo(len(documents), documents.n_tokens, lean, words, head)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents for the time of one call, their words, and the engine that works on them."""

    documents: Documents | ChunkedDocuments
    words: WordSpace
    engine: Engine

    def here(self, y: Any) -> Any:
        """Labels or numbers, brought here if they are a collection."""
        bring: Any = self.engine
        return bring.bring(y) if is_collection(y) else y


def check_takes_chunks(estimator: Any) -> None:
    """Refuse a Dask collection if documents must be visited one after the other."""
    name = type(estimator).__name__
    if getattr(estimator, "n_topics", "infer") == "infer" or estimator.word_factor == "collapsed":
        raise TypeError(
            f"'X' of {name} cannot be used: a Dask collection is taken only if the number of "
            "topics is given and word_factor is not 'collapsed', because else every token "
            "sees the draws of all others. Bring it here with compute()."
        )
    if getattr(estimator, "word_weights", False):
        raise TypeError(
            f"'X' of {name} cannot be used: a Dask collection is not taken with "
            "word_weights, which learn from one document after the other."
        )


@contextmanager
def open_corpus(estimator: Any, X: Any) -> Iterator[Corpus]:
    """The documents of a collection, checked and numbered on their workers."""
    parts = parts_of(type(estimator).__name__, "X", X)
    with open_collection(estimator) as engine:
        handles, infos = engine.hold(parts, DocumentCheck(twin_of(estimator)))
        known = [(h, i) for h, i in zip(handles, infos, strict=True) if i.n_documents]
        if not known:
            raise ValueError(f"X of {type(estimator).__name__} must have a document. Got none.")
        words, numbers = _joined(estimator, [info for _, info in known])
        items = [(handle, number) for (handle, _), number in zip(known, numbers, strict=True)]
        _, kept = engine.map_sum_kept(_renumbered, items, None)
        starts = [0, *accumulate(info.n_documents for _, info in known)]
        chunks = tuple(
            DocumentChunk(handle, start, info.n_documents, info.n_tokens)
            for handle, start, (_, info) in zip(kept, starts, known, strict=False)
        )
        yield Corpus(ChunkedDocuments(chunks), words, engine)


def _joined(
    estimator: Any, infos: list[DocumentInfo]
) -> tuple[WordSpace, list[NDArray[np.int64] | None]]:
    """The words of all chunks, in the order in which they come, and the new number of each."""
    kinds = {cast(WordSpace, info.space).kind for info in infos}
    if len(kinds) > 1:
        raise ValueError(
            f"X of {type(estimator).__name__} must have documents of one kind in all chunks. "
            f"Got {sorted(kinds)}."
        )
    kind = kinds.pop()
    if kind == "counts":
        space = documents_of(estimator, infos[0].head, None, grow=True)[1]
        for info in infos[1:]:
            documents_of(estimator, info.head, space, grow=False)
        return space, [None] * len(infos)
    for stale in ("n_features_in_", "feature_names_in_"):
        estimator.__dict__.pop(stale, None)
    n_words = max(cast(WordSpace, info.space).n_words for info in infos)
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
