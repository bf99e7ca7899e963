"""Draw the topics of tokens with fixed word counts, and the tables of the shared sticks.

This is the sampler of the averaging loss and of models without labels, where each document has a
constant tilt, in single precision.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.arrays import largest
from everlearn.kernels.draws import Word, Words, uniform, uniform_float32, xorshift64
from everlearn.kernels.jit import FUSED, SUMMED, kernel
from everlearn.kernels.scalars import exp


@kernel(inner=True)
def open_tables(
    d: int, tally: Vec | NDArray[np.float32], alpha: Vec, word: Word, tables: Mat
) -> Word:
    """Add the tables of a document (K,) to its row of `tables`; the stream is returned.

    The m-th customer of a topic opens a table with probability alpha / (alpha + m), m from 0:
    the law that Stirling numbers give, without them (BayesPA eq. 41).
    """
    for k in range(alpha.size):
        for m in range(np.int64(tally[k])):
            word = xorshift64(word)
            if m == 0 or uniform(word) * (alpha[k] + m) < alpha[k]:
                tables[d, k] += 1.0
    return word


@kernel()
def count_tables(tallies: Mat, alpha: Vec, streams: Words) -> Mat:
    """Tables of each document and topic (B, K); streams are brought up to date."""
    tables = np.zeros(tallies.shape)
    for d in range(tallies.shape[0]):
        streams[d] = open_tables(d, tallies[d], alpha, streams[d], tables)
    return tables


UNIFORM, PREDICTIVE, CONTINUE = 0, 1, 2
"""How topics start: uniformly, drawn from what is known of words, or as they are."""
_DEEPEST = -50.0
"""Smaller exponents are raised to this one: products are still no slow denormal float32 numbers."""
Index = int | np.int64
Singles = NDArray[np.float32]
Topics = NDArray[np.uint16]


class Bags(NamedTuple):
    """Documents as words and counts; `starts` says where the tokens of each begin."""

    indptr: IntVec
    words: NDArray[np.int32]
    counts: NDArray[np.int32]
    starts: IntVec


class WordFactors(NamedTuple):
    """(counts + smoothing) * scale, for words (rows) and topics (columns)."""

    counts: Mat
    smoothing: float
    scale: Vec


class Margins(NamedTuple):
    """Weights (Q, K), labels (B, Q) of +1, -1 or 0 for none, and the multipliers (B, Q)."""

    weights: Mat
    signs: NDArray[np.int8]
    multipliers: Mat


class Samples(NamedTuple):
    """Room for results.

    topics : (n_tokens,), after the last sweep
    kept : (n_kept, n_tokens), after each kept sweep
    totals : (B, K), tokens in topics, summed over kept sweeps
    tables : (B, K), summed over kept sweeps; without rows, no tables are drawn
    """

    topics: Topics
    kept: NDArray[np.uint16]
    totals: Mat
    tables: Mat


class _Scratch(NamedTuple):
    products: Singles  # (words of a document, K)
    base: Singles  # (words of a document,): sum of alpha * products
    alpha: Singles
    tally: Singles  # (K,): tokens of the document in each topic
    present: IntVec  # topics with tokens, in no order
    place: IntVec  # where each of them stands in `present`
    sums: Singles  # partial sums over `present`


@kernel()
def _scratch(bags: Bags, alpha: Vec) -> _Scratch:
    longest = 0
    for d in range(bags.indptr.size - 1):
        longest = max(longest, bags.indptr[d + 1] - bags.indptr[d])
    k = alpha.size
    return _Scratch(
        np.empty((longest, k), np.float32),
        np.empty(longest, np.float32),
        alpha.astype(np.float32),
        np.zeros(k, np.float32),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(k, np.float32),
    )


@kernel(SUMMED, inner=True)
def total_of(values: Vec) -> float:
    """The sum, in a loop of its own.

    In a loop that also stores, the order of summation would depend on where arrays are in memory.
    """
    total = 0.0
    for k in range(values.size):
        total += values[k]
    return total


@kernel(SUMMED)
def _product_sum(a: Singles, b: Singles, row: int) -> np.float32:
    total = np.float32(0.0)
    for k in range(a.size):
        total += a[k] * b[row, k]
    return total


@kernel(SUMMED)
def _word_products(bags: Bags, d: int, factors: WordFactors, s: _Scratch) -> None:
    """Word factors of the document's words, and their sums with alpha, without labels."""
    products, base, alpha = s.products, s.base, s.alpha
    counts, smoothing, scale = factors.counts, factors.smoothing, factors.scale
    first, words = bags.indptr[d], bags.words
    for j in range(bags.indptr[d + 1] - first):
        w = words[first + j]
        for k in range(alpha.size):
            products[j, k] = (counts[w, k] + smoothing) * scale[k]
        base[j] = _product_sum(alpha, products, j)


@kernel(SUMMED)
def _tilt_products(n_words: int, tilt: Singles, s: _Scratch) -> None:
    products, base, alpha = s.products, s.base, s.alpha
    for j in range(n_words):
        for k in range(alpha.size):
            products[j, k] *= tilt[k]
        base[j] = _product_sum(alpha, products, j)


@kernel(FUSED)
def _sweep(
    bags: Bags, d: int, topics: Topics, n_present: int, word: np.uint64, start: int, s: _Scratch
) -> tuple[int, np.uint64]:
    """Draw every token once; `start` is CONTINUE unless the tokens have no topics yet.

    One loop over local names, because calls and arrays inside tuples would take most of the time.
    A draw first looks at the topics that the document has, and only then at all topics.
    """
    products, base, alpha, tally = s.products, s.base, s.alpha, s.tally
    present, place, sums, counts = s.present, s.place, s.sums, bags.counts
    first, i = bags.indptr[d], bags.starts[d]
    last = alpha.size - 1
    for j in range(bags.indptr[d + 1] - first):
        for _ in range(counts[first + j]):
            if start == CONTINUE:
                k: Index = np.int64(topics[i])
                tally[k] -= np.float32(1.0)
                if tally[k] == 0.0:
                    n_present -= 1
                    other = present[n_present]
                    present[place[k]] = other
                    place[other] = place[k]
            word = xorshift64(word)
            u = uniform_float32(word)
            if start == UNIFORM:
                k = np.int64(u * alpha.size)
            else:
                total = np.float32(0.0)
                for q in range(n_present):
                    total += tally[present[q]] * products[j, present[q]]
                    sums[q] = total
                u *= total + base[j]
                k = 0
                if u < total:
                    q = 0
                    while sums[q] < u:
                        q += 1
                    k = present[q]
                else:
                    u -= total
                    total = alpha[0] * products[j, 0]
                    while total < u and k < last:
                        k += 1
                        total += alpha[k] * products[j, k]
            if tally[k] == 0.0:
                present[n_present] = k
                place[k] = n_present
                n_present += 1
            tally[k] += np.float32(1.0)
            topics[i] = k
            i += 1
    return n_present, word


@kernel(SUMMED)
def _first_multipliers(
    d: int,
    n: int,
    n_present: int,
    margins: Margins,
    margin: float,
    variance: float,
    max_multiplier: float,
    s: _Scratch,
) -> None:
    """Multipliers in closed form, as if the document were alone and kept its first topics."""
    tally, present = s.tally, s.present
    weights, signs, multipliers = margins.weights, margins.signs, margins.multipliers
    square = 0.0
    for q in range(n_present):
        square += np.float64(tally[present[q]]) ** 2
    square *= variance / (n * n)
    for task in range(weights.shape[0]):
        sign = signs[d, task]
        score = 0.0
        for q in range(n_present):
            score += tally[present[q]] * weights[task, present[q]]
        slack = max(0.0, margin - sign * score / n) / square
        multipliers[d, task] = 0.0 if sign == 0 else min(max_multiplier, slack)


@kernel(SUMMED)
def _tilt(d: int, n: int, margins: Margins, exponent: Vec, tilt: Singles) -> bool:
    """Fill exp(sum_q y_q tau_q mu_qk / n), with a maximum of 1. Return whether any is not 1."""
    weights, signs, multipliers = margins.weights, margins.signs, margins.multipliers
    exponent[:] = 0.0
    active = False
    for task in range(weights.shape[0]):
        pull = signs[d, task] * multipliers[d, task] / n
        if pull != 0.0:
            active = True
            for k in range(exponent.size):
                exponent[k] += pull * weights[task, k]
    if active:
        highest = largest(exponent)
        for k in range(exponent.size):
            x = exponent[k] - highest
            tilt[k] = exp(x if x > _DEEPEST else _DEEPEST)
    return active


@kernel(inner=True)
def store_sweep(
    bags: Bags, d: int, sweep: int, tally: Vec | Singles, alpha: Vec, word: Word, out: Samples
) -> Word:
    """Store what a sweep has drawn of a document, and draw its tables if `out` has room."""
    for i in range(bags.starts[d], bags.starts[d + 1]):
        out.kept[sweep, i] = out.topics[i]
    for k in range(alpha.size):
        out.totals[d, k] += tally[k]
    if out.tables.size:
        word = open_tables(d, tally, alpha, word, out.tables)
    return word


@kernel()
def sample_documents(
    bags: Bags,
    factors: WordFactors,
    alpha: Vec,
    margins: Margins,
    closed_form: tuple[float, float, float],
    keys: Words,
    schedule: tuple[int, int, int],
    out: Samples,
) -> None:
    """Sweeps over documents with a constant tilt for each: averaging losses, or no labels at all.

    Parameters
    ----------
    closed_form : margin, variance and largest multiplier, for multipliers that are made from the
        first topics; a largest multiplier of 0 uses the given ones
    schedule : number of sweeps, how many of them are dropped, and how topics start
    """
    n_sweeps, burn_in, start = schedule
    margin, variance, max_multiplier = closed_form
    s = _scratch(bags, alpha)
    exponent, tilt = np.empty(alpha.size), np.empty(alpha.size, np.float32)
    for d in range(bags.indptr.size - 1):
        n = bags.starts[d + 1] - bags.starts[d]
        if n == 0:
            continue
        s.tally[:] = 0.0
        n_present, word = 0, keys[d]
        _word_products(bags, d, factors, s)
        if start == CONTINUE:
            n_present = _recount(bags, d, out.topics, s)
        else:
            n_present, word = _sweep(bags, d, out.topics, 0, word, start, s)
        if max_multiplier > 0.0:
            _first_multipliers(d, n, n_present, margins, margin, variance, max_multiplier, s)
        if _tilt(d, n, margins, exponent, tilt):
            _tilt_products(bags.indptr[d + 1] - bags.indptr[d], tilt, s)
        for sweep in range(n_sweeps):
            n_present, word = _sweep(bags, d, out.topics, n_present, word, CONTINUE, s)
            if sweep >= burn_in:
                word = store_sweep(bags, d, sweep - burn_in, s.tally, alpha, word, out)


@kernel()
def _recount(bags: Bags, d: int, topics: Topics, s: _Scratch) -> int:
    """Count the topics that the tokens have; returns how many topics these are."""
    n_present = 0
    for i in range(bags.starts[d], bags.starts[d + 1]):
        k = np.int64(topics[i])
        if s.tally[k] == 0.0:
            s.present[n_present] = k
            s.place[k] = n_present
            n_present += 1
        s.tally[k] += np.float32(1.0)
    return n_present
