"""Rows and their labels in chunks that an engine holds, often on other machines.

A learner knows how many rows there are, and their weight. It gets sums from the engine, and fetches
few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Labels
from everlearn.core.random import stream
from everlearn.engine.protocol import Engine, Handle, Piece, runs
from everlearn.engine.rows import Rows, concatenate

_BORN = -1
"""In place of a new label: rows get the labels of the proposed birth."""


class _InChunks(Protocol):
    """Rows or documents in chunks."""

    @property
    def chunks(self) -> tuple[Any, ...]: ...

    def __len__(self) -> int: ...


C = TypeVar("C", bound=_InChunks)


def split_chunks(whole: C, size: int) -> list[C]:
    """Batches of about `size` rows or documents, at least a chunk each.

    With n batches, each takes every n-th chunk: neighbours are often on the same worker, and each
    batch should be work for all workers.
    """
    n = max(1, min(len(whole.chunks), round(len(whole) / size)))
    parts: Any = whole
    return [replace(parts, chunks=parts.chunks[i::n]) for i in range(n)]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Rows that are held together: a handle of `Rows`, their number, weight and size."""

    handle: Handle
    n_rows: int
    mass: float
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedRows:
    """Rows in chunks, of `width` features each, of which some may be `missing`."""

    chunks: tuple[Chunk, ...]
    width: int
    missing: bool = False

    def __len__(self) -> int:
        return sum(chunk.n_rows for chunk in self.chunks)

    @property
    def mass(self) -> float:
        """Sum of the weights."""
        return float(sum(chunk.mass for chunk in self.chunks))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def blocks(self, size: int) -> list[ChunkedRows]:
        """Batches of about `size` rows, at least a chunk each."""
        return split_chunks(self, size)

    def pieces(self, size: int) -> list[Piece]:
        """Runs of at most `size` rows, for the tasks of an engine."""
        return [
            Piece(chunk.handle, None, where)
            for chunk in self.chunks
            for where in runs(chunk.n_rows, size)
        ]

    def take(self, positions: IntVec, engine: Engine) -> Rows:
        """The rows at these positions, in ascending order, fetched into this process."""
        ends = list(accumulate(chunk.n_rows for chunk in self.chunks))
        cuts = np.searchsorted(positions, [0, *ends])
        requests = []
        for chunk, end, low, high in zip(self.chunks, ends, cuts[:-1], cuts[1:], strict=True):
            if high > low:
                requests.append((chunk.handle, positions[low:high] - (end - chunk.n_rows)))
        return concatenate(engine.map(_rows_at, requests, None))


def _rows_at(_: None, request: tuple[Rows, IntVec]) -> Rows:
    rows, positions = request
    return rows[positions].copy()


def sample_rows(rows: Rows | ChunkedRows, size: int, seed: int, engine: Engine) -> Rows:
    """At most `size` random rows in their order, in this process."""
    if len(rows) <= size:
        return rows.take(np.arange(len(rows)), engine)
    chosen = stream(seed, "subsample").choice(len(rows), size, replace=False)
    return rows.take(np.sort(chosen), engine)


@dataclass(frozen=True, slots=True)
class BlockLabels:
    """Labels of the rows of a block: now, and if all proposed births are accepted (`born`)."""

    labels: Labels
    born: Labels


@dataclass(frozen=True, slots=True, eq=False)
class KeptLabels:
    """Labels of the rows of a batch in chunks. They stay on the workers, beside the rows.

    handles : of a list of `BlockLabels` for each chunk
    changes : pairs of a label and what it has become since, in order
    """

    handles: tuple[Handle, ...]
    changes: tuple[tuple[int, int], ...] = ()

    def merged(self, keep: int, drop: int) -> KeptLabels:
        """The labels after a merge."""
        return replace(self, changes=(*self.changes, (drop, keep)))

    def split(self, target: int) -> KeptLabels:
        """The labels after the birth that was proposed for the target."""
        return replace(self, changes=(*self.changes, (target, _BORN)))


def _current(blocks: Sequence[BlockLabels], changes: Sequence[tuple[int, int]]) -> Labels:
    """The labels after their changes."""
    labels = np.concatenate([part.labels for part in blocks])
    born = np.concatenate([part.born for part in blocks])
    for old, new in changes:
        where = labels == old
        labels[where] = born[where] if new == _BORN else new
    return labels


@dataclass(frozen=True, slots=True, eq=False)
class LabelledChunks:
    """Chunks of all batches with their labels, to find rows by label."""

    chunks: tuple[Chunk, ...]
    labels: tuple[Handle, ...]
    changes: tuple[tuple[tuple[int, int], ...], ...]

    def counts(self, components: IntVec, engine: Engine) -> NDArray[np.int64]:
        """Rows of each chunk with each label, (n_chunks, n_components)."""
        found = engine.map(
            _label_counts, list(zip(self.labels, self.changes, strict=True)), components
        )
        return np.array(found, np.int64).reshape(len(self.chunks), len(components))

    def rows(self, ranks: Sequence[Sequence[tuple[int, IntVec]]], engine: Engine) -> list[Rows]:
        """Rows of each of the wanted labels, fetched into this process.

        `ranks` gives, for each chunk, pairs of a label and which of its rows are wanted. A label
        is wanted in all chunks or in none.
        """
        handles = (chunk.handle for chunk in self.chunks)
        requests = [
            (handle, labels, changes, list(wanted))
            for handle, labels, changes, wanted in zip(
                handles, self.labels, self.changes, ranks, strict=True
            )
            if wanted
        ]
        found = engine.map(_rows_with_labels, requests, None)
        return [concatenate(list(parts)) for parts in zip(*found, strict=True)]


def _label_counts(
    components: IntVec, labelled: tuple[list[BlockLabels], tuple[tuple[int, int], ...]]
) -> IntVec:
    labels = _current(*labelled)
    return np.array([np.count_nonzero(labels == k) for k in components], np.int64)


def _rows_with_labels(
    _: None,
    request: tuple[Rows, list[BlockLabels], tuple[tuple[int, int], ...], list[tuple[int, IntVec]]],
) -> list[Rows]:
    rows, blocks, changes, wanted = request
    labels = _current(blocks, changes)
    return [rows[np.flatnonzero(labels == k)[ranks]].copy() for k, ranks in wanted]
