"""Cutting a flow of bytes into records, in time and memory that do not depend on its faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from everlearn.attic.runtime_stream_rooms import Rooms
from everlearn.core.arrays import IntVec

Read: TypeAlias = Callable[[memoryview], int]
"""Puts what there is into a view, from its start on, after waiting for at least one byte, and says
how many there are; none at the end."""
BLOCK: Final = 1 << 20
MAX_RECORD: Final = 1 << 26
MAX_QUOTED_LINES: Final = 10_000
TOO_LONG: Final = "longer than 64 MiB"
OPEN_QUOTE: Final = "a quote that is not closed"
_NEWLINE, _QUOTE = b'\n"'
_WORD: Final = 8
_TILE: Final = 1 << 18
"""Bytes that stay in the processor's cache with what is said about them."""
_NONE: Final = np.empty(0, np.int64)
_FAR: Final = 400
"""Newlines that are so many bytes apart are found sooner by looking at words."""
_BLANK: Final = np.isin(np.arange(256), list(b" \r\n"))
"""Whether a line that begins with a byte may hold nothing."""


@dataclass(frozen=True, slots=True)
class Line:
    """A record as bytes, the place after it, and what is wrong with it already, if anything."""

    data: bytes
    end: int
    fault: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Records as bytes, one after the other.

    Attributes
    ----------
    data : the bytes of all of them, and perhaps others; they stay as they are while this is kept
    starts, stops : where each record begins and ends in `data`
    places : the place after each record in the flow
    faults : what is wrong with a record already, by its position
    """

    data: memoryview
    starts: IntVec
    stops: IntVec
    places: IntVec
    faults: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Sequence[Line]) -> Lines:
        """Put together from single ones."""
        stops = np.cumsum([len(line.data) for line in lines], dtype=np.int64)
        return cls(
            memoryview(b"".join(line.data for line in lines)),
            np.concatenate(([0], stops[:-1])),
            stops,
            np.array([line.end for line in lines], np.int64),
            {i: line.fault for i, line in enumerate(lines) if line.fault},
        )

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: int) -> Line:
        data = bytes(self.data[self.starts[i] : self.stops[i]])
        return Line(data, int(self.places[i]), self.faults.get(i, ""))

    def taken(self, picked: IntVec | slice) -> Lines:
        """Some of the records."""
        at = np.arange(len(self))[picked] if self.faults else ()
        faults = {i: self.faults[j] for i, j in enumerate(at) if j in self.faults}
        arrays = (self.starts[picked], self.stops[picked], self.places[picked])
        return Lines(self.data, *arrays, faults)

    def without_blanks(self) -> Lines:
        """Without the lines that hold nothing."""
        first = np.frombuffer(self.data, np.uint8)[self.starts]
        maybe = np.flatnonzero(_BLANK[first]).tolist()
        blank = [i for i in maybe if not self[i].data.strip(b" \r\n")]
        return self.taken(np.delete(np.arange(len(self)), blank)) if blank else self


def cut_lines(read: Read, start: int, delimiter: bytes | None = None) -> Iterator[Lines]:
    """Records as they arrive, at least one at a time; the very last may lack its newline.

    With a delimiter, fields may be in double quotes and then hold line breaks. A quote that is not
    closed within `MAX_QUOTED_LINES` lines, or at all, costs the line that it is on, not those after
    it.
    """
    lines = _PhysicalLines(read, start).cut()
    if delimiter is None:
        yield from lines
        return
    joined = _Quotes(delimiter)
    for some in lines:
        if not joined.inside and _QUOTE not in np.frombuffer(some.data, np.uint8):
            yield some
        elif out := [record for i in range(len(some)) for record in joined.add(some[i])]:
            yield Lines.of(out)
    if out := joined.rest():
        yield Lines.of(out)


class _PhysicalLines:
    """What arrives, cut after the last newline of each block.

    What is there of a line that is not complete is at the start of `_room`; of one that is longer
    than a block the beginning is in `_before`.
    """

    def __init__(self, read: Read, start: int) -> None:
        self._read, self._end = read, start
        self._rooms = Rooms(2 * BLOCK)
        self._room = self._rooms.free()
        self._newlines = _Newlines(2 * BLOCK)
        self._before: list[bytes] = []
        self._n_before = self._n_here = 0

    def cut(self) -> Iterator[Lines]:
        """The lines, at least one at a time; the very last may lack its newline."""
        while n := self._more():
            begin, old, stop = 0, self._n_here, self._n_here + n
            first = self._room.find(b"\n", old, stop) + 1
            held = self._n_before + old
            if first and held and self._n_before + first > MAX_RECORD:
                self._end += self._n_before + first
                yield Lines.of([Line(self._unfinished(), self._end, TOO_LONG)])
                begin = old = first
                self._before, self._n_before = [], 0
            last = self._room.rfind(b"\n", old, stop) + 1
            if last:
                yield self._lines(begin, stop)
                self._end += self._n_before + last - begin
                begin = last
                self._before, self._n_before = [], 0
            self._go_on(begin, stop)
        if held := self._n_before + self._n_here:
            fault = TOO_LONG if held > MAX_RECORD else ""
            yield Lines.of([Line(self._unfinished(), self._end + held, fault)])

    def _more(self) -> int:
        """How many bytes have come, which are behind those that were here."""
        if self._n_here > BLOCK:
            if self._n_before <= MAX_RECORD:
                self._before.append(bytes(self._room[: self._n_here]))
            self._n_before += self._n_here
            self._n_here = 0
        with memoryview(self._room) as room:
            return self._read(room[self._n_here : self._n_here + BLOCK])

    def _unfinished(self) -> bytes:
        """What there is of a line, as far as it may be long."""
        return b"".join([*self._before, self._room[: self._n_here]])[:MAX_RECORD]

    def _lines(self, begin: int, stop: int) -> Lines:
        """The lines from `begin` on, but for what is after the last newline."""
        data = memoryview(self._room)[begin:stop].toreadonly()
        if self._before:
            data = memoryview(b"".join([*self._before, data]))
        stops = self._newlines.of(np.frombuffer(data, np.uint8)) + 1
        return Lines(data, np.concatenate(([0], stops[:-1])), stops, stops + self._end)

    def _go_on(self, begin: int, stop: int) -> None:
        """Keep what is from `begin` on, in a room that nobody looks at."""
        if begin:
            rest = self._room[begin:stop]
            self._room = self._rooms.free()
            self._room[: len(rest)] = rest
        self._n_here = stop - begin


class _Newlines:
    """Looks for newlines, in room that is used again; texts are mostly of at most `size` bytes."""

    def __init__(self, size: int) -> None:
        self._is_newline = np.empty(_TILE, np.bool_)
        self._in_word = np.empty(size // _WORD, np.bool_)
        self._far_apart = False

    def of(self, text: NDArray[np.uint8]) -> IntVec:
        """Where they are.

        If they were far apart the last time, they are looked for in whole words first.
        """
        if self._far_apart and len(text) <= _WORD * len(self._in_word):
            where = self._by_words(text)
        else:
            tiles = range(0, len(text), _TILE)
            where = np.concatenate([self._in_tile(text, start) for start in tiles] or [_NONE])
        self._far_apart = len(where) * _FAR < len(text)
        return where

    def _in_tile(self, text: NDArray[np.uint8], start: int) -> IntVec:
        tile = text[start : start + _TILE]
        found = np.equal(tile, _NEWLINE, out=self._is_newline[: len(tile)])
        return np.flatnonzero(found) + start

    def _by_words(self, text: NDArray[np.uint8]) -> IntVec:
        """The same by parts that stay in the processor's cache, which then holds the text still."""
        n_words = len(text) // _WORD
        whole = n_words * _WORD
        for start in range(0, whole, _TILE):
            tile = text[start : min(start + _TILE, whole)]
            found = np.equal(tile, _NEWLINE, out=self._is_newline[: len(tile)]).view(np.uint64)
            first = start // _WORD
            np.not_equal(found, 0, out=self._in_word[first : first + len(found)])
        at = np.flatnonzero(self._in_word[:n_words])
        within = np.flatnonzero(text[:whole].reshape(-1, _WORD)[at] == _NEWLINE)
        rest = np.flatnonzero(text[whole:] == _NEWLINE) + whole
        return np.concatenate((at[within // _WORD] * _WORD + within % _WORD, rest))


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
            out.append(Line(first.data, first.end, OPEN_QUOTE))
            self._held, self._bytes, self.inside = [], 0, False
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
