"""Decimal numbers as doubles, rounded correctly: what ``float`` of the same text gives.

Up to 2^53 and 10^22 both parts of a decimal number are doubles themselves, and one operation rounds
once (Clinger, 1990). Beyond, the product with a power of five in 128 bits decides, but for cases
that it cannot (Lemire, 2021, "Number parsing at a gigabyte per second").
"""

import numpy as np

from everlearn.inference.kernels._jit import kernel

MOST_DIGITS = 19
MOST_EXPONENT = 64
"""Numbers with more digits or larger exponents are left to others."""
_EXACT = 2**53
_TENS = np.array([10.0**i for i in range(23)])
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_DOUBTFUL = np.uint64(0x1FF)  # the bits below the 55 that matter, all set: more are needed
_HIDDEN = np.uint64(1 << 52)


def _five_to_the(q: int) -> tuple[int, int]:
    """The first 128 bits of a power of five, rounded down, and up if it is a fraction."""
    power = 5 ** abs(q)
    if q < 0:
        power = (1 << (power.bit_length() + 127)) // power + 1
    bits = power << 128 >> power.bit_length()
    return bits >> 64, bits & (2**64 - 1)


_FIVES = np.array(
    [_five_to_the(q) for q in range(-MOST_EXPONENT, MOST_EXPONENT + 1)], dtype=np.uint64
)


@kernel()
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """High and low half of a product."""
    a_low, a_high, b_low, b_high = a & _LOW_HALF, a >> _HALF, b & _LOW_HALF, b >> _HALF
    low, high = a_low * b_low, a_high * b_high
    one, other = a_low * b_high, a_high * b_low
    middle = (low >> _HALF) + (one & _LOW_HALF) + (other & _LOW_HALF)
    high += (one >> _HALF) + (other >> _HALF) + (middle >> _HALF)
    return high, (low & _LOW_HALF) | (middle << _HALF)


@kernel()
def _leading_zeros(w: np.uint64) -> int:
    """Of a number that is not 0: those of its double, which may be rounded up to one bit more."""
    zeros = int(1086 - (np.float64(w).view(np.int64) >> 52))
    if zeros < 0:
        return 0
    return zeros if w >> np.uint64(63 - zeros) else zeros + 1


@kernel()
def double_of(w: np.uint64, q: int) -> float:
    """The double nearest to w 10^q, for `w` of `MOST_DIGITS`; NaN where more care is needed."""
    if w <= _EXACT and -22 <= q <= 22:
        return float(w) / float(_TENS[-q]) if q < 0 else float(w) * float(_TENS[q])
    if w == 0:
        return 0.0
    if q < -MOST_EXPONENT or q > MOST_EXPONENT:
        return np.nan
    zeros = _leading_zeros(w)
    w <<= np.uint64(zeros)
    i = np.uint64(q + MOST_EXPONENT)
    high, low = _product(w, _FIVES[i, 0])
    if high & _DOUBTFUL == _DOUBTFUL:
        more, _ = _product(w, _FIVES[i, 1])
        low += more
        if low < more:
            high += _ONE
    if low == _ALL:
        return np.nan
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    bits = high >> shift
    if low <= 1 and bits & np.uint64(3) == 1 and bits << shift == high and -4 <= q <= 23:
        bits &= ~_ONE  # half way between two doubles: the even one
    bits = (bits + (bits & _ONE)) >> _ONE
    # 217706 / 2^16 is log2(10): this is floor(q log2(10)) + 63.
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - zeros
    if bits >= _HIDDEN << _ONE:
        bits, exponent = _HIDDEN, exponent + 1
    return np.uint64((np.uint64(exponent + 1023) << np.uint64(52)) | (bits & ~_HIDDEN)).view(
        np.float64
    )
