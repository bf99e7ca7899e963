"""Split bytes into records: lines, or CSV rows with quoted fields that span lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from everlearn.core.arrays import IntVec

Read: TypeAlias = Callable[[int], bytes]
"""Returns at most this many bytes, and waits for at least one. No bytes are the end."""
BLOCK: Final = 1 << 20
"""Bytes to read at a time."""
MAX_RECORD: Final = 1 << 26
"""Longest record, in bytes."""
MAX_QUOTED_LINES: Final = 10_000
"""Longest quoted field, in lines."""
TOO_LONG: Final = "longer than 64 MiB"
OPEN_QUOTE: Final = "a quote that is not closed"


@dataclass(frozen=True, slots=True)
class Line:
    """One record: its bytes without the newline at the end, its place, and its fault.

    Attributes
    ----------
    data : the bytes, at most `MAX_RECORD`
    start, end : place of the first byte, and place after the newline
    fault : what is wrong with the record; empty for a good one
    """

    data: bytes
    start: int
    end: int
    fault: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Consecutive records, one `Line` each, in columns."""

    data: list[bytes]
    starts: IntVec
    ends: IntVec
    faults: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: list[Line]) -> Lines:
        """Lines from single records."""
        return cls(
            [line.data for line in lines],
            np.array([line.start for line in lines], np.int64),
            np.array([line.end for line in lines], np.int64),
            {i: line.fault for i, line in enumerate(lines) if line.fault},
        )

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Line:
        i %= len(self)
        return Line(self.data[i], int(self.starts[i]), int(self.ends[i]), self.faults.get(i, ""))

    @property
    def are_finished(self) -> bool:
        """Whether the last record ended with a newline."""
        last = self[-1]
        return last.end - last.start > len(last.data)

    def part(self, start: int, stop: int) -> Lines:
        """The records from `start` up to `stop`."""
        faults = {i - start: fault for i, fault in self.faults.items() if start <= i < stop}
        picked = slice(start, stop)
        return Lines(self.data[picked], self.starts[picked], self.ends[picked], faults)

    def without_blanks(self) -> Lines:
        """Without lines that are empty or blank."""
        if all(self.data) and not any(map(bytes.isspace, self.data)):
            return self
        kept = [self[i] for i, data in enumerate(self.data) if data.strip(b" \r\n")]
        return Lines.of(kept)


def cut_lines(read: Read, start: int, delimiter: bytes | None = None) -> Iterator[Lines]:
    """Records as soon as they arrive. The last one may lack its newline.

    With a delimiter, a field in double quotes may hold line breaks. If a quote is not closed within
    `MAX_QUOTED_LINES` lines, only the line that it is on is bad.
    """
    lines = _split_at_newlines(read, start)
    return lines if delimiter is None else _join_quoted_lines(lines, delimiter)


def _split_at_newlines(read: Read, start: int) -> Iterator[Lines]:
    """The bytes, split at newlines."""
    held: list[bytes] = []  # pieces of a line without its newline
    n_held = 0  # its length, which may exceed the pieces that are kept
    while block := read(BLOCK):
        data = block.split(b"\n")
        rest = data.pop()
        if data:
            sizes = np.fromiter(map(len, data), np.int64, len(data)) + 1
            sizes[0] += n_held
            ends = start + np.cumsum(sizes)
            if held:
                data[0] = b"".join([*held, data[0]])
            faults = {}
            if sizes[0] - 1 > MAX_RECORD:
                data[0], faults = data[0][:MAX_RECORD], {0: TOO_LONG}
            yield Lines(data, ends - sizes, ends, faults)
            start, held, n_held = int(ends[-1]), [], 0
        if rest:
            if n_held <= MAX_RECORD:
                held.append(rest)
            n_held += len(rest)
    if n_held:
        fault = TOO_LONG if n_held > MAX_RECORD else ""
        yield Lines.of([Line(b"".join(held)[:MAX_RECORD], start, start + n_held, fault)])


def _join_quoted_lines(lines: Iterator[Lines], delimiter: bytes) -> Iterator[Lines]:
    """Rows of CSV: lines are joined while a quoted field is open."""
    quotes = _QuotedRows(delimiter)
    for some in lines:
        if not quotes.inside and not any(b'"' in data for data in some.data):
            yield some
        elif out := [record for i in range(len(some)) for record in quotes.add(some[i])]:
            yield Lines.of(out)
    if out := quotes.rest():
        yield Lines.of(out)


class _QuotedRows:
    """Joins lines while a quoted field is open."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._held: list[Line] = []
        self._bytes = 0
        self.inside = False

    def add(self, line: Line) -> list[Line]:
        """The rows that are complete now."""
        if not self.inside and (line.fault or b'"' not in line.data):
            return [line]
        self.inside = not line.fault and self._open_after(line.data)
        self._held.append(line)
        self._bytes += len(line.data)
        if not self.inside:
            return [self._joined()]
        if len(self._held) > MAX_QUOTED_LINES or self._bytes > MAX_RECORD:
            return self.rest()
        return []

    def rest(self) -> list[Line]:
        """The held lines at the end: the line with the open quote is bad, the others are rows."""
        out: list[Line] = []
        while self._held:
            first, *others = self._held
            out.append(Line(first.data, first.start, first.end, OPEN_QUOTE))
            self._held, self._bytes, self.inside = [], 0, False
            for line in others:
                out += self.add(line)
        return out

    def _joined(self) -> Line:
        held, self._held, self._bytes = self._held, [], 0
        fault = next((line.fault for line in held if line.fault), "")
        if len(held) == 1:
            return held[0]
        data = b"\n".join(line.data for line in held)
        return Line(data, held[0].start, held[-1].end, fault)

    def _open_after(self, data: bytes) -> bool:
        """Whether a quoted field is open after the line. A quote inside a field opens none."""
        inside, at = self.inside, 0
        while True:
            if inside:
                at = data.find(b'"', at)
                if at < 0:
                    return True
                if data[at + 1 : at + 2] == b'"':
                    at += 2
                    continue
                inside = False
                at += 1
            elif data[at : at + 1] == b'"':
                inside = True
                at += 1
                continue
            at = data.find(self._delimiter, at)
            if at < 0:
                return False
            at += 1
