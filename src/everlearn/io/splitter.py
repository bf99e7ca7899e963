"""Cut a flow of bytes into records: lines, or CSV records whose quoted fields span lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from everlearn.core.arrays import IntVec

Read: TypeAlias = Callable[[int], bytes]
"""Returns at most so many bytes, waiting for at least one; none at the end."""
BLOCK: Final = 1 << 20
"""Bytes that are read at a time."""
MAX_RECORD: Final = 1 << 26
"""Bytes of the longest record."""
MAX_QUOTED_LINES: Final = 10_000
"""Lines of the longest quoted field."""
TOO_LONG: Final = "longer than 64 MiB"
OPEN_QUOTE: Final = "a quote that is not closed"


@dataclass(frozen=True, slots=True)
class Line:
    """One record: its bytes without the newline at the end, its place, and its fault.

    Attributes
    ----------
    data : the bytes; only the first `MAX_RECORD` if there are more
    start, end : places of the first byte, and after the newline if there is one
    fault : what is wrong with the record already, if anything
    """

    data: bytes
    start: int
    end: int
    fault: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Records one after the other; `Line` says what the parts of each are."""

    data: list[bytes]
    starts: IntVec
    ends: IntVec
    faults: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: list[Line]) -> Lines:
        """Put together from single records."""
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
        """Without the lines that are empty or hold only spaces."""
        if all(self.data) and not any(map(bytes.isspace, self.data)):
            return self
        kept = [self[i] for i, data in enumerate(self.data) if data.strip(b" \r\n")]
        return Lines.of(kept)


def cut_lines(read: Read, start: int, delimiter: bytes | None = None) -> Iterator[Lines]:
    """Records as they arrive, at least one at a time; the very last may lack its newline.

    With a delimiter, fields may be in double quotes and then hold line breaks. A quote that is not
    closed within `MAX_QUOTED_LINES` lines, or at all, costs the line that it is on, not those after
    it.
    """
    lines = _physical_lines(read, start)
    return lines if delimiter is None else _quoted_lines(lines, delimiter)


def _physical_lines(read: Read, start: int) -> Iterator[Lines]:
    """What arrives, cut at newlines."""
    held: list[bytes] = []  # pieces of a line whose newline has not come
    n_held = 0  # its bytes, which may be more than are kept
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


def _quoted_lines(lines: Iterator[Lines], delimiter: bytes) -> Iterator[Lines]:
    """The same, with lines joined while a quoted field is open."""
    quotes = _Quotes(delimiter)
    for some in lines:
        if not quotes.inside and not any(b'"' in data for data in some.data):
            yield some
        elif out := [record for i in range(len(some)) for record in quotes.add(some[i])]:
            yield Lines.of(out)
    if out := quotes.rest():
        yield Lines.of(out)


class _Quotes:
    """Joins lines while a quoted field is open."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._held: list[Line] = []
        self._bytes = 0
        self.inside = False

    def add(self, line: Line) -> list[Line]:
        """The records that are complete now."""
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
        """What is held at the end: the line with the open quote is bad, those after it count."""
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
        """Whether a quoted field is open at the end; only at its start a quote opens a field."""
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
