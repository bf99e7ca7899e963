"""The layout of a tree for the sampler, and how well a document fits its nodes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.arrays import sum_of
from everlearn.kernels.jit import FUSED, kernel
from everlearn.kernels.scalars import log

Levels = NDArray[np.uint8]
_FACTORS = 16
"""Factors multiplied before each logarithm, which is slow. More could exceed float64."""
_SERIES_FROM = 16.0
"""Stirling's series is accurate from here on."""


class Nodes(NamedTuple):
    """Nodes of a tree in C places, in one block for each level. Free places have the id -1.

    firsts : (L + 1,) where the block of each level begins, and where the last one ends
    counts : (V, C) tokens of each word at each node
    totals : (C,) tokens at each node
    mass : (C,) documents whose path passes each node
    parents : (C,) places of the parents
    ids : (C,) permanent ids
    next_id : (1,) id of the next new node
    """

    firsts: IntVec
    counts: Mat
    totals: Vec
    mass: Vec
    parents: IntVec
    ids: IntVec
    next_id: IntVec


class Tokens(NamedTuple):
    """Tokens of documents with their levels. Equal words of a document are side by side.

    starts : (N + 1,) where the tokens of each document begin
    words, levels : (n_tokens,) word and level of each token
    paths : (N, L) places of the nodes of each document's path
    """

    starts: IntVec
    words: NDArray[np.int32]
    levels: Levels
    paths: IntVec


class Priors(NamedTuple):
    """Parameters of the priors.

    alpha : (L,) pseudo-counts of the levels
    word, all_words : pseudo-count of each word of a topic, and its sum over the vocabulary
    gamma : concentration: the pseudo-count of a new branch
    """

    alpha: Vec
    word: float
    all_words: float
    gamma: float


class Scratch(NamedTuple):
    """Working arrays for one document, (C,) each unless stated.

    scores : log-probability of the document's words at each node
    product : product whose logarithm is still to be added to `scores`
    below : weight of the children of each node
    reach : probability or log-probability of the path down to each node
    weights : weight of each slot, or factor of each node
    fresh : (L,) scores of new nodes
    words, adds : (n,) the words of one level, and the number added to each of their counts, where
        n is the length of the longest document
    """

    scores: Vec
    product: Vec
    below: Vec
    reach: Vec
    weights: Vec
    fresh: Vec
    words: IntVec
    adds: Vec


@kernel(inner=True)
def scratch(n_places: int, depth: int, n_words: int) -> Scratch:
    """Working arrays for documents of at most `n_words` tokens."""
    c = n_places
    return Scratch(
        np.zeros(c), np.ones(c), np.zeros(c), np.zeros(c), np.zeros(c), np.zeros(depth),
        np.empty(n_words, np.int64), np.empty(n_words),
    )  # fmt: skip


@kernel()
def spread_columns(values: Mat, places: IntVec, out: Mat) -> None:
    """Copy columns of a table to other places. -1 leaves a column out."""
    for w in range(values.shape[0]):
        for j in range(places.size):
            if places[j] >= 0:
                out[w, places[j]] = values[w, j]


@kernel(inner=True)
def log_rising(x: float, n: float) -> float:
    """Log of the rising factorial, log gamma(x + n) - log gamma(x), by Stirling's series."""
    done = 0.0
    while x < _SERIES_FROM and n >= 1.0:
        done += np.log(x)
        x += 1.0
        n -= 1.0
    if n == 0.0:
        return done
    y = x + n
    rest = (y - 0.5) * log(y) - (x - 0.5) * log(x) - n
    a, b = 1.0 / x, 1.0 / y
    rest += (b - a) / 12.0 - (b * b * b - a * a * a) / 360.0
    return done + rest + (b**5 - a**5) / 1260.0


@kernel(FUSED)
def _log_rising_each(x: Vec, prior: float, n: float, out: Vec) -> None:
    """Subtract `log_rising(x + prior, n)` from `out`. The prior must be large."""
    for j in range(out.size):
        a = x[j] + prior
        b = a + n
        rest = (b - 0.5) * log(b) - (a - 0.5) * log(a) - n
        a, b = 1.0 / a, 1.0 / b
        rest += (b - a) / 12.0 - (b * b * b - a * a * a) / 360.0
        out[j] -= rest + (b * b * b * b * b - a * a * a * a * a) / 1260.0


@kernel(FUSED)
def _multiply(row: Vec, add: float, product: Vec) -> None:
    """Multiply the products by a row, to which a number is added."""
    for j in range(product.size):
        product[j] *= row[j] + add


@kernel(FUSED)
def _multiply_four(
    a: Vec, b: Vec, c: Vec, d: Vec, add: tuple[float, float, float, float], product: Vec
) -> None:
    """As `_multiply` for four rows, but with one pass over the products in memory."""
    for j in range(product.size):
        left, right = (a[j] + add[0]) * (b[j] + add[1]), (c[j] + add[2]) * (d[j] + add[3])
        product[j] *= left * right


@kernel(FUSED, inner=True)
def add_logs(product: Vec, scores: Vec) -> None:
    """Add the logarithms of the products to the scores, and set the products to 1."""
    for j in range(product.size):
        scores[j] += log(product[j])
        product[j] = 1.0


@kernel()
def _words_of(tokens: Tokens, first: int, last: int, level: int, prior: float, s: Scratch) -> int:
    """Collect the words of a level and what is added to their counts. Return their number.

    A word adds the prior, plus the number of times that it came before in the document. So the
    factors of a repeated word make a rising factorial.
    """
    n, before, add = 0, np.int64(-1), 0.0
    for i in range(first, last):
        if tokens.levels[i] == level:
            w = np.int64(tokens.words[i])
            add = add + 1.0 if w == before else prior
            before = w
            s.words[n], s.adds[n] = w, add
            n += 1
    return n


@kernel(inner=True)
def score_level(
    tokens: Tokens, first: int, last: int, level: int, nodes: Nodes, priors: Priors, s: Scratch
) -> None:
    """Log-probability of a document's words of one level at each node there, and at a new node."""
    low, high = nodes.firsts[level], nodes.firsts[level + 1]
    scores, product = s.scores[low:high], s.product[low:high]
    counts, w, adds = nodes.counts, s.words, s.adds
    scores[:] = 0.0
    product[:] = 1.0
    s.fresh[level] = 0.0
    n = _words_of(tokens, first, last, level, priors.word, s)
    if n == 0:
        return
    fresh, new = 0.0, 1.0
    for i in range(0, n - 3, 4):
        four = adds[i], adds[i + 1], adds[i + 2], adds[i + 3]
        a, b = counts[w[i]][low:high], counts[w[i + 1]][low:high]
        c, d = counts[w[i + 2]][low:high], counts[w[i + 3]][low:high]
        _multiply_four(a, b, c, d, four, product)
        new *= four[0] * four[1] * four[2] * four[3]
        if (i + 4) % _FACTORS == 0:
            add_logs(product, scores)
            fresh += log(new)
            new = 1.0
    for i in range(n - n % 4, n):
        _multiply(counts[w[i]][low:high], adds[i], product)
        new *= adds[i]
    add_logs(product, scores)
    totals = nodes.totals[low:high]
    if priors.all_words >= _SERIES_FROM:
        _log_rising_each(totals, priors.all_words, float(n), scores)
    else:
        for j in range(totals.size):
            scores[j] -= log_rising(totals[j] + priors.all_words, float(n))
    s.fresh[level] = fresh + log(new) - log_rising(priors.all_words, float(n))


@kernel(FUSED)
def _reach(row: Vec, nodes: Nodes, prior: float, scale: Vec, reach: Vec) -> None:
    """Probability of a word on the levels from the root down to each node."""
    for j in range(nodes.firsts[1]):
        reach[j] = (row[j] + prior) * scale[j]
    for j in range(nodes.firsts[1], nodes.ids.size):
        reach[j] = reach[nodes.parents[j]] + (row[j] + prior) * scale[j]


@kernel(FUSED, inner=True)
def score_slots(
    tokens: Tokens, first: int, last: int, nodes: Nodes, priors: Priors, s: Scratch
) -> None:
    """Log-probability of a document's words in each slot, summed over levels.

    The score of a node is the score of its slot minus that of its parent's slot. So the scores
    along a path add up to the score of its slot. New nodes add nothing.
    """
    share = priors.alpha / sum_of(priors.alpha)
    scale, rest = s.weights, 1.0
    for level in range(priors.alpha.size):
        rest -= share[level]
        s.fresh[level] = max(rest, 0.0) * priors.word / priors.all_words
        for j in range(nodes.firsts[level], nodes.firsts[level + 1]):
            scale[j] = share[level] / (nodes.totals[j] + priors.all_words)
    s.scores[:] = 0.0
    s.product[:] = 1.0
    before, pending = np.int64(-1), 0
    for i in range(first, last):
        w = np.int64(tokens.words[i])
        if w != before:
            _reach(nodes.counts[w], nodes, priors.word, scale, s.reach)
        before = w
        for level in range(priors.alpha.size):
            begin, end = nodes.firsts[level], nodes.firsts[level + 1]
            _multiply(s.reach[begin:end], s.fresh[level], s.product[begin:end])
        pending += 1
        if pending == _FACTORS:
            add_logs(s.product, s.scores)
            pending = 0
    add_logs(s.product, s.scores)
    for j in range(nodes.ids.size - 1, 0, -1):
        s.scores[j] -= s.scores[nodes.parents[j]]
    s.fresh[:] = 0.0
