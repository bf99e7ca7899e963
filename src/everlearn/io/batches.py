"""Records as they come out of a source, and batches of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from everlearn.io.ledger import Places
from everlearn.io.splitter import Lines

SHOWN: Final = 200
"""So many letters of a reason are kept."""
KEPT: Final = 1 << 16
"""So many letters of a bad record are kept, or bytes of a line."""
Parse: TypeAlias = Callable[[bytes], tuple[Any, str]]
"""A record out of its bytes, and what is wrong with it, if anything."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Why a record cannot be read, and what it was.

    Attributes
    ----------
    reason : what is wrong, cut to a readable length
    record : the line as it was, or a record of another kind as JSON, if it can be written so
    start : place before the record, if it was a line
    is_cut : whether `record` is its beginning only
    """

    reason: str
    record: str = ""
    start: int | None = None
    is_cut: bool = False

    @classmethod
    def of(cls, reason: str, record: Any) -> Bad:
        """With a record that is no line any more."""
        plain = record.tolist() if isinstance(record, np.ndarray) else record
        try:
            text = json.dumps(plain, ensure_ascii=False)
        except (TypeError, ValueError):
            text = repr(plain)
        return cls(reason[:SHOWN], text[:KEPT], is_cut=len(text) > KEPT)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A record that is an image, by the path of its file."""

    path: str

    def __repr__(self) -> str:
        return repr(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class LineRows:
    """Records that are bytes still.

    Attributes
    ----------
    lines : the bytes
    parse : how to make a record of them
    delimiter : what is between the fields, if the lines are those of a table
    """

    lines: Lines
    parse: Parse
    delimiter: str | None = None

    def __getitem__(self, picked: slice) -> LineRows:
        start, stop, _ = picked.indices(len(self.lines))
        return replace(self, lines=self.lines.part(start, stop))

    def texts(self) -> list[str] | None:
        """The lines as texts, without their ends; None if one of them is not plain UTF-8.

        A plain line has no quotes and no fault.
        """
        if self.lines.faults:
            return None
        try:
            text = b"\n".join(self.lines.data).decode("utf-8")
        except UnicodeDecodeError:
            return None
        if '"' in text or "\ufeff" in text:
            return None
        lines = text.split("\n")
        return [line.rstrip("\r") for line in lines] if "\r" in text else lines

    def parsed(self) -> tuple[list[Any], dict[int, Bad]]:
        """The records, and those that cannot be read."""
        rows: list[Any] = []
        bad: dict[int, Bad] = {}
        for i, data in enumerate(self.lines.data):
            fault = self.lines.faults.get(i, "")
            row, reason = (None, fault) if fault else self.parse(data)
            if reason:
                bad[i] = self.bad(i, reason)
            rows.append(row)
        return rows, bad

    def bad(self, i: int, reason: str) -> Bad:
        """A record with what is wrong with it."""
        line = self.lines[i]
        text = line.data[:KEPT].decode("utf-8", "replace").rstrip("\r\n")
        return Bad(reason[:SHOWN], text, line.start, len(line.data) > KEPT)


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Some records of one source, in order.

    Attributes
    ----------
    source : position of the source in the list of sources
    rows : one entry a record: objects of any kind, the rows of an array or of a sparse table, or
        lines that are not parsed yet
    places : where to go on after each record: bytes, rows, or the mark of a file in a folder
    names : what the fields of a row are called, if rows have no names of their own
    bad : records that could not be read, by position in `rows`
    """

    source: int
    rows: Any
    places: Places
    names: tuple[str, ...] | None = None
    bad: Mapping[int, Bad] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def part(self, start: int, stop: int) -> Chunk:
        """The records from `start` up to `stop`."""
        bad = {i - start: fault for i, fault in self.bad.items() if start <= i < stop}
        return Chunk(self.source, self.rows[start:stop], self.places[start:stop], self.names, bad)

    def parsed(self) -> Chunk:
        """With records instead of lines that are not parsed yet."""
        if not isinstance(self.rows, LineRows):
            return self
        rows, bad = self.rows.parsed()
        return Chunk(self.source, rows, self.places, self.names, bad)


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
