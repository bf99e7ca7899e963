"""Rows of numbers out of lines that look alike, all at once.

Records are mostly written by programs, so that the lines of a file differ in their values alone.
What is around the values is taken from one line; a kernel then reads the numbers of all lines that
have the same around theirs. Lines that differ, and values that are no plain numbers, are left to
those who look at records one by one, so that nothing depends on which way a record was read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everlearn.attic.inference_kernels_number_lines import Frame, different_texts, read_lines
from everlearn.core.arrays import IntVec, Mat
from everlearn.io.batches import Chunk, LineRows

_JSON_VALUE: Final = re.compile(rb'(?:"[^"]*"\s*:\s*)?(-?\d[-+.\deE]*|"[^"]*")')


@dataclass(frozen=True, slots=True, eq=False)
class NumberLines:
    """The lines of a chunk, read at once.

    Attributes
    ----------
    table : the columns that are asked for; NaN where a value is no plain number
    odd : which lines have such values, and must be looked at
    labels : the different labels of the lines; None is that of lines without one
    which : which of these is the label of each line
    """

    table: Mat
    odd: NDArray[np.bool_]
    labels: list[Any]
    which: IntVec


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """What is around the values of lines, and which value is the label; -1 if none is."""

    frame: Frame
    label: int = -1


class LineReader:
    """Rows of numbers out of chunks of lines.

    The lines of a chunk mostly look like those of the chunk before, so that what is around their
    values is looked for only if it is not what it was.

    Parameters
    ----------
    columns : names of the columns, in order
    label : name of the field that holds the label, if labels are asked for
    """

    def __init__(self, columns: Sequence[str], label: str | None) -> None:
        self._columns, self._label = columns, label
        self._known: _Form | None = None
        self._kind: tuple[Any, ...] = ()

    def read(self, chunk: Chunk) -> NumberLines | None:
        """The columns of lines, and their labels, if some line tells what is around them."""
        rows = chunk.rows
        if not isinstance(rows, LineRows) or not len(chunk):
            return None
        kind = (rows.is_json, rows.delimiter, chunk.names)
        if self._known is not None and self._kind == kind:
            lines, n_fit = _read(rows, self._known)
            if 2 * n_fit >= len(chunk):
                return lines
        for i in dict.fromkeys((0, len(chunk) // 2, len(chunk) - 1)):
            form = self._form_of(rows, i, chunk.names)
            if form is not None:
                self._known, self._kind = form, kind
                return _read(rows, form)[0]
        return None

    def _form_of(self, rows: LineRows, i: int, names: tuple[str, ...] | None) -> _Form | None:
        """What is around the values of a line, if these are what is asked for."""
        if rows.delimiter is not None and names is not None:
            pieces = [b"", *[rows.delimiter] * (len(names) - 1), b""]
            return self._form(pieces, names, rows.delimiter[0])
        if not rows.is_json:
            return None
        line = rows.lines[i].data.rstrip(b"\r\n")
        record, fault = rows.parse(line)
        pieces = [] if fault else _json_pieces(line, record)
        if isinstance(record, dict):
            return self._form(pieces, tuple(record))
        # The values of a list have the names of the columns, none of which is the label.
        return self._form(pieces, tuple(self._columns), labelled=False)

    def _form(
        self,
        pieces: Sequence[bytes],
        names: tuple[str, ...],
        delimiter: int = -1,
        *,
        labelled: bool = True,
    ) -> _Form | None:
        """What is around values with these names; None if it does not fit the columns."""
        if len(pieces) != len(names) + 1 or not set(self._columns) <= set(names):
            return None
        columns = np.full(len(names), -1)
        columns[[names.index(name) for name in self._columns]] = np.arange(len(self._columns))
        text = np.frombuffer(b"".join(pieces), np.uint8)
        stops = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        frame = Frame(text, stops, delimiter, columns)
        return _Form(frame, names.index(self._label) if labelled and self._label in names else -1)


def _read(rows: LineRows, form: _Form) -> tuple[NumberLines, int]:
    """What lines hold, and how many of them look as expected."""
    lines = rows.lines
    data = np.frombuffer(lines.data, np.uint8)
    table, odd, spans, n_fit = read_lines(data, lines.starts, lines.stops, form.frame, form.label)
    odd[list(lines.faults)] = True
    if form.label < 0:
        return NumberLines(table, odd, [None], np.zeros(len(lines), np.int64)), n_fit
    which, first = different_texts(data, spans)
    labels = [_label(bytes(lines.data[start:stop]), rows) for start, stop in spans[first].tolist()]
    return NumberLines(table, odd, labels, which), n_fit


def _label(text: bytes, rows: LineRows) -> Any:
    if not rows.is_json:
        return text.decode("ascii")
    return rows.parse(text)[0] if text else None


def _json_pieces(line: bytes, record: Any) -> list[bytes]:
    """What is around the values of a flat list or object; nothing if it is not one.

    Without backslashes, a text ends at the next quote.
    """
    if b"\\" in line or not isinstance(record, (list, dict)) or not record:
        return []
    found = list(_JSON_VALUE.finditer(line))
    values = record.values() if isinstance(record, dict) else record
    if len(found) != len(record) or any(type(v) not in (int, float, str) for v in values):
        return []
    starts = [match.start(1) for match in found] + [len(line)]
    stops = [0] + [match.end(1) for match in found]
    return [line[stop:start] for stop, start in zip(stops, starts, strict=True)]
