"""Hinge losses of documents under Gaussian weights: what they ask of the topics of tokens.

Given the augmentation variables of a document, the exponent of topic k is

    a_k - M_kk / 2 - (M C)_k,   a = sum_q c s_q (1 + c o_q / lambda_q) mu^q / n,
                                M = sum_q c^2 / lambda_q (mu^q mu^q' + Sigma^q) / n^2,

for any number of tasks q whose loss is the hinge (o_q - s_q w^q . z)_+ (BayesPA eq. 29). Rows of M
are made when a topic turns up: a document has few.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.kernels._jit import SUMMED, kernel
from everlearn.inference.kernels.choices import DEEPEST
from everlearn.inference.kernels.draws import advanced, inverse_gaussian, uniform
from everlearn.inference.kernels.scalars import exp, from_rank, longest_run, to_rank
from everlearn.inference.kernels.topics import Bags, Index

LEAST_RADICAND = 1e-12
STEEPEST, STEEPEST_ROW = -250.0, -100.0
"""Gains are followed by products while exponents, and rows of M, spread over less than this."""
LEAST_GAIN = 1e-200
"""A row of M cannot take a gain from here to where numbers vanish."""


class Hinges(NamedTuple):
    """Losses (offset - sign * w . z)_+ of documents and the Gaussians of the weights.

    signs : (B, Q), 0 for no loss
    offsets : (B, Q)
    weights : (Q, K), means; `means` (K, Q) are the same
    seconds : (K, Q, K), E[w w'] with the task in the middle
    pairs : (K, K, Q), the same for pairs of topics, of which the first is not before the second
    squares : (Q, K), its diagonals
    c : weight of the loss
    mean_only : whether augmentation variables take their means instead of being drawn
    """

    signs: NDArray[np.int8]
    offsets: Mat
    weights: Mat
    means: Mat
    seconds: NDArray[np.float64]
    pairs: NDArray[np.float64]
    squares: Mat
    c: float
    mean_only: bool


class Scratch(NamedTuple):
    """What is known of the present document, and room to work in."""

    held: Vec  # alpha_k + tokens of the document in topic k
    tally: Vec  # tokens of the document in each topic
    base: Mat  # (1, K): a_k - M_kk / 2
    exponent: Mat  # (1, K): a_k - M_kk / 2 - (M C)_k when it was last made
    gains: Mat  # (1, K): its exponential, up to a factor; follows every move
    couplings: Mat  # rows of M
    boosts: Mat  # their exponentials, the largest of a row being 1
    drops: Mat  # 1 / boosts
    ready: NDArray[np.bool_]  # which of them are made
    steep: NDArray[np.bool_]  # (1,): whether the gains must be made anew after every move
    strengths: Vec  # (Q,): factors of the second moments in M
    rows: Mat  # word factors of the words of the document, or of the present one
    sums: Vec  # of alpha times the rows
    weights: Vec  # of the topics, for one token
    rests: Vec  # weights of all topics but one, without word factors
    stamps: IntVec  # after how many moves they were made
    present: IntVec  # topics of the document
    scores: Vec  # (Q,): of the tasks
    spreads: Vec  # (Q,): their second moments


@kernel()
def scratch(bags: Bags, k: int, q: int) -> Scratch:
    """Room for any of the documents, k topics and q tasks."""
    longest = max(1, longest_run(bags.indptr))
    return Scratch(
        np.empty(k),
        np.empty(k),
        np.zeros((1, k)),
        np.zeros((1, k)),
        np.empty((1, k)),
        np.empty((k, k)),
        np.empty((k, k)),
        np.empty((k, k)),
        np.zeros(k, np.bool_),
        np.zeros(1, np.bool_),
        np.zeros(q),
        np.empty((longest, k)),
        np.empty(longest),
        np.empty(k),
        np.empty(k),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(q),
        np.empty(q),
    )


@kernel(SUMMED)
def exponentials(x: Mat, row: Index, out: Mat) -> float:
    """exp(x - largest) of a row, exp(-300) at least; returns the least x - largest."""
    best = to_rank(x[row, 0])
    worst = best
    for k in range(x.shape[1]):
        rank = to_rank(x[row, k])
        best = rank if rank > best else best
        worst = rank if rank < worst else worst
    peak = from_rank(best)
    for k in range(x.shape[1]):
        shifted = x[row, k] - peak
        out[row, k] = exp(shifted if shifted > DEEPEST else DEEPEST)
    least: float = from_rank(worst) - peak
    return least


@kernel(SUMMED)
def make_coupling(topic: Index, hinges: Hinges, s: Scratch) -> None:
    """Make a row of M, and its exponentials."""
    s.ready[topic] = True
    couplings, strengths, seconds = s.couplings, s.strengths, hinges.seconds
    for k in range(couplings.shape[1]):
        couplings[topic, k] = 0.0
    for q in range(strengths.size):
        strength = strengths[q]
        if strength != 0.0:
            for k in range(couplings.shape[1]):
                couplings[topic, k] += strength * seconds[topic, q, k]
    if exponentials(couplings, topic, s.boosts) < STEEPEST_ROW:
        s.steep[0] = True
    for k in range(couplings.shape[1]):
        s.drops[topic, k] = 1.0 / s.boosts[topic, k]


@kernel(SUMMED)
def set_exponent(d: int, n: int, inverses: Vec, hinges: Hinges, s: Scratch) -> None:
    """The exponent of a document whose tokens are all in place."""
    c, base, strengths = hinges.c, s.base, s.strengths
    weights, squares = hinges.weights, hinges.squares
    s.ready[:] = False
    s.steep[0] = False
    base[:] = 0.0
    for q in range(strengths.size):
        sign = hinges.signs[d, q]
        strength = c * c * inverses[q] / (n * n) if sign != 0 else 0.0
        strengths[q] = strength
        if sign != 0:
            pull = c * sign * (1.0 + c * hinges.offsets[d, q] * inverses[q]) / n
            for k in range(base.shape[1]):
                base[0, k] += pull * weights[q, k] - 0.5 * strength * squares[q, k]
    for topic in range(s.tally.size):
        if s.tally[topic] != 0.0:
            make_coupling(topic, hinges, s)
    refresh(s)


@kernel(SUMMED)
def refresh(s: Scratch) -> None:
    """Make exponent and gains from what the document has now."""
    base, exponent, couplings, tally = s.base, s.exponent, s.couplings, s.tally
    for k in range(exponent.shape[1]):
        exponent[0, k] = base[0, k]
    for topic in range(tally.size):
        count = tally[topic]
        if count != 0.0:
            for k in range(exponent.shape[1]):
                exponent[0, k] -= count * couplings[topic, k]
    if exponentials(exponent, 0, s.gains) < STEEPEST:
        s.steep[0] = True


@kernel(SUMMED)
def scaled(gains: Mat, boosts: Mat, drops: Mat, old: Index, new: Index) -> float:
    """Multiply the gains as a token's move from one topic to another does; the least of them.

    This is exact up to rounding unless a factor was cut off.
    """
    for k in range(gains.shape[1]):
        gains[0, k] *= boosts[old, k] * drops[new, k]
    least = np.float64(gains[0, 0]).view(np.int64)
    for k in range(gains.shape[1]):
        bits = np.float64(gains[0, k]).view(np.int64)
        least = bits if bits < least else least
    return np.int64(least).view(np.float64)


@kernel(SUMMED)
def _add(out: Vec, factor: float, table: NDArray[np.float64], k: Index, l: Index) -> None:
    for q in range(out.size):
        out[q] += factor * table[k, l, q]


@kernel(SUMMED)
def _task_moments(hinges: Hinges, s: Scratch) -> None:
    """Scores of the tasks and their second moments, times the document's length, and squared."""
    tally, present, scores, spreads = s.tally, s.present, s.scores, s.spreads
    means, pairs = hinges.means, hinges.pairs
    m = 0
    for k in range(tally.size):
        present[m] = k
        m += tally[k] != 0.0
    scores[:] = 0.0
    spreads[:] = 0.0
    for i in range(m):
        k = present[i]
        for q in range(scores.size):
            scores[q] += tally[k] * means[k, q]
        _add(spreads, tally[k] * tally[k], pairs, k, k)
        for j in range(i):
            _add(spreads, 2.0 * tally[k] * tally[present[j]], pairs, k, present[j])


@kernel()
def draw_inverses(
    d: int, n: int, word: np.uint64, hinges: Hinges, inverses: Vec, s: Scratch
) -> np.uint64:
    """1 / lambda of each task given the topics of the document (BayesPA eq. 30)."""
    _task_moments(hinges, s)
    for q in range(inverses.size):
        if hinges.signs[d, q] == 0:
            inverses[q] = 0.0
            continue
        score = s.scores[q] / n
        spread = max(0.0, s.spreads[q] / (n * n) - score * score)
        gap = hinges.offsets[d, q] - hinges.signs[d, q] * score
        mean = 1.0 / (hinges.c * math.sqrt(max(gap * gap + spread, LEAST_RADICAND)))
        if hinges.mean_only:
            inverses[q] = mean
            continue
        first = advanced(word)
        second = advanced(first)
        word = advanced(second)
        inverses[q] = inverse_gaussian(mean, uniform(first), uniform(second), uniform(word))
    return word
