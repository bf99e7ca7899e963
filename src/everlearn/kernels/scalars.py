"""Scalar functions that kernels call, such as log and exp. Most can be vectorised in loops."""

import math

import numpy as np

from everlearn.kernels.jit import FUSED, by_precision, kernel

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # the low bits are zero: q * LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
ROUND_BITS = 1.5 * 2.0**52  # adding it leaves the nearest integer in the lowest bits
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (1.0 / math.factorial(i) for i in range(2, 13))
D14, D16, D18, D20, D22 = (1.0 / math.factorial(i) for i in range(14, 23, 2))
TWO_PI = 2.0 * math.pi
MANTISSA = 0x000FFFFFFFFFFFFF
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
LOG2_E_SINGLE = np.float32(LOG2_E)
LN2_HIGH_SINGLE = np.float32(0.693359375)
LN2_LOW_SINGLE = np.float32(-2.12194440e-4)
ROUND_BITS_SINGLE = np.float32(1.5 * 2.0**23)
S1, S2, S3, S4, S5, S6, S7 = (np.float32(1.0 / math.factorial(i)) for i in range(1, 8))


@kernel(FUSED, inner=False)
def _exp_double(x: np.float64) -> np.float64:
    """exp(x) for -700 <= x <= 0: x = q ln 2 + f, Taylor polynomial in f, 2^q by its bits."""
    shifted = x * LOG2_E + ROUND_BITS
    q = shifted - ROUND_BITS
    f = x - q * LN2_HIGH - q * LN2_LOW
    p = C12
    p = p * f + C11
    p = p * f + C10
    p = p * f + C9
    p = p * f + C8
    p = p * f + C7
    p = p * f + C6
    p = p * f + C5
    p = p * f + C4
    p = p * f + C3
    p = p * f + C2
    p = p * f + 1.0
    p = p * f + 1.0
    return p * np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)


@kernel(FUSED, inner=False)
def _exp_single(x: np.float32) -> np.float32:
    """exp(x) for -80 <= x <= 0 in float32, as in `_exp_double`."""
    shifted = x * LOG2_E_SINGLE + ROUND_BITS_SINGLE
    q = shifted - ROUND_BITS_SINGLE
    f = x - q * LN2_HIGH_SINGLE - q * LN2_LOW_SINGLE
    p = S7
    p = p * f + S6
    p = p * f + S5
    p = p * f + S4
    p = p * f + S3
    p = p * f + S2
    p = p * f + S1
    p = p * f + S1
    return p * np.int32((np.float32(shifted).view(np.int32) + 127) << 23).view(np.float32)


@kernel(inner=False)
def _rank_double(x: np.float64) -> np.int64:
    """An integer that orders as x does: integer maxima are vectorised without fast-math."""
    bits = np.float64(x).view(np.int64)
    return np.int64(bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF))


@kernel(inner=False)
def _rank_single(x: np.float32) -> np.int32:
    """The 32-bit `_rank_double`."""
    bits = np.float32(x).view(np.int32)
    return np.int32(bits ^ ((bits >> 31) & 0x7FFFFFFF))


@kernel(inner=False)
def _unrank_double(rank: np.int64) -> np.float64:
    """The inverse of `_rank_double`."""
    return np.int64(rank ^ ((rank >> 63) & 0x7FFFFFFFFFFFFFFF)).view(np.float64)


@kernel(inner=False)
def _unrank_single(rank: np.int32) -> np.float32:
    """The inverse of `_rank_single`."""
    return np.int32(rank ^ ((rank >> 31) & 0x7FFFFFFF)).view(np.float32)


@kernel(FUSED)
def log(x: float) -> np.float64:
    """log(x) for normal x > 0: x = m 2^q with m about 1, and a series in (m - 1) / (m + 1)."""
    bits = np.float64(x).view(np.int64) - ROOT_HALF_BITS
    m = np.int64((bits & MANTISSA) + ROOT_HALF_BITS).view(np.float64)
    q = np.float64(bits >> 52)
    f = (m - 1.0) / (m + 1.0)
    g = f * f
    p = 2.0 / 21.0
    p = p * g + 2.0 / 19.0
    p = p * g + 2.0 / 17.0
    p = p * g + 2.0 / 15.0
    p = p * g + 2.0 / 13.0
    p = p * g + 2.0 / 11.0
    p = p * g + 2.0 / 9.0
    p = p * g + 2.0 / 7.0
    p = p * g + 2.0 / 5.0
    p = p * g + 2.0 / 3.0
    return q * LN2_HIGH + (q * LN2_LOW + f * (2.0 + p * g))


@kernel(FUSED)
def squared_cosine(turns: float) -> np.float64:
    """cos(2 pi turns)^2 for |turns| < 1e15: reduced to a quarter turn, then a Taylor series."""
    shifted = 2.0 * turns + ROUND_BITS
    x = TWO_PI * (turns - 0.5 * (shifted - ROUND_BITS))
    g = x * x
    p = -D22
    p = p * g + D20
    p = p * g - D18
    p = p * g + D16
    p = p * g - D14
    p = p * g + C12
    p = p * g - C10
    p = p * g + C8
    p = p * g - C6
    p = p * g + C4
    p = p * g - C2
    cosine = p * g + 1.0
    return np.float64(cosine * cosine)


exp = by_precision(_exp_single, _exp_double)
to_rank = by_precision(_rank_single, _rank_double)
from_rank = by_precision(_unrank_single, _unrank_double)
