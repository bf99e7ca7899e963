"""Records as they come out of a source, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Bad:
    """Why a record cannot be read, and what it was, cut to a readable length."""

    reason: str
    record: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Some records of one source, in order.

    Attributes
    ----------
    source : position of the source in the list of sources
    rows : one entry a record: objects of any kind, the rows of an array, or of a sparse table
    places : where to go on after each record: bytes, rows, or the mark of a file in a folder
    names : what the fields of a row are called, if rows have no names of their own
    bad : records that could not be read, by position in `rows`
    """

    source: int
    rows: Any
    places: Sequence[int]
    names: tuple[str, ...] | None = None
    bad: Mapping[int, Bad] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def part(self, start: int, stop: int) -> Chunk:
        """The records from `start` up to `stop`."""
        bad = {i - start: self.bad[i] for i in range(start, stop) if i in self.bad}
        return Chunk(self.source, self.rows[start:stop], self.places[start:stop], self.names, bad)


Batch = list[Chunk]
"""Records that are learned together."""


def batch_size(batch: Batch) -> int:
    """Number of records in a batch, bad ones included."""
    return sum(len(chunk) for chunk in batch)


class Batcher:
    """Cuts chunks into batches of a fixed number of records, whatever their sources.

    What is left over waits in `pending`; who feeds it decides when the rest makes a batch too.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.pending: Batch = []

    def add(self, chunk: Chunk) -> Iterator[Batch]:
        """The batches that are full now."""
        start = 0
        while start < len(chunk):
            room = self._size - batch_size(self.pending)
            piece = chunk.part(start, min(len(chunk), start + room))
            self.pending.append(piece)
            start += len(piece)
            if batch_size(self.pending) == self._size:
                yield self.rest()

    def rest(self) -> Batch:
        """What waits, which then no longer does."""
        batch, self.pending = self.pending, []
        return batch
