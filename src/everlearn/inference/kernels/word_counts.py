"""What is added up of the topics drawn for tokens, and what is left of it in time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.topics import Bags, Topics
from everlearn.inference.kernels.turns import all_ended, ended, taken

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
