"""Numbers out of many lines of text that look alike, such as JSON lines and tables."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.decimals import MOST_DIGITS, double_of

Bytes = NDArray[np.uint8]
_QUOTE, _MINUS, _PLUS, _POINT, _ZERO, _SMALL_E, _LARGE_E = (ord(c) for c in '"-+.0eE')
_NEWLINE, _RETURN, _SPACE, _BACKSLASH, _BEYOND_ASCII = (*(ord(c) for c in "\n\r \\"), 128)
_TEN = np.uint64(10)


class Frame(NamedTuple):
    """What lines have in common: the bytes around their values.

    Attributes
    ----------
    text : the bytes before the first value, between values, and after the last
    stops : where each of these pieces ends in `text`, (n_values + 1,)
    delimiter : what is between the fields of a table; -1 if values are those of JSON
    """

    text: Bytes
    stops: IntVec
    delimiter: int


@kernel()
def number_at(data: Bytes, start: int, stop: int) -> tuple[float, int]:
    """The number that begins here, as JSON writes numbers, and where it ends.

    NaN and `start` if there is none, or one that `double_of` does not take, or an integer -0, which
    is 0 in JSON and not in tables. Written in one piece: calls would take most of the time.
    """
    at = start
    negative = at < stop and data[at] == _MINUS
    if negative:
        at += 1
    first, point = at, -1
    w = np.uint64(0)
    while at < stop:
        digit = np.int64(data[at]) - _ZERO
        if 0 <= digit <= 9:
            w = w * _TEN + np.uint64(digit)
        elif data[at] == _POINT and point < 0:
            point = at
        else:
            break
        at += 1
    n_whole = (at if point < 0 else point) - first
    if n_whole == 0 or (n_whole > 1 and data[first] == _ZERO) or at == point + 1:
        return np.nan, start
    whole = point < 0
    q = 0 if whole else point + 1 - at
    n_digits = at - first
    while n_digits > MOST_DIGITS and (data[first] == _ZERO or data[first] == _POINT):
        first += 1  # zeros in front are not digits that count
        n_digits -= 1
    if at < stop and (data[at] == _SMALL_E or data[at] == _LARGE_E):
        whole = False
        at += 1
        minus = at < stop and data[at] == _MINUS
        at += minus or (at < stop and data[at] == _PLUS)
        begun, size = at, np.int64(0)
        while at < stop and at < begun + 4 and _ZERO <= data[at] <= _ZERO + 9:
            size = 10 * size + np.int64(data[at]) - _ZERO
            at += 1
        if at == begun:
            return np.nan, start
        q += int(-size if minus else size)
    if n_digits > MOST_DIGITS or (negative and whole and w == 0):
        return np.nan, start
    value = double_of(w, q)
    if np.isnan(value):
        return np.nan, start
    return (-value if negative else value), at


@kernel()
def _text_end(data: Bytes, at: int, stop: int, delimiter: int) -> int:
    """Where a value ends that is a plain text and no number; -1 if it is anything else."""
    is_json = delimiter < 0
    if is_json:
        if at == stop or data[at] != _QUOTE:
            return -1
        at += 1
    while at < stop and data[at] != delimiter and data[at] != _QUOTE:
        c = data[at]
        if c < _SPACE or c >= _BEYOND_ASCII or (is_json and c == _BACKSLASH):
            return -1
        at += 1
    if (at < stop and data[at] == _QUOTE) != is_json:
        return -1
    return at + is_json


@kernel()
def _piece_end(data: Bytes, at: int, stop: int, frame: Frame, j: int) -> int:
    """Where the j-th piece of the frame ends that should begin here; -1 if it does not."""
    for p in range(frame.stops[j - 1] if j else 0, frame.stops[j]):
        if at >= stop or data[at] != frame.text[p]:
            return -1
        at += 1
    return at


@kernel()
def _read_line(
    data: Bytes, at: int, stop: int, frame: Frame, values: Vec, marked: int, span: IntVec
) -> bool:
    """Whether a line fits the frame; its values, and where the marked one begins and ends."""
    n_values, is_table = values.size, frame.delimiter >= 0
    for j in range(n_values + 1):
        at = _piece_end(data, at, stop, frame, j)
        if at < 0 or j == n_values:
            break
        value, after = number_at(data, at, stop)
        if after == at or (is_table and after < stop and data[after] != frame.delimiter):
            value, after = np.nan, _text_end(data, at, stop, frame.delimiter)
            if after < 0:
                return False
        values[j] = value
        if j == marked:
            span[0], span[1] = at, after
        at = after
    return at == stop


@kernel()
def read_lines(
    data: Bytes, starts: IntVec, stops: IntVec, frame: Frame, marked: int
) -> tuple[Mat, NDArray[np.int64]]:
    """The numbers of each line, and where its value number `marked` begins and ends in `data`.

    A value that is not a number is NaN, and so are all of a line that does not fit the frame, whose
    marked value begins and ends at -1: such lines are for others to look at.
    """
    n, n_values = starts.size, frame.stops.size - 1
    values = np.empty((n, n_values))
    spans = np.full((n, 2), -1)
    for i in range(n):
        stop = stops[i]
        while stop > starts[i] and (data[stop - 1] == _NEWLINE or data[stop - 1] == _RETURN):
            stop -= 1
        if not _read_line(data, starts[i], stop, frame, values[i], marked, spans[i]):
            values[i] = np.nan
            spans[i] = -1
    return values, spans
