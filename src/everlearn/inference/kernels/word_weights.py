"""A sparse linear term on words, learned document by document beside the topics.

The prior variance of a word's weight is s_w^2, s_w = (1 + log((1 + N) / (1 + df_w)))^1.5, N and
df_w being the documents seen so far and those with the word. The feature of a word is
log(1 + count) over the norm that makes x' S x = 1, so a multiplier is the loss itself.
"""

import math

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Vec
from everlearn.inference.kernels._jit import SUMMED, kernel
from everlearn.inference.kernels.scalars import longest_run
from everlearn.inference.kernels.topics import Bags


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
    box: float,
    n_documents: float,
    frequencies: Vec,
    weights: Mat,
) -> float:
    """Passive-aggressive steps, one a document, on what the topics' scores leave over.

    Parameters
    ----------
    offsets : (B, Q), scores of the topics in units of the margin
    signs : (B, Q), 0 for no label
    box : largest multiplier
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
        scores[:] = offsets[d]
        _scores(bags, d, x, weights, scores)
        active = False
        for q in range(scores.size):
            loss = max(0.0, 1.0 - signs[d, q] * scores[q])
            pulls[q] = signs[d, q] * min(box, loss)
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
