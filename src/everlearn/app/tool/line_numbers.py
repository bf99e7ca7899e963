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
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat
from everlearn.inference.kernels.number_lines import Frame, read_lines
from everlearn.runtime.stream.chunks import Chunk, LineRows

_LONGEST_LABEL: Final = 256
_JSON_VALUE: Final = re.compile(rb'(?:"[^"]*"\s*:\s*)?(-?\d[-+.\deE]*|"[^"]*")')


@dataclass(frozen=True, slots=True, eq=False)
class NumberLines:
    """The lines of a chunk, read at once.

    Attributes
    ----------
    table : the columns that are asked for; NaN where a value is no plain number
    labels : the different labels of the lines; None is that of lines without one
    which : which of these is the label of each line
    """

    table: Mat
    labels: list[Any]
    which: IntVec


def number_lines(chunk: Chunk, columns: Sequence[str], label: str | None) -> NumberLines | None:
    """The columns of a chunk of lines, and its labels, if some line tells what is around them."""
    rows = chunk.rows
    if not isinstance(rows, LineRows) or not len(chunk):
        return None
    for i in dict.fromkeys((0, len(chunk) // 2, len(chunk) - 1)):
        frame, names = _frame_of(rows, i, chunk.names)
        if frame is None:
            continue
        if names is None and len(frame.stops) == len(columns) + 1:
            return _read(rows, frame, range(len(columns)), None)
        if names is not None and set(columns) <= set(names):
            where = [names.index(name) for name in columns]
            return _read(rows, frame, where, names.index(label) if label in names else None)
    return None


def _read(rows: LineRows, frame: Frame, where: Sequence[int], label: int | None) -> NumberLines:
    lines = rows.lines
    data = np.frombuffer(lines.data, np.uint8)
    marked = -1 if label is None else label
    values, spans = read_lines(data, lines.starts, lines.stops, frame, marked)
    values[list(lines.faults)] = np.nan
    table = values.take(where, axis=1)  # row after row in memory, as estimators get them elsewhere
    if label is None:
        return NumberLines(table, [None], np.zeros(len(lines), np.int64))
    texts, which = _different_texts(data, spans)
    labels = [_label(text, rows) for text in texts]
    return NumberLines(table, labels, which)


def _different_texts(
    data: NDArray[np.uint8], spans: NDArray[np.int64]
) -> tuple[list[bytes], IntVec]:
    """The different texts among those between two places each, and which of them each one is."""
    starts, stops = spans[:, :1], spans[:, 1:]
    places = starts + np.arange(max(1, int((stops - starts).max())))
    letters = np.where(places < stops, data[np.minimum(places, len(data) - 1)], 0)
    texts = letters.astype(np.uint8).view(f"S{places.shape[1]}").ravel()
    different, which = np.unique(texts, return_inverse=True)
    return different.tolist(), which


def _label(text: bytes, rows: LineRows) -> Any:
    if not rows.is_json:
        return text.decode("ascii")
    return rows.parse(text)[0] if text else None


def _frame_of(
    rows: LineRows, i: int, names: tuple[str, ...] | None
) -> tuple[Frame | None, tuple[str, ...] | None]:
    """What is around the values of a line, and what they are called."""
    if rows.delimiter is not None and names is not None:
        return _table_frame(rows.delimiter, len(names)), names
    return _json_frame(rows, i) if rows.is_json else (None, None)


@lru_cache(maxsize=8)
def _table_frame(delimiter: bytes, n_values: int) -> Frame:
    return _frame([b"", *[delimiter] * (n_values - 1), b""], delimiter[0])


def _json_frame(rows: LineRows, i: int) -> tuple[Frame | None, tuple[str, ...] | None]:
    """That of a flat list or object; without backslashes, a text ends at the next quote."""
    line = rows.lines[i].data.rstrip(b"\r\n")
    record, fault = rows.parse(line)
    if fault or b"\\" in line or not isinstance(record, (list, dict)) or not record:
        return None, None
    found = list(_JSON_VALUE.finditer(line))
    values = record.values() if isinstance(record, dict) else record
    if len(found) != len(record) or any(type(v) not in (int, float, str) for v in values):
        return None, None
    starts = [match.start(1) for match in found] + [len(line)]
    stops = [0] + [match.end(1) for match in found]
    pieces = [line[stop:start] for stop, start in zip(stops, starts, strict=True)]
    return _frame(pieces), tuple(record) if isinstance(record, dict) else None


def _frame(pieces: Sequence[bytes], delimiter: int = -1) -> Frame:
    text = np.frombuffer(b"".join(pieces), np.uint8)
    return Frame(text, np.cumsum([len(piece) for piece in pieces], dtype=np.int64), delimiter)
