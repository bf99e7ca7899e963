"""Cutting a flow of bytes into records, in time and memory that do not depend on its faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

Read: TypeAlias = Callable[[int], bytes]
"""What there is, up to so many bytes, after waiting for at least one; nothing at the end."""

BLOCK: Final = 1 << 18
MAX_RECORD: Final = 1 << 26
MAX_QUOTED_LINES: Final = 10_000
TOO_LONG: Final = "longer than 64 MiB"
OPEN_QUOTE: Final = "a quote that is not closed"


@dataclass(frozen=True, slots=True)
class Line:
    """A record as bytes, the place after it, and what is wrong with it already, if anything."""

    data: bytes
    end: int
    fault: str = ""


def cut_lines(read: Read, start: int, delimiter: bytes | None = None) -> Iterator[list[Line]]:
    """Records as they arrive; the very last may lack its newline.

    With a delimiter, fields may be in double quotes and then hold line breaks. A quote that is not
    closed within `MAX_QUOTED_LINES` lines, or at all, costs the line that it is on, not those after
    it.
    """
    lines = _physical_lines(read, start)
    if delimiter is None:
        yield from lines
        return
    joined = _Quotes(delimiter)
    for some in lines:
        if out := [record for line in some for record in joined.add(line)]:
            yield out
    if out := joined.rest():
        yield out


def _physical_lines(read: Read, start: int) -> Iterator[list[Line]]:
    pieces: list[bytes] = []
    held, end = 0, start
    while block := read(BLOCK):
        *complete, rest = block.split(b"\n")
        out: list[Line] = []
        for part in complete:
            held += len(part) + 1
            end += held
            whole = b"".join([*pieces, part, b"\n"]) if pieces else part + b"\n"
            fault = TOO_LONG if held > MAX_RECORD else ""
            out.append(Line(whole[:MAX_RECORD] if fault else whole, end, fault))
            pieces, held = [], 0
        if rest:
            if held <= MAX_RECORD:
                pieces.append(rest)
            held += len(rest)
        if out:
            yield out
    if held:
        fault = TOO_LONG if held > MAX_RECORD else ""
        yield [Line(b"".join(pieces)[:MAX_RECORD], end + held, fault)]


class _Quotes:
    """Joins lines while a quoted field is open."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._held: list[Line] = []
        self._bytes = 0
        self._inside = False

    def add(self, line: Line) -> list[Line]:
        """The records that are complete now."""
        if not self._inside and (line.fault or b'"' not in line.data):
            return [line]
        self._inside = not line.fault and self._open_after(line.data)
        self._held.append(line)
        self._bytes += len(line.data)
        if not self._inside:
            return [self._joined()]
        if len(self._held) > MAX_QUOTED_LINES or self._bytes > MAX_RECORD:
            return self.rest()
        return []

    def rest(self) -> list[Line]:
        """What is held at the end: the line with the open quote is bad, those after it count."""
        out: list[Line] = []
        while self._held:
            first, *others = self._held
            out.append(Line(first.data, first.end, OPEN_QUOTE))
            self._held, self._bytes, self._inside = [], 0, False
            for line in others:
                out += self.add(line)
        return out

    def _joined(self) -> Line:
        held, self._held, self._bytes = self._held, [], 0
        fault = next((line.fault for line in held if line.fault), "")
        if len(held) == 1:
            return held[0]
        return Line(b"".join(line.data for line in held), held[-1].end, fault)

    def _open_after(self, data: bytes) -> bool:
        """Whether a quoted field is open at the end; only at its start a quote opens a field."""
        inside, at = self._inside, 0
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
