"""Draw the topics of tokens, updating word counts after each draw (collapsed Gibbs sampling).

Each draw uses the word counts of all other tokens, with those of the batch. So the documents of a
batch come one after the other.
"""

from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.draws import Words, uniform, xorshift64
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.topics.kernels.choices import HUGE, TINY, pick, weigh, weigh_exactly, weigh_plainly
from everlearn.topics.kernels.hinges import (
    MIN_GAIN,
    MOVES_PER_CHECK,
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


class LiveCounts(NamedTuple):
    """Counts that follow every draw: `batch` (distinct words, K) and `totals` (K,) of all data.

    `places` says which row of `batch` an entry of the documents has, `scale` is 1 / totals.
    """

    places: IntVec
    batch: Mat
    totals: Vec
    scale: Vec


class Room(NamedTuple):
    """Working arrays for one document: a part of `Scratch`, and all that no labels need."""

    masses: Vec
    tally: Vec
    rows: Mat
    weights: Vec


@kernel(SUMMED)
def _live_row(
    counts: Mat, w: int, smoothing: float, batch: Mat, at: int, scale: Vec, tilt: Vec, rows: Mat
) -> None:
    for k in range(tilt.size):
        rows[0, k] = (counts[w, k] + smoothing + batch[at, k]) * scale[k] * tilt[k]


@kernel(SUMMED, inline=True)
def _change_count(
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
    """Add `by`, 1 or -1, to the tokens of the word in a topic."""
    batch[at, k] += by
    totals[k] += by
    scale[k] = 1.0 / totals[k]
    rows[0, k] = (counts[w, k] + smoothing + batch[at, k]) * scale[k] * tilt[k]


@kernel(SUMMED)
def _sum_of_others(masses: Vec, rows: Mat, old: Index) -> float:
    """Sum of the weights of all topics but one."""
    total = 0.0
    for k in range(masses.size):
        product = masses[k] * rows[0, k]
        total += product if k != old else 0.0
    return total


@kernel(SUMMED)
def _tilted_sum_of_others(gains: Mat, boosts: Mat, masses: Vec, rows: Mat, old: Index) -> float:
    """As `_sum_of_others`, with labels."""
    total = 0.0
    for k in range(masses.size):
        product = masses[k] * rows[0, k] * gains[0, k] * boosts[old, k]
        total += product if k != old else 0.0
    return total


@kernel(SUMMED)
def _place_tokens(
    bags: Bags,
    d: int,
    topics: Topics,
    factors: WordFactors,
    live: LiveCounts,
    tilt: Vec,
    word: np.uint64,
    start: int,
    s: Room,
) -> np.uint64:
    """Draw the topics of a document's tokens in order, with a tilt for its labels, or uniformly."""
    i = bags.starts[d]
    masses, tally, rows, weights = s.masses, s.tally, s.rows, s.weights
    counts, smoothing = factors.counts, factors.smoothing
    batch, totals, scale = live.batch, live.totals, live.scale
    for place in range(bags.indptr[d], bags.indptr[d + 1]):
        w, at = bags.words[place], live.places[place]
        _live_row(counts, w, smoothing, batch, at, scale, tilt, rows)
        for _ in range(bags.counts[place]):
            word = xorshift64(word)
            u = uniform(word)
            if start == UNIFORM:
                k: Index = np.int64(u * masses.size)
            else:
                k = pick(weights, u * weigh_plainly(masses, rows, 0, weights), 0)
            masses[k] += 1.0
            tally[k] += 1.0
            _change_count(1.0, k, counts, w, smoothing, batch, at, totals, scale, tilt, rows)
            topics[i] = k
            i += 1
    return word


@kernel(SUMMED)
def _sweep(
    bags: Bags,
    d: int,
    topics: Topics,
    factors: WordFactors,
    live: LiveCounts,
    tilt: Vec,
    word: np.uint64,
    s: Room,
) -> np.uint64:
    """Draw every token of a document once.

    Most tokens stay in their topic. For these, the sum of all other weights is enough to know, and
    nothing needs to be written.
    """
    i = bags.starts[d]
    masses, tally, rows, weights = s.masses, s.tally, s.rows, s.weights
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
            own = (masses[old] - 1.0) * (seen / (totals[old] - 1.0)) * tilt[old]
            total = own + _sum_of_others(masses, rows, old)
            if u * total < own and TINY < total < HUGE:
                i += 1
                continue
            masses[old] -= 1.0
            _change_count(-1.0, old, counts, w, smoothing, batch, at, totals, scale, tilt, rows)
            k = pick(weights, u * weigh_plainly(masses, rows, 0, weights), old)
            if k != old:
                tally[old] -= 1.0
                tally[k] += 1.0
            masses[k] += 1.0
            _change_count(1.0, k, counts, w, smoothing, batch, at, totals, scale, tilt, rows)
            topics[i] = k
            i += 1
    return word


@kernel(SUMMED)
def _sweep_with_hinges(
    bags: Bags,
    d: int,
    topics: Topics,
    factors: WordFactors,
    live: LiveCounts,
    flat: Vec,
    hinges: Hinges,
    word: np.uint64,
    s: Scratch,
) -> np.uint64:
    """As `_sweep`, under the Gibbs loss; `flat` is a tilt of ones."""
    i, n_moves, smoothing = bags.starts[d], 0, factors.smoothing
    masses, tally, rows, weights = s.masses, s.tally, s.rows, s.weights
    gains, boosts, inverse_boosts = s.gains, s.boosts, s.inverse_boosts
    ready, steep = s.ready, s.steep
    counts, batch, totals, scale = factors.counts, live.batch, live.totals, live.scale
    for place in range(bags.indptr[d], bags.indptr[d + 1]):
        w, at = bags.words[place], live.places[place]
        _live_row(counts, w, smoothing, batch, at, scale, flat, rows)
        for _ in range(bags.counts[place]):
            old = np.int64(topics[i])
            word = xorshift64(word)
            u = uniform(word)
            share = (counts[w, old] + smoothing + batch[at, old] - 1.0) / (totals[old] - 1.0)
            own = (masses[old] - 1.0) * share * (gains[0, old] * boosts[old, old])
            total = own + _tilted_sum_of_others(gains, boosts, masses, rows, old)
            usual = TINY < total < HUGE
            if usual and u * total < own:
                i += 1
                continue
            masses[old] -= 1.0
            _change_count(-1.0, old, counts, w, smoothing, batch, at, totals, scale, flat, rows)
            if usual:
                total = weigh(gains, boosts, old, masses, rows, 0, weights)
            k = pick(weights, u * (total if usual else _weigh_anew(old, s)), old)
            if k != old:
                tally[old] -= 1.0
                tally[k] += 1.0
                if not ready[k]:
                    make_coupling(k, hinges, s)
                scale_gains(gains, boosts, inverse_boosts, old, k)
                n_moves += 1
                if steep[0] or (n_moves % MOVES_PER_CHECK == 0 and least_of(gains) < MIN_GAIN):
                    refresh(s)
            masses[k] += 1.0
            _change_count(1.0, k, counts, w, smoothing, batch, at, totals, scale, flat, rows)
            topics[i] = k
            i += 1
    return word


@kernel(SUMMED)
def _weigh_anew(old: Index, s: Scratch) -> float:
    """Fill the weights of the topics from new exponents, without products. Return their sum."""
    refresh(s)
    total: float = weigh_exactly(s.exponent, s.couplings, old, s.masses, s.rows, 0, s.weights)
    return total


@kernel()
def _begin(d: int, alpha: Vec, start: int, tallies: Mat, masses: Vec, tally: Vec) -> None:
    """Set the tokens of a document's topics, and the masses: both without tokens at the start."""
    for k in range(alpha.size):
        tally[k] = tallies[d, k] if start == CONTINUE else 0.0
        masses[k] = alpha[k] + tally[k]


@kernel()
def sweep_collapsed(
    bags: Bags,
    factors: WordFactors,
    alpha: Vec,
    live: LiveCounts,
    tilts: Mat,
    streams: Words,
    start: int,
    topics: Topics,
    tallies: Mat,
) -> None:
    """One sweep over the documents of a batch with word counts that follow every draw.

    Updates topics, tallies (B, K), streams and live counts. Each document has a constant tilt.
    """
    k = alpha.size
    s = Room(np.empty(k), np.empty(k), np.empty((1, k)), np.empty(k))
    for d in range(bags.indptr.size - 1):
        if bags.starts[d] == bags.starts[d + 1]:
            continue
        _begin(d, alpha, start, tallies, s.masses, s.tally)
        if start == CONTINUE:
            streams[d] = _sweep(bags, d, topics, factors, live, tilts[d], streams[d], s)
        else:
            word = streams[d]
            streams[d] = _place_tokens(bags, d, topics, factors, live, tilts[d], word, start, s)
        for topic in range(k):
            tallies[d, topic] = s.tally[topic]


@kernel()
def sweep_collapsed_with_hinges(
    bags: Bags,
    factors: WordFactors,
    alpha: Vec,
    live: LiveCounts,
    tilts: Mat,
    hinges: Hinges,
    streams: Words,
    start: int,
    topics: Topics,
    tallies: Mat,
    inverses: Mat,
) -> None:
    """As `sweep_collapsed`, under the Gibbs loss; updates `inverses` 1 / lambda (B, Q), too."""
    s = scratch(bags, alpha.size, hinges.weights.shape[0])
    room = Room(s.masses, s.tally, s.rows, s.weights)
    for d in range(bags.indptr.size - 1):
        n = bags.starts[d + 1] - bags.starts[d]
        if n == 0:
            continue
        _begin(d, alpha, start, tallies, s.masses, s.tally)
        tilt, word = tilts[d], streams[d]
        if start == CONTINUE:
            set_exponent(d, n, inverses[d], hinges, s)
            word = _sweep_with_hinges(bags, d, topics, factors, live, tilt, hinges, word, s)
        else:
            word = _place_tokens(bags, d, topics, factors, live, tilt, word, start, room)
        streams[d] = draw_inverses(d, n, word, hinges, inverses[d], s)
        for topic in range(alpha.size):
            tallies[d, topic] = s.tally[topic]
