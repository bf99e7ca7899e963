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
    total_of,
)

LEAST_RADICAND = 1e-12
_DEEPEST = -300.0
"""Exponents below this are as good as it, and products of two keep from slow denormals."""
_TINY = 1e-80
"""A sum of products below this may be due to exponents that were too deep to be told apart."""


class Hinges(NamedTuple):
    """Losses (offset - sign * w . z)_+ of documents and the Gaussians of the weights.

    signs : (B, Q), 0 for no loss
    offsets : (B, Q)
    weights : (Q, K), means; `means` (K, Q) are the same
    seconds : (K, Q, K), E[w w'] with the task in the middle; `pairs` (K, K, Q) are the same
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


class Live(NamedTuple):
    """Counts that follow every draw: `batch` (distinct words, K) and `totals` (K,) of all data.

    `places` says which row of `batch` an entry of the documents has, `scale` is 1 / totals.
    Without places the counts stand still.
    """

    places: IntVec
    batch: Mat
    totals: Vec
    scale: Vec


class _Scratch(NamedTuple):
    held: Vec  # alpha_k + tokens of the document in topic k
    tally: Vec  # tokens of the document in each topic
    exponent: Mat  # (1, K): a_k - M_kk / 2 - (M C)_k
    gains: Mat  # its exponential, the largest being 1
    couplings: Mat  # rows of M
    boosts: Mat  # their exponentials, the largest of a row being 1
    ready: NDArray[np.bool_]  # which of them are made
    strengths: Vec  # (Q,): factors of the second moments in M
    rows: Mat  # word factors of the words of the document, or of the present one
    weights: Vec  # of the topics, for one token
    present: IntVec  # topics of the document
    scores: Vec  # (Q,): of the tasks
    spreads: Vec  # (Q,): their second moments


@kernel()
def _scratch(bags: Bags, k: int, q: int) -> _Scratch:
    longest = 1
    for d in range(bags.indptr.size - 1):
        longest = max(longest, bags.indptr[d + 1] - bags.indptr[d])
    return _Scratch(
        np.empty(k),
        np.empty(k),
        np.zeros((1, k)),
        np.empty((1, k)),
        np.empty((k, k)),
        np.empty((k, k)),
        np.zeros(k, np.bool_),
        np.zeros(q),
        np.empty((longest, k)),
        np.empty(k),
        np.empty(k, np.int64),
        np.empty(q),
        np.empty(q),
    )


@kernel(SUMMED)
def _exponentials(x: Mat, row: Index, out: Mat) -> None:
    """exp(x - largest) of a row, exp(-300) at least."""
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
def _add(out: Vec, factor: float, table: NDArray[np.float64], k: Index, l: Index) -> None:
    for q in range(out.size):
        out[q] += factor * table[k, l, q]


@kernel(SUMMED)
def _task_moments(hinges: Hinges, s: _Scratch) -> None:
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
def _draw_inverses(
    d: int, n: int, word: np.uint64, hinges: Hinges, inverses: Vec, s: _Scratch
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


@kernel(inline=True)
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


@kernel(SUMMED, inline=True)
def _weigh(
    gains: Mat, boosts: Mat, old: Index, held: Vec, rows: Mat, at: Index, weights: Vec
) -> float:
    """Weights of the topics for a token whose own coupling is taken out; their sum."""
    for k in range(held.size):
        weights[k] = held[k] * rows[at, k] * gains[0, k] * boosts[old, k]
    return total_of(weights)


@kernel(SUMMED)
def _weigh_exactly(
    exponent: Mat, couplings: Mat, old: Index, held: Vec, rows: Mat, at: Index, weights: Vec
) -> float:
    """As `_weigh`, for exponentials whose products would vanish."""
    peak = (exponent[0] + couplings[old]).max()
    for k in range(held.size):
        x = exponent[0, k] + couplings[old, k] - peak
        weights[k] = held[k] * rows[at, k] * exp(x if x > _DEEPEST else _DEEPEST)
    return total_of(weights)


@kernel(SUMMED, inline=True)
def _weigh_plainly(held: Vec, rows: Mat, at: Index, weights: Vec) -> float:
    """As `_weigh`, without labels, or with a tilt that the rows contain."""
    for k in range(held.size):
        weights[k] = held[k] * rows[at, k]
    return total_of(weights)


@kernel(SUMMED, inline=True)
def _shift(exponent: Mat, gains: Mat, couplings: Mat, old: Index, new: Index) -> None:
    """The exponent and its exponential after a token has changed its topic."""
    for k in range(exponent.shape[1]):
        exponent[0, k] += couplings[old, k] - couplings[new, k]
    _exponentials(exponent, 0, gains)


@kernel(SUMMED)
def _still_rows(bags: Bags, d: int, factors: WordFactors, rows: Mat) -> None:
    """Word factors of all words of a document, while counts stand still."""
    counts, smoothing, scale = factors.counts, factors.smoothing, factors.scale
    first = bags.indptr[d]
    for j in range(bags.indptr[d + 1] - first):
        w = bags.words[first + j]
        for k in range(rows.shape[1]):
            rows[j, k] = (counts[w, k] + smoothing) * scale[k]


@kernel(SUMMED)
def _live_row(
    counts: Mat, w: int, smoothing: float, batch: Mat, at: int, scale: Vec, tilt: Vec, rows: Mat
) -> None:
    for k in range(tilt.size):
        rows[0, k] = (counts[w, k] + smoothing + batch[at, k]) * scale[k] * tilt[k]


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
    """Draw every token of a document once; with counts that stand still, rows are there."""
    i = bags.starts[d]
    gibbs = start == CONTINUE and s.strengths.size > 0
    collapsed = live.places.size > 0
    held, tally, rows, weights = s.held, s.tally, s.rows, s.weights
    exponent, gains, couplings, boosts = s.exponent, s.gains, s.couplings, s.boosts
    ready = s.ready
    counts, smoothing = factors.counts, factors.smoothing
    totals, scale, batch = live.totals, live.scale, live.batch
    at, row = 0, 0
    for place in range(bags.indptr[d], bags.indptr[d + 1]):
        w = bags.words[place]
        if collapsed:
            at = live.places[place]
            _live_row(counts, w, smoothing, batch, at, scale, tilt, rows)
        else:
            row = place - bags.indptr[d]
        for _ in range(bags.counts[place]):
            old = np.int64(topics[i])
            if start == CONTINUE:
                held[old] -= 1.0
                tally[old] -= 1.0
                if collapsed:
                    batch[at, old] -= 1.0
                    totals[old] -= 1.0
                    scale[old] = 1.0 / totals[old]
                    seen = counts[w, old] + smoothing + batch[at, old]
                    rows[0, old] = seen * scale[old] * tilt[old]
            word = advanced(word)
            u = uniform(word)
            if start == UNIFORM:
                k: Index = np.int64(u * held.size)
            elif gibbs:
                total = _weigh(gains, boosts, old, held, rows, row, weights)
                if total < _TINY:
                    total = _weigh_exactly(exponent, couplings, old, held, rows, row, weights)
                k = _pick(weights, u * total, old)
                if k != old:
                    if not ready[k]:
                        _make_coupling(k, hinges, s)
                    _shift(exponent, gains, couplings, old, k)
            else:
                k = _pick(weights, u * _weigh_plainly(held, rows, row, weights), old)
            held[k] += 1.0
            tally[k] += 1.0
            if collapsed:
                batch[at, k] += 1.0
                totals[k] += 1.0
                scale[k] = 1.0 / totals[k]
                seen = counts[w, k] + smoothing + batch[at, k]
                rows[0, k] = seen * scale[k] * tilt[k]
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
    s = _scratch(bags, alpha.size, hinges.weights.shape[0])
    still = Live(np.empty(0, np.int64), np.empty((0, 0)), np.empty(0), np.empty(0))
    tilt = np.empty(0)
    current = np.empty(hinges.weights.shape[0])
    for d in range(bags.indptr.size - 1):
        n = bags.starts[d + 1] - bags.starts[d]
        if n == 0:
            continue
        word = keys[d]
        _still_rows(bags, d, factors, s.rows)
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
    s = _scratch(bags, alpha.size, hinges.weights.shape[0])
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


@kernel(SUMMED)
def add_moments(
    tallies: NDArray[np.float64],
    lengths: Vec,
    inverses: NDArray[np.float64],
    signs: NDArray[np.int8],
    offsets: Mat,
    c: float,
    gram: NDArray[np.float64],
    pull: Mat,
) -> None:
    """Sums over kept sweeps and documents of BayesPA eq. 28, without c and the prior.

    Parameters
    ----------
    tallies, inverses : (kept sweeps, B, K) and (kept sweeps, B, Q)
    signs, offsets, c : as in `Hinges`
    gram : (K, K, Q), of z z' / lambda; only entries with k >= l are added to
    pull : (K, Q), of s (1 + c o / lambda) z
    """
    n_topics, n_tasks = pull.shape
    present = np.empty(n_topics, np.int64)
    inverse, force = np.empty(n_tasks), np.empty(n_tasks)
    for sweep in range(tallies.shape[0]):
        for d in range(tallies.shape[1]):
            m = 0
            for k in range(n_topics):
                present[m] = k
                m += tallies[sweep, d, k] != 0.0
            for q in range(n_tasks):
                sign = signs[d, q]
                inverse[q] = inverses[sweep, d, q] if sign != 0 else 0.0
                force[q] = sign * (1.0 + c * offsets[d, q] * inverse[q])
            for i in range(m):
                k = present[i]
                z = tallies[sweep, d, k] / lengths[d]
                for q in range(n_tasks):
                    pull[k, q] += z * force[q]
                for j in range(i + 1):
                    l = present[j]
                    product = z * tallies[sweep, d, l] / lengths[d]
                    for q in range(n_tasks):
                        gram[k, l, q] += product * inverse[q]
