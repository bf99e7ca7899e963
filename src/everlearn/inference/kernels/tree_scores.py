"""How well the words of a document fit the nodes of a tree of topics, topics integrated out.

Nodes of a level stand side by side, words are rows: how well a word fits all nodes of a level is
read from one run of memory.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.kernels._jit import FUSED, kernel
from everlearn.inference.kernels.scalars import log

Levels = NDArray[np.uint8]
_FACTORS = 16
"""Factors that are multiplied before a logarithm is taken: far from the ends of float64."""
_SERIES_FROM = 16.0


class Nodes(NamedTuple):
    """Nodes in blocks of one level each; places without a node have the id -1 and no counts.

    firsts : (L + 1,) where the block of each level begins, and where the last one ends
    counts : (V, C) tokens of each word at each node
    totals : (C,) tokens at each node
    mass : (C,) documents whose path passes each node
    parents : (C,) places of the parents
    ids : (C,) permanent ids
    next_id : (1,) the id of the next node that is born
    """

    firsts: IntVec
    counts: Mat
    totals: Vec
    mass: Vec
    parents: IntVec
    ids: IntVec
    next_id: IntVec


class Tokens(NamedTuple):
    """Tokens of documents, equal words of a document side by side, with their draws.

    starts : (N + 1,) where the tokens of each document begin
    words, levels : (n_tokens,) the word and the level of each
    paths : (N, L) places of the nodes of each document's path
    """

    starts: IntVec
    words: NDArray[np.int32]
    levels: Levels
    paths: IntVec


class Priors(NamedTuple):
    """Of levels (L,), of each word of a topic, of all words of a topic, of new branches."""

    alpha: Vec
    word: float
    words: float
    gamma: float


class Scratch(NamedTuple):
    """Room for one document's work, (C,) each but `fresh`, (L,)."""

    scores: Vec
    product: Vec
    below: Vec
    reach: Vec
    weights: Vec
    fresh: Vec


@kernel()
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
def _log_rising_each(x: Vec, prior: float, n: float, low: int, high: int, out: Vec) -> None:
    """Subtract `log_rising` of each total and its prior, which is large, from `out`."""
    for j in range(low, high):
        a = x[j] + prior
        b = a + n
        rest = (b - 0.5) * log(b) - (a - 0.5) * log(a) - n
        a, b = 1.0 / a, 1.0 / b
        rest += (b - a) / 12.0 - (b * b * b - a * a * a) / 360.0
        out[j] -= rest + (b * b * b * b * b - a * a * a * a * a) / 1260.0


@kernel(FUSED, inline=True)
def _multiply(row: Vec, add: float, low: int, high: int, product: Vec) -> None:
    for j in range(low, high):
        product[j] *= row[j] + add


@kernel(FUSED)
def _fold(low: int, high: int, product: Vec, scores: Vec) -> None:
    for j in range(low, high):
        scores[j] += log(product[j])
        product[j] = 1.0


@kernel(FUSED)
def score_level(
    tokens: Tokens, first: int, last: int, level: int, nodes: Nodes, priors: Priors, s: Scratch
) -> None:
    """How likely the document's words of a level are at each of its nodes, and at a new one."""
    low, high = nodes.firsts[level], nodes.firsts[level + 1]
    scores, product, counts = s.scores, s.product, nodes.counts
    for j in range(low, high):
        scores[j] = 0.0
        product[j] = 1.0
    n, pending, fresh, new = 0.0, 0, 0.0, 1.0
    before, add = np.int64(-1), 0.0
    for i in range(first, last):
        if tokens.levels[i] != level:
            continue
        w = np.int64(tokens.words[i])
        add = add + 1.0 if w == before else priors.word
        before = w
        _multiply(counts[w], add, low, high, product)
        new *= add
        n += 1.0
        pending += 1
        if pending == _FACTORS:
            _fold(low, high, product, scores)
            fresh += log(new)
            pending, new = 0, 1.0
    s.fresh[level] = 0.0
    if n == 0.0:
        return
    _fold(low, high, product, scores)
    fresh += log(new)
    if priors.words >= _SERIES_FROM:
        _log_rising_each(nodes.totals, priors.words, n, low, high, s.scores)
    else:
        for j in range(low, high):
            s.scores[j] -= log_rising(nodes.totals[j] + priors.words, n)
    s.fresh[level] = fresh - log_rising(priors.words, n)


@kernel(FUSED)
def _reach(row: Vec, nodes: Nodes, prior: float, scale: Vec, reach: Vec) -> None:
    """How likely a word is on the levels from the root down to each node."""
    for j in range(nodes.firsts[1]):
        reach[j] = (row[j] + prior) * scale[j]
    for j in range(nodes.firsts[1], nodes.ids.size):
        reach[j] = reach[nodes.parents[j]] + (row[j] + prior) * scale[j]


@kernel(FUSED)
def score_slots(
    tokens: Tokens, first: int, last: int, nodes: Nodes, priors: Priors, s: Scratch
) -> None:
    """How likely the document's words are in each slot, whatever their levels.

    A node's score is what its slot has more than its parent's, so that sums along a path are
    scores of slots; new nodes have nothing to add to that.
    """
    low, high = 0, nodes.ids.size
    share = priors.alpha / priors.alpha.sum()
    scale, rest = s.weights, 1.0
    for level in range(priors.alpha.size):
        rest -= share[level]
        s.fresh[level] = max(rest, 0.0) * priors.word / priors.words
        for j in range(nodes.firsts[level], nodes.firsts[level + 1]):
            scale[j] = share[level] / (nodes.totals[j] + priors.words)
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
            _multiply(s.reach, s.fresh[level], begin, end, s.product)
        pending += 1
        if pending == _FACTORS:
            _fold(low, high, s.product, s.scores)
            pending = 0
    _fold(low, high, s.product, s.scores)
    for j in range(high - 1, 0, -1):
        s.scores[j] -= s.scores[nodes.parents[j]]
    s.fresh[:] = 0.0
