"""Draw the topics of tokens under the Gibbs loss, with fixed word counts.

Given the augmentation variables of a document, the weight of topic k for a token of word w is

    (alpha_k + C_k) * factor_wk * gain_k * boost_k,

the counts C without the token, gains and boosts as in `hinges`: the gains belong to all tokens
of the document, and the boosts of the token's present topic take its own share out of them.

Most tokens stay in their topic. A token stays for certain if it would stay even if all other topics
had the word's largest factor. That bound needs one sum of weights without word factors, which holds
until a token of the document moves. It changes no draw; it only saves weighing all topics.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Vec
from everlearn.kernels.arrays import copy_to
from everlearn.kernels.draws import Words, uniform, xorshift64
from everlearn.kernels.jit import FUSED, SUMMED, kernel
from everlearn.topics.kernels.choices import HUGE, TINY, pick, sum_of_others, weigh, weigh_exactly
from everlearn.topics.kernels.hinges import (
    MIN_GAIN,
    MOVES_PER_CHECK,
    Hinges,
    Scratch,
    draw_inverses,
    largest_of,
    least_of,
    make_coupling,
    refresh,
    scale_gains,
    scratch,
    set_exponent,
)
from everlearn.topics.kernels.sampler import (
    CONTINUE,
    UNIFORM,
    Bags,
    Index,
    Samples,
    Topics,
    WordFactors,
    store_sweep,
)


@kernel(SUMMED)
def _product_sum(a: Vec, rows: Mat, at: Index) -> float:
    total = 0.0
    for k in range(a.size):
        total += a[k] * rows[at, k]
    return total


@kernel(SUMMED)
def _fill_rows(bags: Bags, d: int, factors: WordFactors, s: Scratch) -> None:
    """Word factors of all words of a document."""
    counts, smoothing, scale, rows = factors.counts, factors.smoothing, factors.scale, s.rows
    peaks, words, first = s.peaks, bags.words, bags.indptr[d]
    for j in range(bags.indptr[d + 1] - first):
        w = words[first + j]
        for k in range(rows.shape[1]):
            rows[j, k] = (counts[w, k] + smoothing) * scale[k]
        peaks[j] = largest_of(rows, j)


@kernel()
def _place_uniformly(
    bags: Bags, d: int, topics: Topics, n_topics: int, word: np.uint64, s: Scratch
) -> np.uint64:
    """Draw the topics of a document's tokens uniformly."""
    s.tally[:] = 0.0
    for i in range(bags.starts[d], bags.starts[d + 1]):
        word = xorshift64(word)
        k = np.int64(uniform(word) * n_topics)
        s.tally[k] += 1.0
        topics[i] = k
    return word


@kernel(FUSED)
def _place_tokens(
    bags: Bags,
    d: int,
    topics: Topics,
    alpha: Vec,
    tilts: Mat,
    word: np.uint64,
    start: int,
    s: Scratch,
) -> np.uint64:
    """Draw the topics of a document's tokens in order, with a tilt for its labels, or uniformly.

    A draw first looks at the topics the document has (weights C * factor * tilt), then at all of
    them (alpha * factor * tilt).
    """
    if start == UNIFORM:
        return _place_uniformly(bags, d, topics, alpha.size, word, s)
    tally, tilted, rows, partial, present = s.tally, s.masses, s.rows, s.weights, s.present
    counts, first, i = bags.counts, bags.indptr[d], bags.starts[d]
    n_present, last = 0, alpha.size - 1
    tally[:] = 0.0
    for topic in range(tilted.size):
        tilted[topic] = alpha[topic] * tilts[d, topic]
    for j in range(bags.indptr[d + 1] - first):
        base = _product_sum(tilted, rows, j)
        for _ in range(counts[first + j]):
            total = 0.0
            for q in range(n_present):
                old = present[q]
                total += tally[old] * tilts[d, old] * rows[j, old]
                partial[q] = total
            word = xorshift64(word)
            u = uniform(word) * (total + base)
            k: Index = 0
            if u < total:
                q = 0
                while partial[q] <= u:
                    q += 1
                k = present[q]
            else:
                u -= total
                total = tilted[0] * rows[j, 0]
                while total <= u and k < last:
                    k += 1
                    total += tilted[k] * rows[j, k]
            if tally[k] == 0.0:
                present[n_present] = k
                n_present += 1
            tally[k] += 1.0
            topics[i] = k
            i += 1
    return word


@kernel(SUMMED)
def _sweep(
    bags: Bags,
    d: int,
    topics: Topics,
    hinges: Hinges,
    word: np.uint64,
    s: Scratch,
) -> np.uint64:
    """Draw every token of a document once; see the module on tokens that stay."""
    masses, tally, rows, peaks, weights = s.masses, s.tally, s.rows, s.peaks, s.weights
    gains, boosts, inverse_boosts = s.gains, s.boosts, s.inverse_boosts
    other_sums, summed_at = s.other_sums, s.summed_at
    exponent, couplings, ready, steep = s.exponent, s.couplings, s.ready, s.steep
    counts = bags.counts
    i, first, n_moves = bags.starts[d], bags.indptr[d], 0
    summed_at[:] = -1
    for j in range(bags.indptr[d + 1] - first):
        largest = peaks[j]
        for _ in range(counts[first + j]):
            old = np.int64(topics[i])
            word = xorshift64(word)
            u = uniform(word)
            own = (masses[old] - 1.0) * rows[j, old] * gains[0, old] * boosts[old, old]
            known = summed_at[old] == n_moves and own > TINY
            if known and u * (own + other_sums[old] * largest) < own:
                i += 1
                continue
            masses[old] -= 1.0
            total = weigh(gains, boosts, old, masses, rows, j, weights)
            if not TINY < total < HUGE:
                refresh(s)
                summed_at[:] = -1  # the gains have another factor now
                total = weigh_exactly(exponent, couplings, old, masses, rows, j, weights)
            k = pick(weights, u * total, old)
            masses[k] += 1.0
            if k != old:
                tally[old] -= 1.0
                tally[k] += 1.0
                topics[i] = k
                if not ready[k]:
                    make_coupling(k, hinges, s)
                scale_gains(gains, boosts, inverse_boosts, old, k)
                n_moves += 1
                if steep[0] or (n_moves % MOVES_PER_CHECK == 0 and least_of(gains) < MIN_GAIN):
                    refresh(s)
            elif summed_at[old] != n_moves:
                summed_at[old] = n_moves
                other_sums[old] = sum_of_others(gains, boosts, old, masses)
            i += 1
    return word


@kernel()
def _count(bags: Bags, d: int, topics: Topics, s: Scratch) -> None:
    s.tally[:] = 0.0
    for i in range(bags.starts[d], bags.starts[d + 1]):
        s.tally[topics[i]] += 1.0


@kernel()
def sample_augmented(
    bags: Bags,
    factors: WordFactors,
    alpha: Vec,
    hinges: Hinges,
    tilts: Mat,
    keys: Words,
    schedule: tuple[int, int, int],
    out: Samples,
    tallies: NDArray[np.float64],
    inverses: NDArray[np.float64],
) -> None:
    """Sweeps over documents under the Gibbs loss, with word counts that stand still.

    Parameters
    ----------
    tilts : (B, K), factors of the topics while tokens are placed, unless uniformly
    schedule : number of sweeps, how many of them are dropped, and how topics start
    tallies : (kept sweeps, B, K), tokens of each document in each topic, filled
    inverses : (kept sweeps, B, Q), 1 / lambda, filled; before CONTINUE the last ones are read
    """
    n_sweeps, burn_in, start = schedule
    n_tasks = hinges.weights.shape[0]
    s, current = scratch(bags, alpha.size, n_tasks), np.empty(n_tasks)
    for d in range(bags.indptr.size - 1):
        n, word = bags.starts[d + 1] - bags.starts[d], keys[d]
        if n == 0:
            continue
        _fill_rows(bags, d, factors, s)
        if start == CONTINUE:
            _count(bags, d, out.topics, s)
            copy_to(current, inverses[-1, d])
        else:
            word = _place_tokens(bags, d, out.topics, alpha, tilts, word, start, s)
            word = draw_inverses(d, n, word, hinges, current, s)
        for k in range(alpha.size):
            s.masses[k] = alpha[k] + s.tally[k]
        for sweep in range(n_sweeps):
            set_exponent(d, n, current, hinges, s)
            word = _sweep(bags, d, out.topics, hinges, word, s)
            word = draw_inverses(d, n, word, hinges, current, s)
            if sweep >= burn_in:
                copy_to(tallies[sweep - burn_in, d], s.tally)
                copy_to(inverses[sweep - burn_in, d], current)
                word = store_sweep(bags, d, sweep - burn_in, s.tally, alpha, word, out)
