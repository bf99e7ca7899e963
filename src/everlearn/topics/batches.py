"""Batches of documents with their targets, in the form that kernels take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.topics.kernels.sampler import Bags
from everlearn.topics.kernels.words import token_starts


def as_bags(documents: Documents) -> Bags:
    """Documents in the form that kernels take."""
    starts = token_starts(documents.indptr, documents.counts)
    return Bags(documents.indptr, documents.words, documents.counts, starts)


def renumber_words(bags: Bags) -> tuple[IntVec, Bags]:
    """The distinct words of documents, and the documents with words numbered among these."""
    present = np.zeros(bags.words.max(initial=-1) + 1, np.bool_)
    present[bags.words] = True
    places = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present), bags._replace(words=places[bags.words])


@dataclass(frozen=True, slots=True)
class Targets:
    """Labels or numbers of documents, one column for each task.

    signs : (B, Q), labels 1, -1, and 0 for a missing one; in a regression 1, and 0 for missing
    values : (B, Q), the numbers of a regression; else the margin
    """

    signs: NDArray[np.int8]
    values: Mat

    def __getitem__(self, where: slice) -> Targets:
        return Targets(self.signs[where], self.values[where])

    def take(self, rows: IntVec) -> Targets:
        """Targets of the documents at these positions."""
        return Targets(self.signs.take(rows, axis=0), self.values.take(rows, axis=0))

    def of_task(self, task: int) -> Targets:
        """Targets of one task."""
        one = slice(task, task + 1)
        return Targets(
            np.ascontiguousarray(self.signs[:, one]), np.ascontiguousarray(self.values[:, one])
        )

    @classmethod
    def none(cls, n: int) -> Targets:
        """Empty targets for `n` documents without labels."""
        return cls(np.zeros((n, 0), np.int8), np.zeros((n, 0)))


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that are learned together, and their targets.

    lengths : (B,), tokens of each document, at least 1
    """

    bags: Bags
    targets: Targets
    lengths: Vec

    @classmethod
    def of(cls, documents: Documents, targets: Targets) -> Batch:
        """A batch of all these documents."""
        bags = as_bags(documents)
        lengths = np.maximum(np.diff(bags.starts), 1).astype(np.float64)
        return cls(bags, targets, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def documents(self) -> Documents:
        """The documents alone."""
        return Documents(*self.bags[:3])

    @property
    def n_tokens(self) -> int:
        """Tokens of all documents."""
        return int(self.bags.starts[-1])


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """What learning a batch did.

    clock : batches learned so far
    n_documents, n_tokens : of the batch
    ids : (n_topics,), permanent ids of the topics
    shares : (n_topics,), share of each topic in an average document of the batch
    n_rounds : rounds that were made
    converged : False if the objective was still falling in the last round
    """

    clock: int
    n_documents: int
    n_tokens: int
    ids: IntVec
    shares: Vec
    n_rounds: int
    converged: bool

    @property
    def n_topics(self) -> int:
        """Topics in use."""
        return len(self.ids)
