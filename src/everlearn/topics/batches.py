"""Batches of documents in the form that kernels take, with their targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import IntVec, Vec
from everlearn.core.documents import Documents
from everlearn.topics.kernels.sampler import Bags
from everlearn.topics.kernels.words import token_starts
from everlearn.topics.settings import Targets


def as_bags(documents: Documents) -> Bags:
    """Documents in the form that kernels take."""
    starts = token_starts(documents.indptr, documents.counts)
    return Bags(documents.indptr, documents.words, documents.counts, starts)


def renumbered(bags: Bags) -> tuple[IntVec, Bags]:
    """The distinct words of documents, and these with words numbered by their places there."""
    present = np.zeros(bags.words.max(initial=-1) + 1, np.bool_)
    present[bags.words] = True
    places = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present), bags._replace(words=places[bags.words])


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
