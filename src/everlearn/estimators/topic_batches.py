"""Documents of a call cut into batches, in one order or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.inference.engine import Engine, among
from everlearn.inference.local.chunked_topics import ChunkedBatch, ChunkedDocuments
from everlearn.inference.local.topic_batches import Batch, laid_out, layout_of
from everlearn.inference.topic_model import Targets
from everlearn.inference.topic_state import Undo

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
    parts, at_once = _parts(len(documents), orders, sizes), max(1, _AT_ONCE // sizes[1])
    groups = iter(lambda: list(islice(parts, at_once)), [])
    layouts = (layout_of(documents, group, engine.here.n_workers) for group in groups)
    for layout, ahead in pairwise(chain(layouts, [None])):
        assert layout is not None
        share = among(engine.here, layout.n_batches)
        yield from laid_out(layout, targets, ahead or layout, share)


def _parts(n: int, orders: Sequence[IntVec | None], sizes: tuple[int, int]) -> Iterator[IntVec]:
    """Positions of the documents of each batch."""
    first, size = sizes
    for number, order in enumerate(orders):
        rows = np.arange(n) if order is None else order
        inner = range(size if number else first, n, size)
        yield from (rows[start:stop] for start, stop in pairwise(chain([0], inner, [n])))


def chunked_batches(
    documents: ChunkedDocuments, targets: Targets, orders: Sequence[IntVec | None], size: int
) -> Iterator[ChunkedBatch]:
    """All documents once for each order, which is that of the batches only."""
    batches = documents.blocks(size)
    for order in orders:
        places = range(len(batches)) if order is None else np.argsort(order[: len(batches)])
        for i in places:
            yield ChunkedBatch(batches[i], targets.take(batches[i].positions))


def orders_of(told: NDArray[np.bool_], n_passes: int, seed: int | None) -> list[IntVec | None]:
    """One for each pass: documents that nothing is told about last; without a seed as they came."""
    if seed is None:
        return [None] * n_passes
    drawn = [stream(seed, "order", 0, i).permutation(len(told)) for i in range(n_passes)]
    return [order[np.argsort(~told[order], kind="stable")] for order in drawn]


def remembered(batches: Iterator[Batch], undos: Sequence[Undo]) -> Iterator[Batch]:
    """The batches, the rows of whose words are kept before each is learned."""
    for batch in batches:
        for undo in undos:
            undo.remember(batch.documents.words)
        yield batch
