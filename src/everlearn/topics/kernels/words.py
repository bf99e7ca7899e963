"""What is added up of the topics drawn for tokens, and what is left of it in time."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.attic.inference_kernels_turns import all_ended, ended, taken
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.kernels.scalars import longest_run
from everlearn.topics.kernels.sampler import Bags, Topics

_LEAST_COUNT = 1e-9


class WordRuns(NamedTuple):
    """Runs of words that different threads may count, and where they begin in documents.

    firsts : (runs + 1, B), the first entry of each run in each document, and where the last ends
    tokens : (runs, B), the first token of that entry
    """

    firsts: NDArray[np.int64]
    tokens: NDArray[np.int64]


class Counting(NamedTuple):
    """Words of documents on their way into the counts, in runs that threads take turns at.

    bags : the documents, and `kept` (kept sweeps, tokens) the topics drawn for them
    weight : of a token in a kept sweep
    runs : what is counted together
    counts : (words, K), changed in place
    turns : which runs are taken
    """

    bags: Bags
    kept: Topics
    weight: float
    runs: WordRuns
    counts: Mat
    turns: IntVec

    def is_done(self) -> bool:
        """Whether all runs are counted; it waits a little for others."""
        return all_ended(self.turns, len(self.runs.tokens))


@kernel()
def add_topics(bags: Bags, kept: Topics, weight: float, counts: Mat) -> None:
    """Add `weight` to the word-topic counts for every token and kept sweep."""
    _add_run(bags, kept, weight, bags.indptr, bags.indptr[1:], bags.starts, counts)


@kernel()
def add_words(counting: Counting) -> None:
    """`add_topics` for those runs of words that nobody has taken."""
    bags, kept, weight, counts = counting.bags, counting.kept, counting.weight, counting.counts
    firsts, tokens, turns = counting.runs.firsts, counting.runs.tokens, counting.turns
    run = taken(turns, 1)
    while run < tokens.shape[0]:
        _add_run(bags, kept, weight, firsts[run], firsts[run + 1], tokens[run], counts)
        ended(turns, 1)
        run = taken(turns, 1)


@kernel()
def _add_run(
    bags: Bags,
    kept: Topics,
    weight: float,
    firsts: IntVec,
    stops: IntVec,
    tokens: IntVec,
    counts: Mat,
) -> None:
    """Add the entries of each document from its first up to its stop, whose tokens begin there.

    The draws of a token that stays are added at once, if they are three at most: a loop that
    compares them would take longer than adding them.
    """
    words, repeats, n_kept = bags.words, bags.counts, kept.shape[0]
    middle, last, few = n_kept // 2, n_kept - 1, n_kept <= 3
    for d in range(bags.indptr.size - 1):
        i = tokens[d]
        for place in range(firsts[d], stops[d]):
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
def fade(share: float, counts: Mat, totals: Vec) -> None:
    """Multiply counts by a share; the totals are their sums again.

    What is left of a token ends as nothing, before it gets so small that sums become slow.
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
