"""Variational posteriors of the paths and levels of documents in a tree of topics.

For each candidate slot, a document has a posterior Dir(g) of its levels. With weights
v_wl = exp(E log theta_l) * table[w, node of level l], or `unseen` where a slot has no node,

    g_l = alpha_l + sum_w count_w v_wl / sum_l v_wl,
    score = sum_w count_w log sum_l v_wl - KL(Dir(g) || Dir(alpha)),

and the posterior of slots is the softmax of their log-weights plus scores. All slots are scored
roughly, with levels as expected; the best few become candidates. Documents do not depend on each
other. Equations: docs/math/topic_tree.md.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.kernels.arrays import copy_to, largest, sum_of
from everlearn.kernels.jit import FUSED, SUMMED, kernel
from everlearn.kernels.scalars import exp, log
from everlearn.trees.kernels.scores import add_logs

Slots = NDArray[np.int32]
_DEEPEST = -700.0
"""exp of anything lower is 0."""
_LEAST = 1e-70
_FACTORS = 4
"""Factors per logarithm: a product of 4 numbers above `_LEAST` does not underflow."""
_WIDTH = 30.0
"""Slots this many nats behind the best one are no candidates."""
_NEGLIGIBLE = 1e-12
_STILL = 1e-4
"""Levels have converged when none moves by more than this many tokens."""


class Words(NamedTuple):
    """Documents as words and how often they occur."""

    indptr: IntVec
    words: NDArray[np.int32]
    counts: NDArray[np.int32]


class PathTable(NamedTuple):
    """The tree as documents are compared with it.

    table : (V, K) probability of each word at each node
    unseen : the same at a node that the tree does not have yet
    parents, levels : (K,) of each node, parents first
    paths : (K, L) nodes from the root to each, -1 below it
    log_weights : (K,) of slots
    alpha : (L,) prior of levels
    """

    table: Mat
    unseen: float
    parents: IntVec
    levels: IntVec
    paths: IntVec
    log_weights: Vec
    alpha: Vec


class Posteriors(NamedTuple):
    """Posterior of path and levels for each of N documents, over at most M candidate slots.

    slots : (N, M) candidate slots, -1 where there are fewer
    shares : (N, M) their probabilities
    g : (N, M, L) Dirichlet parameters of levels in each slot
    bounds : (N,) what each document contributes to the bound
    """

    slots: Slots
    shares: Mat
    g: Cube
    bounds: Vec


@kernel(inner=True)
def digamma(x: float) -> float:
    """psi(x) for x > 0."""
    done = 0.0
    while x < 8.0:
        done -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    tail = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132)))))
    return done + math.log(x) - 0.5 / x - tail


@kernel(inner=True)
def level_weights(g: Vec, out: Vec) -> None:
    """exp(E log theta) under Dir(g)."""
    both = digamma(sum_of(g))
    for level in range(g.size):
        x = digamma(g[level]) - both
        out[level] = exp(x) if x > _DEEPEST else 0.0


@kernel(inner=True)
def level_divergence(g: Vec, alpha: Vec) -> float:
    """KL(Dir(g) || Dir(alpha))."""
    whole = sum_of(g)
    both = digamma(whole)
    found = math.lgamma(whole) - math.lgamma(sum_of(alpha))
    for level in range(g.size):
        found += math.lgamma(alpha[level]) - math.lgamma(g[level])
        found += (g[level] - alpha[level]) * (digamma(g[level]) - both)
    return found


@kernel(FUSED)
def _reach(row: Vec, paths: PathTable, weights: Vec, rest: Vec, reach: Vec, values: Vec) -> None:
    """Probability of a word in each slot, from the nodes above it and the unseen ones below."""
    for i in range(row.size):
        above = reach[paths.parents[i]] if i else 0.0
        reach[i] = above + weights[paths.levels[i]] * row[i]
    for i in range(row.size):
        values[i] = max(reach[i] + rest[paths.levels[i]], _LEAST)


@kernel(FUSED)
def _power(values: Vec, count: int, product: Vec, scores: Vec) -> None:
    if count <= 2:
        for i in range(values.size):
            product[i] *= values[i] if count == 1 else values[i] * values[i]
    else:
        for i in range(values.size):
            scores[i] += count * log(values[i])


@kernel()
def _score_all(
    words: Words, d: int, paths: PathTable, weights: Vec, scores: Vec, room: Mat
) -> None:
    """Scores of all slots, up to a constant, with levels as expected from the prior."""
    n = 0
    for place in range(words.indptr[d], words.indptr[d + 1]):
        n += words.counts[place]
    alpha = paths.alpha
    level_weights(alpha * (1.0 + n / sum_of(alpha)), weights)
    rest = np.zeros(alpha.size)
    for level in range(alpha.size - 2, -1, -1):
        rest[level] = rest[level + 1] + weights[level + 1] * paths.unseen
    copy_to(scores, paths.log_weights)
    product, reach, values = room[0], room[1], room[2]
    product[:] = 1.0
    pending = 0
    for place in range(words.indptr[d], words.indptr[d + 1]):
        _reach(paths.table[words.words[place]], paths, weights, rest, reach, values)
        _power(values, words.counts[place], product, scores)
        pending += min(words.counts[place], 2)
        if pending > _FACTORS - 2:
            add_logs(product, scores)
            pending = 0
    add_logs(product, scores)


@kernel()
def choose_slots(words: Words, begin: int, end: int, paths: PathTable, q: Posteriors) -> None:
    """Choose the best slots of each document as candidates. Keep those it has a share in."""
    k, most = paths.levels.size, q.slots.shape[1]
    scores, room = np.empty(k), np.empty((3, k))
    weights = np.empty(paths.alpha.size)
    for d in range(begin, end):
        _score_all(words, d, paths, weights, scores, room)
        peak = largest(scores)
        old, kept = q.slots[d].copy(), q.shares[d].copy()
        old_g = q.g[d].copy()
        q.slots[d] = -1
        q.shares[d] = 0.0
        q.g[d] = 0.0
        for m in range(most):
            if old[m] >= 0 and kept[m] > _STILL:
                scores[old[m]] += 1e300  # always among the best
        for m in range(min(most, k)):
            best = np.argmax(scores)
            if scores[best] < peak - _WIDTH:
                break
            scores[best] = -np.inf
            q.slots[d, m] = best
            for j in range(most):
                if old[j] == best:
                    q.shares[d, m] = kept[j]
                    copy_to(q.g[d, m], old_g[j])


@kernel(SUMMED)
def _split_words(
    words: Words, d: int, paths: PathTable, path: IntVec, weights: Vec, g: Vec
) -> None:
    """Dirichlet parameters of levels, with each word split over levels by these weights."""
    depth = weights.size
    g[:] = 0.0
    values = np.empty(depth)
    for place in range(words.indptr[d], words.indptr[d + 1]):
        row = paths.table[words.words[place]]
        total = 0.0
        for level in range(depth):
            node = path[level]
            values[level] = weights[level] * (row[node] if node >= 0 else paths.unseen)
            total += values[level]
        share = words.counts[place] / total
        for level in range(depth):
            g[level] += share * values[level]
    for level in range(depth):
        g[level] += paths.alpha[level]


@kernel()
def _word_score(words: Words, d: int, paths: PathTable, path: IntVec, weights: Vec) -> float:
    score = 0.0
    for place in range(words.indptr[d], words.indptr[d + 1]):
        row = paths.table[words.words[place]]
        total = 0.0
        for level in range(weights.size):
            node = path[level]
            total += weights[level] * (row[node] if node >= 0 else paths.unseen)
        score += words.counts[place] * np.log(total)
    return score


@kernel()
def _settle(
    words: Words, d: int, paths: PathTable, slot: int, steps: int, g: Vec, weights: Vec
) -> float:
    """Iterate the levels in one slot until they converge, and return the score of the slot."""
    path, alpha = paths.paths[slot], paths.alpha
    fresh = np.empty(alpha.size)
    if g[0] == 0.0:
        n = 0
        for place in range(words.indptr[d], words.indptr[d + 1]):
            n += words.counts[place]
        more = 1.0 + n / sum_of(alpha)
        for level in range(alpha.size):
            g[level] = alpha[level] * more
    for _ in range(steps):
        level_weights(g, weights)
        _split_words(words, d, paths, path, weights, fresh)
        moved = 0.0
        for level in range(g.size):
            moved = max(moved, abs(fresh[level] - g[level]))
            g[level] = fresh[level]
        if moved < _STILL:
            break
    level_weights(g, weights)
    return _word_score(words, d, paths, path, weights) - level_divergence(g, alpha)


@kernel()
def infer_paths(
    words: Words, begin: int, end: int, paths: PathTable, steps: int, q: Posteriors
) -> None:
    """Compute levels in each candidate slot, and the probabilities of these slots.

    Slots with negligible probability are dropped until candidates are chosen again.
    """
    most = q.slots.shape[1]
    scores, weights = np.empty(most), np.empty(paths.alpha.size)
    for d in range(begin, end):
        for m in range(most):
            slot = q.slots[d, m]
            scores[m] = -np.inf
            if slot >= 0:
                scores[m] = paths.log_weights[slot]
                scores[m] += _settle(words, d, paths, slot, steps, q.g[d, m], weights)
        q.bounds[d] = softmax(scores, q.shares[d])
        for m in range(most):
            if q.shares[d, m] == 0.0:
                q.slots[d, m] = -1
                q.g[d, m] = 0.0


@kernel(inner=True)
def softmax(scores: Vec, shares: Vec) -> float:
    """Write the softmax to `shares`, with 0 for negligible ones. Return the log-sum-exp."""
    peak, total = largest(scores), 0.0
    for m in range(scores.size):
        x = scores[m] - peak
        shares[m] = exp(x) if x > _DEEPEST else 0.0
        total += shares[m]
    for m in range(scores.size):
        shares[m] /= total
        if shares[m] < _NEGLIGIBLE:
            shares[m] = 0.0
    return float(peak + np.log(total))


@kernel()
def gather(
    words: Words, paths: PathTable, q: Posteriors, counts: Mat, slots: Vec, logs: Vec
) -> None:
    """Add each document's expected words by node, its slots, and E log theta by level."""
    depth = paths.alpha.size
    weights, values = np.empty(depth), np.empty(depth)
    for d in range(words.indptr.size - 1):
        for m in range(q.slots.shape[1]):
            share, slot = q.shares[d, m], q.slots[d, m]
            if slot < 0 or share <= 0.0:
                continue
            slots[slot] += share
            g, path = q.g[d, m], paths.paths[slot]
            both = digamma(sum_of(g))
            for level in range(depth):
                logs[level] += share * (digamma(g[level]) - both)
            level_weights(g, weights)
            for place in range(words.indptr[d], words.indptr[d + 1]):
                w = words.words[place]
                total = 0.0
                for level in range(depth):
                    node = path[level]
                    seen = paths.table[w, node] if node >= 0 else paths.unseen
                    values[level] = weights[level] * seen
                    total += values[level]
                part = share * words.counts[place] / total
                for level in range(depth):
                    if path[level] >= 0:
                        counts[w, path[level]] += part * values[level]


@kernel()
def predict_words(words: Words, paths: PathTable, q: Posteriors, out: Vec) -> None:
    """Log-likelihood of other words of each document, given its posterior.

    All words of a document share one path: the sum over slots is outside the product over words.
    """
    shares, scores = np.empty(paths.alpha.size), np.empty(q.slots.shape[1])
    for d in range(words.indptr.size - 1):
        for m in range(scores.size):
            scores[m] = -np.inf
            if q.slots[d, m] >= 0 and q.shares[d, m] > 0.0:
                whole = sum_of(q.g[d, m])
                for level in range(shares.size):
                    shares[level] = q.g[d, m, level] / whole
                scores[m] = np.log(q.shares[d, m])
                scores[m] += _word_score(words, d, paths, paths.paths[q.slots[d, m]], shares)
        out[d] = softmax(scores, scores.copy())
