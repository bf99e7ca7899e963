"""Topics of tokens under word counts that follow every draw.

Collapsed draws use the word counts of all other tokens, those of the batch included, so documents
of a batch are visited one after the other.
"""

from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.draws import Words, uniform, xorshift64
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.topics.kernels.choices import HUGE, TINY, pick, weigh, weigh_exactly, weigh_plainly
from everlearn.topics.kernels.hinges import (
    LEAST_GAIN,
    MOVES,
    Hinges,
    Scratch,
    draw_inverses,
    least_of,
    make_coupling,
    refresh,
    scale_gains,
    scratch,
    set_exponent,
)
from everlearn.topics.kernels.sampler import CONTINUE, UNIFORM, Bags, Index, Topics, WordFactors


class Live(NamedTuple):
    """Counts that follow every draw: `batch` (distinct words, K) and `totals` (K,) of all data.

    `places` says which row of `batch` an entry of the documents has, `scale` is 1 / totals.
    """

    places: IntVec
    batch: Mat
    totals: Vec
    scale: Vec


@kernel(SUMMED)
def _live_row(
    counts: Mat, w: int, smoothing: float, batch: Mat, at: int, scale: Vec, tilt: Vec, rows: Mat
) -> None:
    for k in range(tilt.size):
        rows[0, k] = (counts[w, k] + smoothing + batch[at, k]) * scale[k] * tilt[k]


@kernel(SUMMED, inline=True)
def _recount(
    by: float,
    k: Index,
    counts: Mat,
    w: int,
    smoothing: float,
    batch: Mat,
    at: int,
    totals: Vec,
    scale: Vec,
    tilt: Vec,
    rows: Mat,
) -> None:
    """One token more or less of the word in a topic."""
    batch[at, k] += by
    totals[k] += by
    scale[k] = 1.0 / totals[k]
    rows[0, k] = (counts[w, k] + smoothing + batch[at, k]) * scale[k] * tilt[k]


@kernel(SUMMED)
def _rest(held: Vec, rows: Mat, old: Index) -> float:
    """The sum of the weights of all topics but one."""
    total = 0.0
    for k in range(held.size):
        product = held[k] * rows[0, k]
        total += product if k != old else 0.0
    return total


@kernel(SUMMED)
def _tilted_rest(gains: Mat, boosts: Mat, held: Vec, rows: Mat, old: Index) -> float:
    """As `_rest`, with labels."""
    total = 0.0
    for k in range(held.size):
        product = held[k] * rows[0, k] * gains[0, k] * boosts[old, k]
        total += product if k != old else 0.0
    return total


@kernel(SUMMED)
def _begin(
    bags: Bags,
    d: int,
    topics: Topics,
    factors: WordFactors,
    live: Live,
    tilt: Vec,
    word: np.uint64,
    start: int,
    s: Scratch,
) -> np.uint64:
    """Draw the topics of a document's tokens in order, with a tilt for its labels, or uniformly."""
    i = bags.starts[d]
    held, tally, rows, weights = s.held, s.tally, s.rows, s.weights
    counts, smoothing = factors.counts, factors.smoothing
    batch, totals, scale = live.batch, live.totals, live.scale
    for place in range(bags.indptr[d], bags.indptr[d + 1]):
        w, at = bags.words[place], live.places[place]
        _live_row(counts, w, smoothing, batch, at, scale, tilt, rows)
        for _ in range(bags.counts[place]):
            word = xorshift64(word)
            u = uniform(word)
            if start == UNIFORM:
                k: Index = np.int64(u * held.size)
            else:
                k = pick(weights, u * weigh_plainly(held, rows, 0, weights), 0)
            held[k] += 1.0
            tally[k] += 1.0
            _recount(1.0, k, counts, w, smoothing, batch, at, totals, scale, tilt, rows)
            topics[i] = k
            i += 1
    return word


@kernel(SUMMED)
def _visit(
    bags: Bags,
    d: int,
    topics: Topics,
    factors: WordFactors,
    live: Live,
    tilt: Vec,
    word: np.uint64,
    s: Scratch,
) -> np.uint64:
    """Draw every token of a document once. Nothing is written for those that stay."""
    i = bags.starts[d]
    held, tally, rows, weights = s.held, s.tally, s.rows, s.weights
    counts, smoothing = factors.counts, factors.smoothing
    batch, totals, scale = live.batch, live.totals, live.scale
    for place in range(bags.indptr[d], bags.indptr[d + 1]):
        w, at = bags.words[place], live.places[place]
        _live_row(counts, w, smoothing, batch, at, scale, tilt, rows)
        for _ in range(bags.counts[place]):
            old = np.int64(topics[i])
            word = xorshift64(word)
            u = uniform(word)
            seen = counts[w, old] + smoothing + batch[at, old] - 1.0
            own = (held[old] - 1.0) * (seen / (totals[old] - 1.0)) * tilt[old]
            total = own + _rest(held, rows, old)
            if u * total < own and TINY < total < HUGE:
                i += 1
                continue
            held[old] -= 1.0
            _recount(-1.0, old, counts, w, smoothing, batch, at, totals, scale, tilt, rows)
            k = pick(weights, u * weigh_plainly(held, rows, 0, weights), old)
            if k != old:
                tally[old] -= 1.0
                tally[k] += 1.0
            held[k] += 1.0
            _recount(1.0, k, counts, w, smoothing, batch, at, totals, scale, tilt, rows)
            topics[i] = k
            i += 1
    return word


@kernel(SUMMED)
def _visit_with_hinges(
    bags: Bags,
    d: int,
    topics: Topics,
    factors: WordFactors,
    live: Live,
    flat: Vec,
    hinges: Hinges,
    word: np.uint64,
    s: Scratch,
) -> np.uint64:
    """As `_visit`, under the Gibbs loss; `flat` is a tilt of ones."""
    i, n_moves, smoothing = bags.starts[d], 0, factors.smoothing
    held, tally, rows, weights = s.held, s.tally, s.rows, s.weights
    gains, boosts, drops, ready, steep = s.gains, s.boosts, s.drops, s.ready, s.steep
    counts, batch, totals, scale = factors.counts, live.batch, live.totals, live.scale
    for place in range(bags.indptr[d], bags.indptr[d + 1]):
        w, at = bags.words[place], live.places[place]
        _live_row(counts, w, smoothing, batch, at, scale, flat, rows)
        for _ in range(bags.counts[place]):
            old = np.int64(topics[i])
            word = xorshift64(word)
            u = uniform(word)
            share = (counts[w, old] + smoothing + batch[at, old] - 1.0) / (totals[old] - 1.0)
            own = (held[old] - 1.0) * share * (gains[0, old] * boosts[old, old])
            total = own + _tilted_rest(gains, boosts, held, rows, old)
            usual = TINY < total < HUGE
            if usual and u * total < own:
                i += 1
                continue
            held[old] -= 1.0
            _recount(-1.0, old, counts, w, smoothing, batch, at, totals, scale, flat, rows)
            if usual:
                total = weigh(gains, boosts, old, held, rows, 0, weights)
            k = pick(weights, u * (total if usual else _weigh_anew(old, s)), old)
            if k != old:
                tally[old] -= 1.0
                tally[k] += 1.0
                if not ready[k]:
                    make_coupling(k, hinges, s)
                scale_gains(gains, boosts, drops, old, k)
                n_moves += 1
                if steep[0] or (n_moves % MOVES == 0 and least_of(gains) < LEAST_GAIN):
                    refresh(s)
            held[k] += 1.0
            _recount(1.0, k, counts, w, smoothing, batch, at, totals, scale, flat, rows)
            topics[i] = k
            i += 1
    return word


@kernel(SUMMED)
def _weigh_anew(old: Index, s: Scratch) -> float:
    """Weights of the topics from exponents made anew, where products would vanish."""
    refresh(s)
    total: float = weigh_exactly(s.exponent, s.couplings, old, s.held, s.rows, 0, s.weights)
    return total


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
            tilt, word = tilts[d], streams[d]
            if inverses.shape[1]:
                set_exponent(d, n, inverses[d], hinges, s)
                word = _visit_with_hinges(bags, d, topics, factors, live, tilt, hinges, word, s)
            else:
                word = _visit(bags, d, topics, factors, live, tilt, word, s)
        else:
            s.tally[:] = 0.0
            s.held[:] = alpha
            word = _begin(bags, d, topics, factors, live, tilts[d], streams[d], start, s)
        if inverses.shape[1]:
            word = draw_inverses(d, n, word, hinges, inverses[d], s)
        streams[d] = word
        tallies[d] = s.tally
