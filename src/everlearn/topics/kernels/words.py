"""Word counts of topics: add draws, decay old counts; and weights of words beside the topics."""

import math

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.arrays import copy_to, longest_run
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.topics.kernels.sampler import Bags, Topics

_LEAST_COUNT = 1e-9


@kernel()
def token_starts(indptr: IntVec, counts: NDArray[np.int32]) -> IntVec:
    """Where the tokens of each document begin, and where those of the last one end."""
    starts = np.empty(indptr.size, np.int64)
    n = 0
    starts[0] = 0
    for d in range(indptr.size - 1):
        own = counts[indptr[d] : indptr[d + 1]]
        for place in range(own.size):
            n += own[place]
        starts[d + 1] = n
    return starts


@kernel()
def add_topics(bags: Bags, kept: Topics, weight: float, counts: Mat) -> None:
    """Add `weight` to the word-topic counts for every token and kept sweep.

    Most tokens stay in their topic. So if up to three sweeps all drew the same topic, they are
    added at once. With more sweeps the comparison would take longer than it saves.
    """
    words, repeats, n_kept = bags.words, bags.counts, kept.shape[0]
    middle, last, few = n_kept // 2, n_kept - 1, n_kept <= 3
    for d in range(bags.indptr.size - 1):
        i = bags.starts[d]
        for place in range(bags.indptr[d], bags.indptr[d + 1]):
            w = words[place]
            for _ in range(repeats[place]):
                k = np.int64(kept[0, i])
                if few and k == kept[middle, i] and k == kept[last, i]:
                    counts[w, k] += weight * n_kept
                else:
                    for sweep in range(n_kept):
                        counts[w, np.int64(kept[sweep, i])] += weight
                i += 1


@kernel()
def decay_counts(share: float, counts: Mat, totals: Vec) -> None:
    """Multiply counts by a share, and sum them to totals anew.

    Tiny counts become 0, because denormal numbers would make sums slow.
    """
    totals[:] = 0.0
    for w in range(counts.shape[0]):
        for k in range(counts.shape[1]):
            left = share * counts[w, k]
            counts[w, k] = left if left > _LEAST_COUNT else 0.0
            totals[k] += counts[w, k]


@kernel()
def tally_topics(bags: Bags, kept: Topics, n_topics: int) -> NDArray[np.float64]:
    """Tokens of each document in each topic, (kept sweeps, B, n_topics)."""
    tallies = np.zeros((kept.shape[0], bags.indptr.size - 1, n_topics))
    for sweep in range(kept.shape[0]):
        for d in range(bags.indptr.size - 1):
            for i in range(bags.starts[d], bags.starts[d + 1]):
                tallies[sweep, d, kept[sweep, i]] += 1.0
    return tallies


@kernel()
def _features(
    bags: Bags, d: int, n_documents: float, frequencies: Vec, variances: Vec, x: Vec
) -> None:
    """Prior variances and features of the words of a document."""
    first = bags.indptr[d]
    norm = 0.0
    for j in range(bags.indptr[d + 1] - first):
        frequency = frequencies[bags.words[first + j]]
        variance = (1.0 + math.log((1.0 + n_documents) / (1.0 + frequency))) ** 3
        count = math.log1p(bags.counts[first + j])
        variances[j] = variance
        x[j] = count
        norm += variance * count * count
    norm = math.sqrt(norm)
    for j in range(bags.indptr[d + 1] - first):
        x[j] /= norm


@kernel(SUMMED)
def _scores(bags: Bags, d: int, x: Vec, weights: Mat, scores: Vec) -> None:
    first = bags.indptr[d]
    for j in range(bags.indptr[d + 1] - first):
        w = bags.words[first + j]
        for q in range(scores.size):
            scores[q] += x[j] * weights[w, q]


@kernel(SUMMED)
def _learn(bags: Bags, d: int, variances: Vec, x: Vec, pulls: Vec, weights: Mat) -> None:
    first = bags.indptr[d]
    for j in range(bags.indptr[d + 1] - first):
        w = bags.words[first + j]
        step = variances[j] * x[j]
        for q in range(pulls.size):
            weights[w, q] += step * pulls[q]


@kernel()
def learn_words(
    bags: Bags,
    offsets: Mat,
    signs: NDArray[np.int8],
    max_multiplier: float,
    n_documents: float,
    frequencies: Vec,
    weights: Mat,
) -> float:
    """One passive-aggressive step for each document on the margins that its topics miss.

    Parameters
    ----------
    offsets : (B, Q), scores of the topics in units of the margin
    signs : (B, Q), 0 for no label
    max_multiplier : largest multiplier
    frequencies, weights : (W,) and (W, Q), documents with each word, and weights; changed

    Returns
    -------
    n_documents : with those of the batch that have words
    """
    longest = longest_run(bags.indptr)
    variances, x = np.empty(longest), np.empty(longest)
    scores, pulls = np.empty(signs.shape[1]), np.empty(signs.shape[1])
    for d in range(bags.indptr.size - 1):
        if bags.indptr[d] == bags.indptr[d + 1]:
            continue
        n_documents += 1.0
        for place in range(bags.indptr[d], bags.indptr[d + 1]):
            frequencies[bags.words[place]] += 1.0
        _features(bags, d, n_documents, frequencies, variances, x)
        copy_to(scores, offsets[d])
        _scores(bags, d, x, weights, scores)
        active = False
        for q in range(scores.size):
            loss = max(0.0, 1.0 - signs[d, q] * scores[q])
            pulls[q] = signs[d, q] * min(max_multiplier, loss)
            active = active or pulls[q] != 0.0
        if active:
            _learn(bags, d, variances, x, pulls, weights)
    return n_documents


@kernel()
def score_words(
    bags: Bags, n_documents: float, frequencies: Vec, weights: Mat, scores: Mat
) -> None:
    """Add the scores of the words of each document to `scores` (B, Q)."""
    longest = longest_run(bags.indptr)
    variances, x = np.empty(longest), np.empty(longest)
    for d in range(bags.indptr.size - 1):
        if bags.indptr[d] < bags.indptr[d + 1]:
            _features(bags, d, n_documents, frequencies, variances, x)
            _scores(bags, d, x, weights, scores[d])


@kernel()
def word_features(bags: Bags, n_documents: float, frequencies: Vec) -> Vec:
    """Features of the words of the first document."""
    variances, x = np.empty(bags.indptr[1]), np.empty(bags.indptr[1])
    if bags.indptr[1] > 0:
        _features(bags, 0, n_documents, frequencies, variances, x)
    return x
