"""Topics of tokens under the Gibbs loss, and under word counts that follow every draw.

Given the augmentation variables of a document, the exponent of topic k is

    a_k - M_kk / 2 - (M C)_k,   a = sum_q c s_q (1 + c o_q / lambda_q) mu^q / n,
                                M = sum_q c^2 / lambda_q (mu^q mu^q' + Sigma^q) / n^2,

for any number of tasks q whose loss is the hinge (o_q - s_q w^q . z)_+ (BayesPA eq. 29). Rows of M
are made when a topic turns up: a document has few. Collapsed draws use the word counts of all
other tokens, those of the batch included, so documents of a batch are visited one after the other.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.kernels._jit import SUMMED, kernel
from everlearn.inference.kernels.draws import (
    Words,
    advanced,
    inverse_gaussian,
    uniform,
)
from everlearn.inference.kernels.scalars import exp, from_rank, to_rank
from everlearn.inference.kernels.topics import (
    CONTINUE,
    UNIFORM,
    Bags,
    Index,
    Samples,
    Topics,
    WordFactors,
)

LEAST_RADICAND = 1e-12
_DEEPEST = -700.0
_TINY = 1e-200
"""A sum of products below this may have lost terms that mattered."""


class Hinges(NamedTuple):
    """Losses (offset - sign * w . z)_+ of documents and the Gaussians of the weights.

    signs : (B, Q), 0 for no loss
    offsets : (B, Q)
    weights : (Q, K), means
    seconds : (K, Q, K), E[w w'] with the task in the middle
    squares : (Q, K), its diagonals
    c : weight of the loss
    mean_only : whether augmentation variables take their means instead of being drawn
    """

    signs: NDArray[np.int8]
    offsets: Mat
    weights: Mat
    seconds: NDArray[np.float64]
    squares: Mat
    c: float
    mean_only: bool


class Live(NamedTuple):
    """Counts that follow every draw: `batch` (distinct words, K) and `totals` (K,) of all data.

    `places` says which row of `batch` an entry of the documents has. Without places the counts
    stand still.
    """

    places: IntVec
    batch: Mat
    totals: Vec


class _Scratch(NamedTuple):
    held: Vec  # alpha_k + tokens of the document in topic k
    tally: Vec  # tokens of the document in each topic
    exponent: Mat  # (1, K): a_k - M_kk / 2 - (M C)_k
    gains: Mat  # its exponential, the largest being 1
    couplings: Mat  # rows of M
    boosts: Mat  # their exponentials, the largest of a row being 1
    ready: NDArray[np.bool_]  # which of them are made
    strengths: Vec  # (Q,): factors of the second moments in M
    row: Vec  # word factors of one word
    weights: Vec  # of the topics, for one token


@kernel()
def _scratch(k: int, q: int) -> _Scratch:
    return _Scratch(
        np.empty(k),
        np.empty(k),
        np.zeros((1, k)),
        np.empty((1, k)),
        np.empty((k, k)),
        np.empty((k, k)),
        np.zeros(k, np.bool_),
        np.zeros(q),
        np.empty(k),
        np.empty(k),
    )


@kernel(SUMMED)
def _exponentials(x: Mat, row: Index, out: Mat) -> None:
    """exp(x - largest) of a row; what is below exp(-700) is exp(-700)."""
    best = to_rank(x[row, 0])
    for k in range(x.shape[1]):
        rank = to_rank(x[row, k])
        best = rank if rank > best else best
    peak = from_rank(best)
    for k in range(x.shape[1]):
        shifted = x[row, k] - peak
        out[row, k] = exp(shifted if shifted > _DEEPEST else _DEEPEST)


@kernel(SUMMED)
def _make_coupling(topic: Index, hinges: Hinges, s: _Scratch) -> None:
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
    _exponentials(couplings, topic, s.boosts)


@kernel(SUMMED)
def _set_exponent(d: int, n: int, inverses: Vec, hinges: Hinges, s: _Scratch) -> None:
    """The exponent of a document whose tokens are all in place."""
    c, exponent, couplings, strengths = hinges.c, s.exponent, s.couplings, s.strengths
    s.ready[:] = False
    exponent[:] = 0.0
    for q in range(strengths.size):
        sign = hinges.signs[d, q]
        strength = c * c * inverses[q] / (n * n) if sign != 0 else 0.0
        strengths[q] = strength
        if sign != 0:
            pull = c * sign * (1.0 + c * hinges.offsets[d, q] * inverses[q]) / n
            for k in range(exponent.shape[1]):
                exponent[0, k] += (
                    pull * hinges.weights[q, k] - 0.5 * strength * hinges.squares[q, k]
                )
    for topic in range(s.tally.size):
        count = s.tally[topic]
        if count != 0.0:
            _make_coupling(topic, hinges, s)
            for k in range(exponent.shape[1]):
                exponent[0, k] -= count * couplings[topic, k]
    _exponentials(exponent, 0, s.gains)


@kernel(SUMMED)
def _draw_inverses(
    d: int, n: int, word: np.uint64, hinges: Hinges, inverses: Vec, s: _Scratch
) -> np.uint64:
    """1 / lambda of each task given the topics of the document (BayesPA eq. 30)."""
    present = np.flatnonzero(s.tally)
    for q in range(inverses.size):
        if hinges.signs[d, q] == 0:
            inverses[q] = 0.0
            continue
        score, square = 0.0, 0.0
        for k in present:
            score += s.tally[k] * hinges.weights[q, k]
            for l in present:
                square += s.tally[k] * s.tally[l] * hinges.seconds[k, q, l]
        score /= n
        spread = max(0.0, square / (n * n) - score * score)
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


@kernel()
def _pick(weights: Vec, target: float, likely: Index) -> Index:
    """The topic in which a running sum of weights reaches the target, the likely one first."""
    target -= weights[likely]
    if target < 0.0:
        return likely
    weights[likely] = 0.0
    k = 0
    total = weights[0]
    last = weights.size - 1
    while total <= target and k < last:
        k += 1
        total += weights[k]
    return k


@kernel(SUMMED)
def _weigh(gains: Mat, boosts: Mat, old: Index, held: Vec, row: Vec, weights: Vec) -> float:
    """Weights of the topics for a token whose own coupling is taken out; their sum."""
    total = 0.0
    for k in range(row.size):
        weight = held[k] * row[k] * gains[0, k] * boosts[old, k]
        weights[k] = weight
        total += weight
    return total


@kernel(SUMMED)
def _weigh_exactly(
    exponent: Mat, couplings: Mat, old: Index, held: Vec, row: Vec, weights: Vec
) -> float:
    """As `_weigh`, for exponentials whose products would vanish."""
    peak = (exponent[0] + couplings[old]).max()
    total = 0.0
    for k in range(row.size):
        x = exponent[0, k] + couplings[old, k] - peak
        weight = held[k] * row[k] * exp(x if x > _DEEPEST else _DEEPEST)
        weights[k] = weight
        total += weight
    return total


@kernel(SUMMED)
def _weigh_plainly(held: Vec, row: Vec, weights: Vec) -> float:
    """As `_weigh`, without labels, or with a tilt that the row contains."""
    total = 0.0
    for k in range(row.size):
        weight = held[k] * row[k]
        weights[k] = weight
        total += weight
    return total


@kernel(SUMMED)
def _shift(exponent: Mat, gains: Mat, couplings: Mat, old: Index, new: Index) -> None:
    """The exponent and its exponential after a token has changed its topic."""
    for k in range(exponent.shape[1]):
        exponent[0, k] += couplings[old, k] - couplings[new, k]
    _exponentials(exponent, 0, gains)


@kernel(SUMMED)
def _still_row(counts: Mat, w: int, smoothing: float, scale: Vec, tilt: Vec, row: Vec) -> None:
    for k in range(row.size):
        row[k] = (counts[w, k] + smoothing) * scale[k] * tilt[k]


@kernel(SUMMED)
def _live_row(
    counts: Mat, w: int, smoothing: float, batch: Mat, at: int, totals: Vec, tilt: Vec, row: Vec
) -> None:
    for k in range(row.size):
        row[k] = (counts[w, k] + smoothing + batch[at, k]) / totals[k] * tilt[k]


@kernel(SUMMED)
def _visit(
    bags: Bags,
    d: int,
    topics: Topics,
    factors: WordFactors,
    live: Live,
    tilt: Vec,
    hinges: Hinges,
    word: np.uint64,
    start: int,
    s: _Scratch,
) -> np.uint64:
    """Draw every token of a document once."""
    i = bags.starts[d]
    gibbs = start == CONTINUE and s.strengths.size > 0
    collapsed = live.places.size > 0
    held, tally, row, weights = s.held, s.tally, s.row, s.weights
    exponent, gains, couplings, boosts = s.exponent, s.gains, s.couplings, s.boosts
    ready = s.ready
    counts, smoothing, scale = factors.counts, factors.smoothing, factors.scale
    totals, batch = live.totals, live.batch
    at = 0
    for place in range(bags.indptr[d], bags.indptr[d + 1]):
        w = bags.words[place]
        if collapsed:
            at = live.places[place]
            _live_row(counts, w, smoothing, batch, at, totals, tilt, row)
        else:
            _still_row(counts, w, smoothing, scale, tilt, row)
        for _ in range(bags.counts[place]):
            old = np.int64(topics[i])
            if start == CONTINUE:
                held[old] -= 1.0
                tally[old] -= 1.0
                if collapsed:
                    batch[at, old] -= 1.0
                    totals[old] -= 1.0
                    seen = counts[w, old] + smoothing + batch[at, old]
                    row[old] = seen / totals[old] * tilt[old]
            word = advanced(word)
            u = uniform(word)
            if start == UNIFORM:
                k: Index = np.int64(u * row.size)
            elif gibbs:
                total = _weigh(gains, boosts, old, held, row, weights)
                if total < _TINY:
                    total = _weigh_exactly(exponent, couplings, old, held, row, weights)
                k = _pick(weights, u * total, old)
                if k != old:
                    if not ready[k]:
                        _make_coupling(k, hinges, s)
                    _shift(exponent, gains, couplings, old, k)
            else:
                k = _pick(weights, u * _weigh_plainly(held, row, weights), old)
            held[k] += 1.0
            tally[k] += 1.0
            if collapsed:
                batch[at, k] += 1.0
                totals[k] += 1.0
                seen = counts[w, k] + smoothing + batch[at, k]
                row[k] = seen / totals[k] * tilt[k]
            topics[i] = k
            i += 1
    return word


@kernel()
def _count(bags: Bags, d: int, topics: Topics, alpha: Vec, s: _Scratch) -> None:
    s.tally[:] = 0.0
    for i in range(bags.starts[d], bags.starts[d + 1]):
        s.tally[topics[i]] += 1.0
    s.held[:] = alpha + s.tally


@kernel()
def sample_augmented(
    bags: Bags,
    factors: WordFactors,
    alpha: Vec,
    hinges: Hinges,
    keys: Words,
    schedule: tuple[int, int, int],
    out: Samples,
    tallies: NDArray[np.float64],
    inverses: NDArray[np.float64],
) -> None:
    """Sweeps over documents under the Gibbs loss, with word counts that stand still.

    Parameters
    ----------
    schedule : number of sweeps, how many of them are dropped, and how topics start
    tallies : (kept sweeps, B, K), tokens of each document in each topic, filled
    inverses : (kept sweeps, B, Q), 1 / lambda, filled; before CONTINUE the last ones are read
    """
    n_sweeps, burn_in, start = schedule
    s = _scratch(alpha.size, hinges.weights.shape[0])
    still = Live(np.empty(0, np.int64), np.empty((0, 0)), np.empty(0))
    tilt = np.ones(alpha.size)
    current = np.empty(hinges.weights.shape[0])
    for d in range(bags.indptr.size - 1):
        n = bags.starts[d + 1] - bags.starts[d]
        if n == 0:
            continue
        word = keys[d]
        if start == CONTINUE:
            _count(bags, d, out.topics, alpha, s)
            current[:] = inverses[-1, d]
        else:
            s.tally[:] = 0.0
            s.held[:] = alpha
            word = _visit(bags, d, out.topics, factors, still, tilt, hinges, word, start, s)
            word = _draw_inverses(d, n, word, hinges, current, s)
        for sweep in range(n_sweeps):
            _set_exponent(d, n, current, hinges, s)
            word = _visit(bags, d, out.topics, factors, still, tilt, hinges, word, CONTINUE, s)
            word = _draw_inverses(d, n, word, hinges, current, s)
            if sweep >= burn_in:
                tallies[sweep - burn_in, d] = s.tally
                inverses[sweep - burn_in, d] = current
                out.totals[d] += s.tally
                out.kept[sweep - burn_in, bags.starts[d] : bags.starts[d + 1]] = out.topics[
                    bags.starts[d] : bags.starts[d + 1]
                ]


@kernel()
def sweep_collapsed(
    bags: Bags,
    factors: WordFactors,
    alpha: Vec,
    live: Live,
    tilts: Mat,
    hinges: Hinges,
    streams: Words,
    start: int,
    topics: Topics,
    tallies: Mat,
    inverses: Mat,
) -> None:
    """One sweep over the documents of a batch with word counts that follow every draw.

    Topics, tallies (B, K), 1 / lambda (B, Q), streams and live counts are brought up to date.
    """
    s = _scratch(alpha.size, hinges.weights.shape[0])
    for d in range(bags.indptr.size - 1):
        n = bags.starts[d + 1] - bags.starts[d]
        if n == 0:
            continue
        if start == CONTINUE:
            s.tally[:] = tallies[d]
            s.held[:] = alpha + s.tally
            if inverses.shape[1]:
                _set_exponent(d, n, inverses[d], hinges, s)
        else:
            s.tally[:] = 0.0
            s.held[:] = alpha
        word = _visit(bags, d, topics, factors, live, tilts[d], hinges, streams[d], start, s)
        if inverses.shape[1]:
            word = _draw_inverses(d, n, word, hinges, inverses[d], s)
        streams[d] = word
        tallies[d] = s.tally
