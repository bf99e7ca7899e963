"""Documents of a call cut into batches, in one order or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.inference.engine import Engine
from everlearn.inference.local.chunked_topics import ChunkedDocuments
from everlearn.inference.local.topics import picked
from everlearn.inference.topic_model import Targets

_AT_ONCE: Final = 4
"""Batches whose documents are put together at a time."""


def cut_batches(
    documents: Documents,
    targets: Targets,
    orders: Sequence[IntVec | None],
    sizes: tuple[int, int],
    engine: Engine,
) -> Iterator[tuple[Documents, Targets]]:
    """All documents once for each order, with what their tasks ask for.

    `sizes` are those of the very first batch and of all others.
    """
    first, size = sizes
    for number, order in enumerate(orders):
        inner = range(size if number else first, len(documents), size)
        cuts = [slice(*ends) for ends in pairwise([0, *inner, len(documents)])]
        if order is None:
            for where in cuts:
                yield documents[where], targets[where]
            continue
        rows = [order[where] for where in cuts]
        groups = [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]
        for some in engine.here.ahead(_batches, groups, (documents, targets)):
            yield from some


def chunked_batches(
    documents: ChunkedDocuments, targets: Targets, orders: Sequence[IntVec | None], size: int
) -> Iterator[tuple[ChunkedDocuments, Targets]]:
    """All documents once for each order, which is that of the batches only."""
    batches = documents.blocks(size)
    for order in orders:
        places = range(len(batches)) if order is None else np.argsort(order[: len(batches)])
        for i in places:
            yield batches[i], targets.take(batches[i].positions)


def _batches(
    whole: tuple[Documents, Targets], group: Sequence[IntVec]
) -> list[tuple[Documents, Targets]]:
    documents, targets = whole
    return [(picked(documents, rows), targets.take(rows)) for rows in group]
