"""Numbers out of many lines of text that look alike, such as JSON lines and tables."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.attic.inference_kernels__bits import trailing_zeros
from everlearn.attic.inference_kernels__memory import address_of, byte_at, signed, word_at
from everlearn.attic.inference_kernels_decimals import MOST_DIGITS, double_of
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.jit import kernel

Bytes = NDArray[np.uint8]
_QUOTE, _MINUS, _PLUS, _POINT, _ZERO, _SMALL_E, _LARGE_E = (ord(c) for c in '"-+.0eE')
_NEWLINE, _RETURN, _SPACE, _BACKSLASH, _BEYOND_ASCII = (*(ord(c) for c in "\n\r \\"), 128)
_ZEROS, _TOPS, _UP_FROM_TEN = (
    np.uint64(0x0101010101010101 * byte) for byte in (_ZERO, 0x80, 0x80 - 10)
)
_TEN = np.uint64(10)
_PAIRS = np.uint64(0x000000FF000000FF)
_TENS = np.array([10**n for n in range(9)], np.uint64)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MILLIONS, _UNITS = np.uint64(100 + (1000000 << 32)), np.uint64(1 + (10000 << 32))


class Frame(NamedTuple):
    """What lines have in common: the bytes around their values.

    Attributes
    ----------
    text : the bytes before the first value, between values, and after the last
    stops : where each of these pieces ends in `text`, (n_values + 1,)
    delimiter : what is between the fields of a table; -1 if values are those of JSON
    columns : to which column each value goes; -1 if to none
    """

    text: Bytes
    stops: IntVec
    delimiter: int
    columns: IntVec


@kernel(inline=True)
def _eight_digits(word: np.uint64) -> np.uint64:
    """The number that eight digits make, the first one in the lowest byte."""
    word = word * np.uint64(10) + (word >> np.uint64(8))
    pairs, others = word & _PAIRS, (word >> np.uint64(16)) & _PAIRS
    return (pairs * _MILLIONS + others * _UNITS) >> np.uint64(32)


@kernel(inline=True)
def _is_digit(byte: int) -> bool:
    return np.uint64(byte - _ZERO) < _TEN  # type: ignore[return-value]  # below 0 is far above


@kernel(inline=True)
def _no_digits(word: np.uint64) -> np.uint64:
    """The top bits of those bytes of a word that are not from 0 to 9."""
    return ((word + _UP_FROM_TEN) | word) & _TOPS


@kernel(inline=True)
def _some_digits(word: np.uint64, most: int, w: np.uint64) -> tuple[np.uint64, int]:
    """`w` with those digits behind its own that a word begins with, and how many there are.

    Free of branches: how many there are is what nobody can guess.
    """
    n = min(trailing_zeros(_no_digits(word)) >> 3, most)
    half = np.uint64(32 - 4 * n)  # a shift by all 64 bits at once would be none
    return w * _TENS[np.uint64(n)] + _eight_digits(word << half << half), n


@kernel()
def _digits_at(at: int, stop: int, end: int, w: np.uint64) -> tuple[np.uint64, int]:
    """`w` with the digits that begin here behind its own, and where they end."""
    while True:
        w, n = _some_digits(word_at(at, end) ^ _ZEROS, stop - at, w)
        at += n
        if n < 8:
            return w, at


@kernel(inline=True)
def _whole_at(first: int, stop: int, end: int) -> tuple[np.uint64, int]:
    """The digits that begin here, mostly one or two, as a number, and where they end."""
    w, at = np.uint64(0), first
    while at < stop and _is_digit(byte_at(at)):
        if at == first + 3:
            return _digits_at(at, stop, end, w)
        w = w * _TEN + np.uint64(byte_at(at) - _ZERO)
        at += 1
    return w, at


@kernel(inline=True)
def _fraction_at(at: int, stop: int, end: int, w: np.uint64) -> tuple[np.uint64, int]:
    """`w` with the digits that begin here behind its own, mostly few or about 16, and their end."""
    word = word_at(at, end) ^ _ZEROS
    if _no_digits(word) == 0 and at + 8 <= stop:
        w = w * _TENS[8] + _eight_digits(word)
        at += 8
        word = word_at(at, end) ^ _ZEROS
    w, n = _some_digits(word, stop - at, w)
    at += n
    if (n == 8) & (at < stop) & _is_digit(byte_at(min(at, end - 1))):
        return _digits_at(at, stop, end, w)
    return w, at


@kernel()
def _exponent_at(at: int, stop: int) -> tuple[int, int]:
    """The exponent behind an e that is here, and where it ends: here, if there is none."""
    start = at
    at += 1
    minus = at < stop and byte_at(at) == _MINUS
    at += minus or (at < stop and byte_at(at) == _PLUS)
    begun, size = at, 0
    while at < stop and at < begun + 4 and _ZERO <= byte_at(at) <= _ZERO + 9:
        size = 10 * size + (byte_at(at) - _ZERO)
        at += 1
    return (-size if minus else size), (at if at > begun else start)


@kernel(inline=True)
def _number_at(start: int, stop: int, end: int) -> tuple[float, int]:
    """The number that begins at an address, as JSON writes numbers, and where it ends.

    NaN and `start` if there is none, or one that `double_of` does not take, or an integer -0, which
    is 0 in JSON and not in tables. What is from `end` on is not looked at.
    """
    negative = start < stop and byte_at(start) == _MINUS
    first = start + negative
    w, at = _whole_at(first, stop, end)
    n_whole = at - first
    if n_whole == 0 or (n_whole > 1 and byte_at(first) == _ZERO):
        return np.nan, start
    whole, q = True, 0
    if at < stop and byte_at(at) == _POINT:
        point = at
        w, at = _fraction_at(point + 1, stop, end, w)
        whole, q = False, point + 1 - at
        if q == 0:
            return np.nan, start
    n_digits = at - first
    while n_digits > MOST_DIGITS and (byte_at(first) == _ZERO or byte_at(first) == _POINT):
        first += 1  # zeros in front are not digits that count
        n_digits -= 1
    if at < stop and (byte_at(at) == _SMALL_E or byte_at(at) == _LARGE_E):
        size, after = _exponent_at(at, stop)
        if after == at:
            return np.nan, start
        whole, q, at = False, q + size, after
    if n_digits > MOST_DIGITS or (negative and whole and w == 0):
        return np.nan, start
    value = double_of(w, q)
    if np.isnan(value):
        return np.nan, start
    return (-value if negative else value), at


@kernel()
def number_at(data: Bytes, start: int, stop: int) -> tuple[float, int]:
    """The number that begins here, and where it ends; NaN and `start` if it is for others."""
    zero = address_of(data)
    value, after = _number_at(zero + start, zero + stop, zero + data.size)
    return value, after - zero


@kernel()
def _text_end(at: int, stop: int, delimiter: int) -> int:
    """Where a value ends that is a plain text and no number; 0 if it is anything else."""
    is_json = delimiter < 0
    if is_json:
        if at == stop or byte_at(at) != _QUOTE:
            return 0
        at += 1
    while at < stop and byte_at(at) != delimiter and byte_at(at) != _QUOTE:
        c = byte_at(at)
        if c < _SPACE or c >= _BEYOND_ASCII or (is_json and c == _BACKSLASH):
            return 0
        at += 1
    if (at < stop and byte_at(at) == _QUOTE) != is_json:
        return 0
    return at + is_json


@kernel(inline=True)
def _same(at: int, end: int, other: int, other_end: int, n: int) -> bool:
    """Whether `n` bytes at two addresses are the same."""
    while n > 0:
        difference = word_at(at, end) ^ word_at(other, other_end)
        if n < 8:
            difference <<= np.uint64(64 - 8 * n)
        if difference != 0:
            return False
        at, other, n = at + 8, other + 8, n - 8
    return True


@kernel()
def _hash(at: int, end: int, n: int) -> int:
    """A number from 0 on that depends on all of `n` bytes at an address."""
    h = np.uint64(n)
    while n > 0:
        word = word_at(at, end)
        if n < 8:
            word <<= np.uint64(64 - 8 * n)
        h = (h ^ word) * _ODD
        h ^= h >> np.uint64(32)
        at, n = at + 8, n - 8
    return signed(h >> np.uint64(1))


@kernel()
def _read_line(
    data: Bytes, start: int, stop: int, frame: Frame, values: Vec, marked: int, span: IntVec
) -> bool:
    """Whether a line fits the frame; its values, and where the marked one begins and ends."""
    zero, text = address_of(data), address_of(frame.text)
    end, text_end = zero + data.size, text + frame.text.size
    at, stop, piece = zero + start, zero + stop, text
    is_table, n_values = frame.delimiter >= 0, frame.columns.size
    for j in range(n_values + 1):
        length = text + frame.stops[j] - piece
        if at + length > stop or not _same(at, end, piece, text_end, length):
            return False
        at, piece = at + length, piece + length
        if j == n_values:
            break
        value, after = _number_at(at, stop, end)
        if after == at or (is_table and after < stop and byte_at(after) != frame.delimiter):
            value, after = np.nan, _text_end(at, stop, frame.delimiter)
            if after == 0:
                return False
        if frame.columns[j] >= 0:
            values[frame.columns[j]] = value
        if j == marked:
            span[0], span[1] = at - zero, after - zero
        at = after
    return at == stop


@kernel()
def read_lines(
    data: Bytes, starts: IntVec, stops: IntVec, frame: Frame, marked: int
) -> tuple[Mat, NDArray[np.bool_], NDArray[np.int64], int]:
    """The columns of each line, and which lines are odd: some number is missing from them.

    A value that is not a number is NaN, and so are all of a line that does not fit the frame: odd
    lines are for others to look at. Then follow, for each line, where its value number `marked`
    begins and ends in `data`, which is at 0 if it does not fit, and how many lines fit.
    """
    n, n_fit = starts.size, 0
    values = np.empty((n, frame.columns.max() + 1))
    odd = np.ones(n, np.bool_)
    spans = np.zeros((n, 2), np.int64)
    for i in range(n):
        stop = stops[i]
        while stop > starts[i] and (data[stop - 1] == _NEWLINE or data[stop - 1] == _RETURN):
            stop -= 1
        if _read_line(data, starts[i], stop, frame, values[i], marked, spans[i]):
            n_fit += 1
            odd[i] = np.isnan(values[i].sum())
        else:
            values[i] = np.nan
            spans[i] = 0
    return values, odd, spans, n_fit


@kernel()
def different_texts(data: Bytes, spans: NDArray[np.int64]) -> tuple[IntVec, IntVec]:
    """Which of the different texts between two places each one is, and where each is first."""
    zero, n = address_of(data), spans.shape[0]
    end, n_slots = zero + data.size, 1
    while n_slots < 2 * n:
        n_slots *= 2
    slots = np.full(n_slots, -1)
    which, first = np.empty(n, np.int64), np.empty(n, np.int64)
    n_texts = 0
    for i in range(n):
        at, length = zero + spans[i, 0], spans[i, 1] - spans[i, 0]
        slot = _hash(at, end, length) & (n_slots - 1)
        while slots[slot] >= 0:
            j = first[slots[slot]]
            same = spans[j, 1] - spans[j, 0] == length
            if same and _same(at, end, zero + spans[j, 0], end, length):
                break
            slot = (slot + 1) & (n_slots - 1)
        if slots[slot] < 0:
            slots[slot] = n_texts
            first[n_texts] = i
            n_texts += 1
        which[i] = slots[slot]
    return which, first[:n_texts].copy()
