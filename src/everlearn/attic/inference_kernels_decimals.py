"""Decimal numbers as doubles, rounded correctly: what ``float`` of the same text gives.

Up to 2^53 and 10^22 both parts of a decimal number are doubles themselves, and one operation rounds
once (Clinger, 1990). Beyond, the product with a power of five in 128 bits decides, but for cases
that it cannot (Lemire, 2021, "Number parsing at a gigabyte per second").
"""

import numpy as np

from everlearn.attic.inference_kernels__bits import leading_zeros, product
from everlearn.kernels.jit import kernel

MOST_DIGITS = 19
MOST_EXPONENT = 64
"""Numbers with more digits or larger exponents are left to others."""
_EXACT = 2**53
_TENS = np.array([10.0**i for i in range(23)])
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_DOUBTFUL = np.uint64(0x1FF)  # the bits below the 55 that matter, all set: more are needed


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


@kernel(inline=True)
def double_of(w: np.uint64, q: int) -> float:
    """The double nearest to w 10^q, for `w` of `MOST_DIGITS`; NaN where more care is needed.

    Nearly every number takes the way of 128 bits, also where one operation would do: which of the
    two depends on digits that look random, and a wrong guess of the processor takes longer.
    """
    if w == 0 or q < -MOST_EXPONENT or q > MOST_EXPONENT:
        return 0.0 if w == 0 else np.nan
    zeros = leading_zeros(w)
    shifted = w << np.uint64(zeros)
    i = np.uint64(q + MOST_EXPONENT)
    high, low = product(shifted, _FIVES[i, 0])
    if high & _DOUBTFUL == _DOUBTFUL:
        more, _ = product(shifted, _FIVES[i, 1])
        low += more
        if low < more:
            high += _ONE
    if low == _ALL:
        return _rounded_once(w, q)
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    bits = high >> shift
    if low <= 1 and bits & np.uint64(3) == 1 and bits << shift == high and -4 <= q <= 23:
        bits &= ~_ONE  # half way between two doubles: the even one
    bits = (bits + (bits & _ONE)) >> _ONE
    # 217706 / 2^16 is log2(10): this is floor(q log2(10)) + 63. The first of the 53 bits is added
    # to the exponent, which is one less for that, so that what is rounded up to 2^53 comes out.
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - zeros
    return np.uint64((np.uint64(exponent + 1022) << np.uint64(52)) + bits).view(np.float64)


@kernel()
def _rounded_once(w: np.uint64, q: int) -> float:
    """The same where both parts are doubles themselves, and one operation rounds; NaN elsewhere."""
    if w <= _EXACT and -22 <= q <= 22:
        return float(w) / float(_TENS[-q]) if q < 0 else float(w) * float(_TENS[q])
    return np.nan
