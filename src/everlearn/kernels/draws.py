"""Random draws inside kernels: each document has a stream of its own.

A stream is a 64-bit word that its owner carries along (xorshift; the draws are the high bits of
the word times an odd constant). `stream_keys` makes the first words from a seed and a position,
so no draw depends on threads, on the order of documents or on how many draws came before.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.kernels.jit import kernel
from everlearn.kernels.scalars import log, squared_cosine

LARGEST_INVERSE = 1e8
"""The most that an augmentation variable's inverse may be; at the margin it has no limit."""


Word = np.uint64
Words = NDArray[np.uint64]
Counts = NDArray[np.int32]
_WEYL = Word(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = Word(0xBF58476D1CE4E5B9), Word(0x94D049BB133111EB)
_STAR = Word(0x2545F4914F6CDD1D)
_A, _B, _C = Word(13), Word(7), Word(17)
_S30, _S27, _S31, _S40, _S11 = Word(30), Word(27), Word(31), Word(40), Word(11)
_ONE = Word(1)
_TWO_24 = np.float32(2.0**-24)
_TWO_53 = 2.0**-53


@kernel()
def splitmix64(word: Word) -> Word:
    """Scramble the bits of a word, as SplitMix64 does at its end."""
    word = (word ^ (word >> _S30)) * _MIX1
    word = (word ^ (word >> _S27)) * _MIX2
    return word ^ (word >> _S31)


@kernel()
def xorshift64(word: Word) -> Word:
    """The next word of a stream, by xorshift."""
    word ^= word << _A
    word ^= word >> _B
    word ^= word << _C
    return word


@kernel()
def uniform_float32(word: Word) -> np.float32:
    """A number in [0, 1) with 24 random bits."""
    return np.float32((word * _STAR) >> _S40) * _TWO_24


@kernel()
def uniform(word: Word) -> np.float64:
    """A number in [0, 1) with 53 random bits."""
    return np.float64((word * _STAR) >> _S11) * _TWO_53


@kernel()
def stream_keys(seed: int, clock: int, part: int, n: int) -> Words:
    """First words of `n` streams, one for each position, at this place of a run."""
    keys = np.empty(n, np.uint64)
    place = splitmix64(splitmix64(Word(seed) + _WEYL) ^ (Word(clock) + _WEYL))
    place = splitmix64(place ^ (Word(part) + _WEYL))
    for i in range(n):
        # A word of zero would stay zero for ever, hence the last bit.
        keys[i] = splitmix64(place ^ splitmix64(Word(i) + _WEYL)) | _ONE
    return keys


@kernel()
def content_keys(seed: int, indptr: IntVec, words: Counts, counts: Counts) -> Words:
    """First words of streams, one for each document, that depend on what it contains alone."""
    keys = np.empty(indptr.size - 1, np.uint64)
    start = splitmix64(Word(seed) + _WEYL)
    for d in range(keys.size):
        key = start
        for place in range(indptr[d], indptr[d + 1]):
            key = splitmix64(key ^ splitmix64(Word(words[place]) + _WEYL))
            key = splitmix64(key ^ splitmix64(Word(counts[place]) + _STAR))
        keys[d] = key | _ONE
    return keys


@kernel()
def inverse_gaussian_of(mean: float, square: float, share: float) -> np.float64:
    """A draw of the inverse Gaussian of this mean and shape 1, at most `LARGEST_INVERSE`.

    Made of the square of a normal and of a uniform number by Michael, Schucany and Haas (1976),
    with the smaller root of their quadratic written as a quotient: the textbook difference loses
    all digits when the mean is large.
    """
    h = 0.5 * mean * square
    small = mean / (1.0 + h + math.sqrt(h * (h + 2.0)))
    found = small if share * (mean + small) <= mean else mean * mean / small
    return np.float64(found if found < LARGEST_INVERSE else LARGEST_INVERSE)


@kernel()
def inverse_gaussian(mean: float, first: float, second: float, third: float) -> np.float64:
    """`inverse_gaussian_of` three uniform numbers."""
    return inverse_gaussian_of(mean, -2.0 * log(1.0 - first) * squared_cosine(second), third)
