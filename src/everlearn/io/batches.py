"""Chunks of records that a source yields, and batches of chunks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from everlearn.io.encodings import UTF8
from everlearn.io.ledger import Places
from everlearn.io.splitter import Lines

MAX_REASON: Final = 200
"""Longest reason that is kept, in characters."""
MAX_KEPT: Final = 1 << 16
"""Longest part of a bad record that is kept, in characters, or in bytes of a line."""
Parse: TypeAlias = Callable[[bytes], tuple[Any, str]]
"""Turns bytes into a record and what is wrong with it, which is empty for a good record."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be learned, and why.

    Attributes
    ----------
    reason : what is wrong, cut to a readable length
    record : the line as it was; other records as JSON, if possible
    start : place before the record, if it was a line
    is_cut : whether `record` is only the beginning
    """

    reason: str
    record: str = ""
    start: int | None = None
    is_cut: bool = False

    @classmethod
    def of(cls, reason: str, record: Any) -> BadRecord:
        """A bad record from one that is already parsed."""
        plain = record.tolist() if isinstance(record, np.ndarray) else record
        try:
            text = json.dumps(plain, ensure_ascii=False)
        except (TypeError, ValueError):
            text = repr(plain)
        return cls(reason[:MAX_REASON], text[:MAX_KEPT], is_cut=len(text) > MAX_KEPT)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A record that is an image file."""

    path: str

    def __repr__(self) -> str:
        return repr(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class LineRows:
    """Records that are not parsed yet.

    Attributes
    ----------
    lines : their bytes
    parse : turns the bytes of one into a record
    delimiter : what separates the fields, if the lines are rows of a table
    encoding : encoding of the bytes
    """

    lines: Lines
    parse: Parse
    delimiter: str = ""
    encoding: str = UTF8

    def __getitem__(self, picked: slice) -> LineRows:
        start, stop, _ = picked.indices(len(self.lines))
        return replace(self, lines=self.lines.part(start, stop))

    def texts(self) -> list[str] | None:
        """The lines as texts without line ends; None if one has quotes, a fault or other bytes."""
        if self.lines.faults:
            return None
        try:
            text = b"\n".join(self.lines.data).decode(self.encoding)
        except UnicodeDecodeError:
            return None
        if '"' in text or "\ufeff" in text:
            return None
        lines = text.split("\n")
        return [line.rstrip("\r") for line in lines] if "\r" in text else lines

    def parsed(self) -> tuple[list[Any], dict[int, BadRecord]]:
        """The records, and what is wrong with those that cannot be parsed."""
        rows: list[Any] = []
        bad: dict[int, BadRecord] = {}
        for i, data in enumerate(self.lines.data):
            fault = self.lines.faults.get(i, "")
            row, reason = (None, fault) if fault else self.parse(data)
            if reason:
                bad[i] = self.bad(i, reason)
            rows.append(row)
        return rows, bad

    def bad(self, i: int, reason: str) -> BadRecord:
        """A line as a bad record."""
        line = self.lines[i]
        text = line.data[:MAX_KEPT].decode(self.encoding, "replace").rstrip("\r\n")
        return BadRecord(reason[:MAX_REASON], text, line.start, len(line.data) > MAX_KEPT)


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Some records of one source, in order.

    Attributes
    ----------
    source : position of the source in the list of sources
    rows : one entry for each record: a list of objects, an array, a sparse table, or `LineRows`
    places : where to go on after each record: bytes, rows, or the mark of a file in a folder
    names : names of the fields, if the rows are those of a table
    bad : records that could not be read, by position in `rows`
    decimal : decimal mark of numbers in texts
    """

    source: int
    rows: Any
    places: Places
    names: tuple[str, ...] | None = None
    bad: Mapping[int, BadRecord] = field(default_factory=dict)
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.places)

    def part(self, start: int, stop: int) -> Chunk:
        """The records from `start` up to `stop`."""
        bad = {i - start: fault for i, fault in self.bad.items() if start <= i < stop}
        rows, places = self.rows[start:stop], self.places[start:stop]
        return replace(self, rows=rows, places=places, bad=bad)

    def parsed(self) -> Chunk:
        """The chunk with lines parsed into records."""
        if not isinstance(self.rows, LineRows):
            return self
        rows, bad = self.rows.parsed()
        return replace(self, rows=rows, bad=bad)


Batch = list[Chunk]
"""Records that are learned together."""


def batch_size(batch: Batch) -> int:
    """Number of records of a batch, including bad ones."""
    return sum(len(chunk) for chunk in batch)


class Batcher:
    """Cuts chunks of any sources into batches of a fixed number of records.

    Records of an incomplete batch wait in `pending`; `flush` makes a batch of them.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.pending: Batch = []

    def add(self, chunk: Chunk) -> Iterator[Batch]:
        """The batches that are complete now."""
        start = 0
        while start < len(chunk):
            room = self._size - batch_size(self.pending)
            piece = chunk.part(start, min(len(chunk), start + room))
            self.pending.append(piece)
            start += len(piece)
            if batch_size(self.pending) == self._size:
                yield self.flush()

    def flush(self) -> Batch:
        """The records that wait, as a batch."""
        batch, self.pending = self.pending, []
        return batch
