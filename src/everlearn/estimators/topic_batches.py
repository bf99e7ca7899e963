"""Documents of a call cut into batches, in one order or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.inference.engine import Engine
from everlearn.inference.local.chunked_topics import ChunkedBatch, ChunkedDocuments
from everlearn.inference.local.topics import Batch, picked
from everlearn.inference.topic_model import Targets

_AT_ONCE: Final = 4
"""Batches that are laid out at a time."""


def cut_batches(
    documents: Documents,
    targets: Targets,
    orders: Sequence[IntVec | None],
    sizes: tuple[int, int],
    engine: Engine,
) -> Iterator[Batch]:
    """All documents once for each order, with what their tasks ask for.

    `sizes` are those of the very first batch and of all others. Batches are laid out while the
    ones before them are learned.
    """
    first, size = sizes
    whole = (documents, targets, engine.here.n_workers)
    for number, order in enumerate(orders):
        inner = range(size if number else first, len(documents), size)
        cuts = [slice(*ends) for ends in pairwise([0, *inner, len(documents)])]
        parts = cuts if order is None else [order[where] for where in cuts]
        groups = [parts[start : start + _AT_ONCE] for start in range(0, len(parts), _AT_ONCE)]
        for some in engine.here.ahead(_batches, groups, whole):
            yield from some


def chunked_batches(
    documents: ChunkedDocuments, targets: Targets, orders: Sequence[IntVec | None], size: int
) -> Iterator[ChunkedBatch]:
    """All documents once for each order, which is that of the batches only."""
    batches = documents.blocks(size)
    for order in orders:
        places = range(len(batches)) if order is None else np.argsort(order[: len(batches)])
        for i in places:
            yield ChunkedBatch(batches[i], targets.take(batches[i].positions))


def _batches(whole: tuple[Documents, Targets, int], group: Sequence[slice | IntVec]) -> list[Batch]:
    documents, targets, n_workers = whole
    return [
        Batch.of(documents[rows], targets[rows], n_workers)
        if isinstance(rows, slice)
        else Batch.of(picked(documents, rows), targets.take(rows), n_workers)
        for rows in group
    ]
