"""Records as they come out of a source, and batches of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.io.ledger import Places
from everlearn.io.splitter import TOO_LONG, Lines

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

    def __getitem__(self, picked: IntVec | slice) -> LineRows:
        return replace(self, lines=self.lines.taken(picked))

    def texts(self) -> list[str] | None:
        """The lines as texts, without their ends; None if one of them is not plain UTF-8.

        A plain line has no quotes and no fault.
        """
        if self.lines.faults:
            return None
        data = [self.lines[i].data.rstrip(b"\r\n") for i in range(len(self.lines))]
        try:
            text = b"\n".join(data).decode("utf-8")
        except UnicodeDecodeError:
            return None
        plain = '"' not in text and "\ufeff" not in text
        return text.split("\n") if plain else None

    def parsed(self) -> tuple[list[Any], dict[int, Bad]]:
        """The records, and those that cannot be read."""
        rows: list[Any] = []
        bad: dict[int, Bad] = {}
        for i in range(len(self.lines)):
            line = self.lines[i]
            row, reason = (None, line.fault) if line.fault else self.parse(line.data)
            if reason:
                bad[i] = self.bad(i, reason)
            rows.append(row)
        return rows, bad

    def bad(self, i: int, reason: str) -> Bad:
        """A record with what is wrong with it."""
        line = self.lines[i]
        text = line.data[:KEPT].decode("utf-8", "replace").rstrip("\r\n")
        start = None if line.fault == TOO_LONG else line.end - len(line.data)
        return Bad(reason[:SHOWN], text, start, len(line.data) > KEPT)


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

    @property
    def _is_raw(self) -> bool:
        return isinstance(self.rows, LineRows)

    def part(self, start: int, stop: int) -> Chunk:
        """The records from `start` up to `stop`."""
        bad = {i - start: fault for i, fault in self.bad.items() if start <= i < stop}
        return Chunk(self.source, self.rows[start:stop], self.places[start:stop], self.names, bad)

    def parsed(self, picked: IntVec | slice = slice(None)) -> Chunk:
        """Some records of lines that are not parsed yet, parsed; other chunks stay as they are."""
        if not self._is_raw:
            return self
        rows, bad = self.rows[picked].parsed()
        return Chunk(self.source, rows, np.asarray(self.places)[picked], self.names, bad)

    def record(self, i: int) -> Any:
        """One record, parsed."""
        return self.parsed(slice(i, i + 1)).rows[0] if self._is_raw else self.rows[i]


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
