"""Hinge losses of documents under Gaussian weights, and how they change the topics of tokens.

Given the augmentation variables of a document, the exponent of topic k is

    a_k - M_kk / 2 - (M C)_k,   a = sum_q c s_q (1 + c o_q / lambda_q) mu^q / n,
                                M = sum_q c^2 / lambda_q (mu^q mu^q' + Sigma^q) / n^2,

for tasks q with the hinge (o_q - s_q w^q . z)_+ (BayesPA eq. 29). A document has few topics, so a
row of M is computed only when its topic first appears in the document.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.arrays import longest_run
from everlearn.kernels.draws import inverse_gaussian, uniform, xorshift64
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.kernels.scalars import exp, from_rank, to_rank
from everlearn.topics.kernels.choices import DEEPEST
from everlearn.topics.kernels.sampler import Bags, Index

MIN_RADICAND = 1e-12
MIN_EXPONENT, MIN_ROW_EXPONENT = -250.0, -100.0
"""Least values of exponents and of rows of M, relative to the largest, for which gains can be
updated by products. Below them, products could underflow."""
MIN_GAIN, MOVES_PER_CHECK = 1e-130, 4
"""Gains are checked every so many moves. So few moves cannot take this gain to zero."""


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
    """Values of the current document, and working arrays."""

    masses: Vec  # alpha_k + tokens of the document in topic k; at first alpha_k * tilt
    tally: Vec  # tokens of the document in each topic
    base: Mat  # (1, K): a_k - M_kk / 2
    exponent: Mat  # (1, K): a_k - M_kk / 2 - (M C)_k, as of the last `refresh`
    gains: Mat  # (1, K): its exponential, up to a factor; multiplied at every move
    couplings: Mat  # rows of M
    boosts: Mat  # their exponentials, the largest of a row being 1
    inverse_boosts: Mat  # 1 / boosts
    ready: NDArray[np.bool_]  # which rows of M are computed
    steep: NDArray[np.bool_]  # (1,): whether gains must be recomputed after every move
    strengths: Vec  # (Q,): factors of the second moments in M
    rows: Mat  # word factors of the words of the document, or of the current one
    peaks: Vec  # the largest factor of each row
    weights: Vec  # of the topics, for one token
    other_sums: Vec  # sums of the weights of all topics but one, without word factors
    summed_at: IntVec  # number of moves when each was summed; -1 for never
    present: IntVec  # topics of the document
    scores: Vec  # (Q,): of the tasks
    spreads: Vec  # (Q,): their second moments
    pulls: Vec  # (Q,): factors of the means in a
    uniforms: Mat  # (3, Q): random numbers


@kernel()
def scratch(bags: Bags, k: int, q: int) -> Scratch:
    """Working arrays for any of the documents, k topics and q tasks."""
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
        np.empty(q),
        np.zeros((3, q)),
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


@kernel(SUMMED, inline=True)
def make_coupling(topic: Index, hinges: Hinges, s: Scratch) -> None:
    """Compute a row of M and its exponentials, four tasks at a time, which is quicker."""
    s.ready[topic] = True
    couplings, strengths, seconds = s.couplings, s.strengths, hinges.seconds
    n_tasks, n_topics = strengths.size, couplings.shape[1]
    for k in range(n_topics):
        couplings[topic, k] = 0.0
    for q in range(n_tasks // 4):
        q *= 4
        s0, s1, s2, s3 = strengths[q], strengths[q + 1], strengths[q + 2], strengths[q + 3]
        for k in range(n_topics):
            couplings[topic, k] += (
                s0 * seconds[topic, q, k]
                + s1 * seconds[topic, q + 1, k]
                + s2 * seconds[topic, q + 2, k]
                + s3 * seconds[topic, q + 3, k]
            )
    for q in range(n_tasks // 4 * 4, n_tasks):
        for k in range(n_topics):
            couplings[topic, k] += strengths[q] * seconds[topic, q, k]
    if exponentials(couplings, topic, s.boosts) < MIN_ROW_EXPONENT:
        s.steep[0] = True
    for k in range(couplings.shape[1]):
        s.inverse_boosts[topic, k] = 1.0 / s.boosts[topic, k]


@kernel(SUMMED)
def set_exponent(d: int, n: int, inverses: Vec, hinges: Hinges, s: Scratch) -> None:
    """Compute exponent and gains of a document whose tokens all have topics."""
    c, base, pulls, strengths = hinges.c, s.base, s.pulls, s.strengths
    weights, squares = hinges.weights, hinges.squares
    s.ready[:] = False
    s.steep[0] = False
    base[:] = 0.0
    for q in range(strengths.size):
        sign = hinges.signs[d, q]
        strengths[q] = c * c * inverses[q] / (n * n) if sign != 0 else 0.0
        pulls[q] = c * sign * (1.0 + c * hinges.offsets[d, q] * inverses[q]) / n
    for q in range(strengths.size // 2):
        q *= 2
        p0, p1 = pulls[q], pulls[q + 1]
        h0, h1 = 0.5 * strengths[q], 0.5 * strengths[q + 1]
        for k in range(base.shape[1]):
            base[0, k] += (p0 * weights[q, k] - h0 * squares[q, k]) + (
                p1 * weights[q + 1, k] - h1 * squares[q + 1, k]
            )
    for q in range(strengths.size // 2 * 2, strengths.size):
        for k in range(base.shape[1]):
            base[0, k] += pulls[q] * weights[q, k] - 0.5 * strengths[q] * squares[q, k]
    for topic in range(s.tally.size):
        if s.tally[topic] != 0.0:
            make_coupling(topic, hinges, s)
    refresh(s)


@kernel(SUMMED)
def refresh(s: Scratch) -> None:
    """Recompute exponent and gains from the current topics, without the rounding of products."""
    base, exponent, couplings, tally = s.base, s.exponent, s.couplings, s.tally
    for k in range(exponent.shape[1]):
        exponent[0, k] = base[0, k]
    for topic in range(tally.size):
        count = tally[topic]
        if count != 0.0:
            for k in range(exponent.shape[1]):
                exponent[0, k] -= count * couplings[topic, k]
    if exponentials(exponent, 0, s.gains) < MIN_EXPONENT:
        s.steep[0] = True


@kernel(SUMMED, inline=True)
def scale_gains(gains: Mat, boosts: Mat, inverse_boosts: Mat, old: Index, new: Index) -> None:
    """Update the gains for a token that moves to another topic.

    This is exact up to rounding unless a factor was cut off.
    """
    for k in range(gains.shape[1]):
        gains[0, k] *= boosts[old, k] * inverse_boosts[new, k]


@kernel(SUMMED)
def least_of(gains: Mat) -> float:
    """The least of the gains. It compares bits, which order positive floats and are quicker."""
    least = np.float64(gains[0, 0]).view(np.int64)
    for k in range(gains.shape[1]):
        bits = np.float64(gains[0, k]).view(np.int64)
        least = bits if bits < least else least
    return np.int64(least).view(np.float64)


@kernel(SUMMED)
def largest_of(rows: Mat, at: Index) -> float:
    """The largest of a row of positive numbers."""
    largest = np.float64(rows[at, 0]).view(np.int64)
    for k in range(rows.shape[1]):
        bits = np.float64(rows[at, k]).view(np.int64)
        largest = bits if bits > largest else largest
    return np.int64(largest).view(np.float64)


@kernel(inline=True)
def _add_scaled(out: Vec, factor: float, table: NDArray[np.float64], k: Index, l: Index) -> None:
    for q in range(out.size):
        out[q] += factor * table[k, l, q]


@kernel(inline=True)
def _task_moments(hinges: Hinges, s: Scratch) -> None:
    """Scores of the tasks, times the document's length, and second moments, times its square."""
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
        _add_scaled(spreads, tally[k] * tally[k], pairs, k, k)
        for j in range(i):
            _add_scaled(spreads, 2.0 * tally[k] * tally[present[j]], pairs, k, present[j])


@kernel(inline=True)
def _inverse_means(d: int, n: int, hinges: Hinges, s: Scratch, means: Vec) -> None:
    """Means of 1 / lambda (BayesPA eq. 30). They mean nothing where the label is missing."""
    signs, offsets, scores, spreads, c = hinges.signs, hinges.offsets, s.scores, s.spreads, hinges.c
    for q in range(means.size):
        score = scores[q] / n
        spread = spreads[q] / (n * n) - score * score
        gap = offsets[d, q] - signs[d, q] * score
        radicand = gap * gap + (spread if spread > 0.0 else 0.0)
        means[q] = 1.0 / (c * math.sqrt(radicand if radicand > MIN_RADICAND else MIN_RADICAND))


@kernel()
def draw_inverses(
    d: int, n: int, word: np.uint64, hinges: Hinges, inverses: Vec, s: Scratch
) -> np.uint64:
    """1 / lambda of each task given the topics of the document (BayesPA eq. 30)."""
    signs, uniforms = hinges.signs, s.uniforms
    _task_moments(hinges, s)
    _inverse_means(d, n, hinges, s, inverses)
    if not hinges.mean_only:
        for q in range(inverses.size):
            if signs[d, q] != 0:
                for i in range(3):
                    word = xorshift64(word)
                    uniforms[i, q] = uniform(word)
        for q in range(inverses.size):
            first, second, third = uniforms[0, q], uniforms[1, q], uniforms[2, q]
            inverses[q] = inverse_gaussian(inverses[q], first, second, third)
    for q in range(inverses.size):
        inverses[q] = inverses[q] if signs[d, q] != 0 else 0.0
    return word
