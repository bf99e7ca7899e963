"""Topics of tokens under the Gibbs loss, and under word counts that follow every draw.

Collapsed draws use the word counts of all other tokens, those of the batch included, so documents
of a batch are visited one after the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.kernels._jit import SUMMED, kernel
from everlearn.inference.kernels.draws import Words, advanced, uniform
from everlearn.inference.kernels.hinges import (
    DEEPEST,
    Hinges,
    Scratch,
    draw_inverses,
    exponentials,
    make_coupling,
    scratch,
    set_exponent,
)
from everlearn.inference.kernels.scalars import exp
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

_TINY = 1e-80
"""A sum of products below this may be due to exponents that were too deep to be told apart."""


class Live(NamedTuple):
    """Counts that follow every draw: `batch` (distinct words, K) and `totals` (K,) of all data.

    `places` says which row of `batch` an entry of the documents has, `scale` is 1 / totals.
    Without places the counts stand still.
    """

    places: IntVec
    batch: Mat
    totals: Vec
    scale: Vec


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
        weights[k] = held[k] * rows[at, k] * exp(x if x > DEEPEST else DEEPEST)
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
    exponentials(exponent, 0, gains)


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
    s: Scratch,
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
                        make_coupling(k, hinges, s)
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
def _count(bags: Bags, d: int, topics: Topics, alpha: Vec, s: Scratch) -> None:
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
    s = scratch(bags, alpha.size, hinges.weights.shape[0])
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
            word = draw_inverses(d, n, word, hinges, current, s)
        for sweep in range(n_sweeps):
            set_exponent(d, n, current, hinges, s)
            word = _visit(bags, d, out.topics, factors, still, tilt, hinges, word, CONTINUE, s)
            word = draw_inverses(d, n, word, hinges, current, s)
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
    s = scratch(bags, alpha.size, hinges.weights.shape[0])
    for d in range(bags.indptr.size - 1):
        n = bags.starts[d + 1] - bags.starts[d]
        if n == 0:
            continue
        if start == CONTINUE:
            s.tally[:] = tallies[d]
            s.held[:] = alpha + s.tally
            if inverses.shape[1]:
                set_exponent(d, n, inverses[d], hinges, s)
        else:
            s.tally[:] = 0.0
            s.held[:] = alpha
        word = _visit(bags, d, topics, factors, live, tilts[d], hinges, streams[d], start, s)
        if inverses.shape[1]:
            word = draw_inverses(d, n, word, hinges, inverses[d], s)
        streams[d] = word
        tallies[d] = s.tally
