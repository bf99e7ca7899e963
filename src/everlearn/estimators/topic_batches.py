"""Documents of a call cut into batches, in one order or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.inference.engine import Engine, among
from everlearn.inference.local.chunked_topics import ChunkedBatch, ChunkedDocuments
from everlearn.inference.local.topic_batches import Batch, laid_out, layout_of
from everlearn.inference.topic_model import Targets

_AT_ONCE: Final = 4096
"""Documents of the batches that are laid out together."""


def cut_batches(
    documents: Documents,
    targets: Targets,
    orders: Sequence[IntVec | None],
    sizes: tuple[int, int],
    engine: Engine,
) -> Iterator[Batch]:
    """All documents once for each order, with what their tasks ask for.

    `sizes` are those of the very first batch and of all others.
    """
    first, size = sizes
    parts = []
    for number, order in enumerate(orders):
        rows = np.arange(len(documents)) if order is None else order
        inner = range(size if number else first, len(documents), size)
        parts += [rows[a:b] for a, b in pairwise([0, *inner, len(documents)])]
    at_once = max(1, _AT_ONCE // size)
    share, n_workers = among(engine.here, at_once), engine.here.n_workers
    layout = layout_of(documents, parts[:at_once], n_workers)
    for start in range(at_once, len(parts) + at_once, at_once):
        ahead = layout_of(documents, parts[start : start + at_once], n_workers)
        yield from laid_out(layout, targets, ahead, share)
        layout = ahead


def chunked_batches(
    documents: ChunkedDocuments, targets: Targets, orders: Sequence[IntVec | None], size: int
) -> Iterator[ChunkedBatch]:
    """All documents once for each order, which is that of the batches only."""
    batches = documents.blocks(size)
    for order in orders:
        places = range(len(batches)) if order is None else np.argsort(order[: len(batches)])
        for i in places:
            yield ChunkedBatch(batches[i], targets.take(batches[i].positions))
