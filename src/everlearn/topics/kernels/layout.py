"""Documents laid out for the kernels: in batches, and where their tokens begin."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.attic.inference_kernels_turns import all_ended, ended, linger, taken
from everlearn.core.arrays import IntVec, Vec
from everlearn.kernels.jit import kernel
from everlearn.topics.kernels.gibbs import sample_augmented
from everlearn.topics.kernels.sampler import sample_documents
from everlearn.topics.kernels.words import Counting, add_words

Words = NDArray[np.int32]
_LOOKED_AT = 64
"""Entries by which words are shared out."""


class Layout(NamedTuple):
    """Batches side by side; each has its part of every array, and threads take turns at them.

    source : `indptr`, `words` and `counts` of the documents that they are made of
    n_runs : runs of words that are counted by different threads
    rows : (n,), positions of their documents in it, batch after batch
    edges : (batches + 1,), where each batch begins among these, and the last one ends
    places : (batches + 1,), the same among the entries
    indptr, starts : (n + batches,), where entries and tokens of documents begin in their batch
    words, counts : (entries,)
    lengths : (n,), tokens of each document, at least 1
    firsts : (n * (n_runs + 1),), the first entry of each run in each document of a batch, run by
        run, and where the last run ends
    tokens : (n * n_runs,), the first token of that entry
    turns : which batches are taken
    """

    source: tuple[IntVec, Words, Words]
    n_runs: int
    rows: IntVec
    edges: IntVec
    places: IntVec
    indptr: IntVec
    starts: IntVec
    words: Words
    counts: Words
    lengths: Vec
    firsts: IntVec
    tokens: IntVec
    turns: IntVec

    @property
    def n_batches(self) -> int:
        """How many they are."""
        return len(self.edges) - 1


@kernel()
def lay_out(out: Layout) -> None:
    """Lay out the batches that nobody has taken."""
    while lay_out_one(out):
        pass


@kernel()
def lay_out_one(out: Layout) -> bool:
    """Lay out a batch that nobody has taken, if there is one."""
    b = taken(out.turns, 1)
    if b >= out.edges.size - 1:
        return False
    first, stop, n_runs = out.edges[b], out.edges[b + 1], out.n_runs
    own, entries = slice(first + b, stop + b + 1), slice(out.places[b], out.places[b + 1])
    words, counts = out.words[entries], out.counts[entries]
    indptr, starts = out.indptr[own], out.starts[own]
    _gather(*out.source, out.rows[first:stop], indptr, words, counts)
    _find_starts(indptr, counts, starts)
    for d in range(stop - first):
        out.lengths[first + d] = max(starts[d + 1] - starts[d], 1)
    firsts = out.firsts[first * (n_runs + 1) : stop * (n_runs + 1)]
    tokens = out.tokens[first * n_runs : stop * n_runs]
    _find_runs(indptr, starts, words, counts, n_runs, firsts, tokens)
    ended(out.turns, 1)
    return True


@kernel()
def _gather(
    indptr: IntVec,
    words: Words,
    counts: Words,
    rows: IntVec,
    ends: IntVec,
    some_words: Words,
    some_counts: Words,
) -> None:
    ends[0] = 0
    for i in range(rows.size):
        source, place = indptr[rows[i]], ends[i]
        size = indptr[rows[i] + 1] - source
        for j in range(size):
            some_words[place + j] = words[source + j]
        for j in range(size):
            some_counts[place + j] = counts[source + j]
        ends[i + 1] = place + size


@kernel()
def token_starts(indptr: IntVec, counts: Words) -> IntVec:
    """Where the tokens of each document begin, and where those of the last one end."""
    starts = np.empty(indptr.size, np.int64)
    _find_starts(indptr, counts, starts)
    return starts


@kernel()
def _find_starts(indptr: IntVec, counts: Words, starts: IntVec) -> None:
    n = 0
    starts[0] = 0
    for d in range(indptr.size - 1):
        own = counts[indptr[d] : indptr[d + 1]]
        for place in range(own.size):
            n += own[place]
        starts[d + 1] = n


@kernel()
def _find_runs(
    indptr: IntVec,
    starts: IntVec,
    words: Words,
    counts: Words,
    n_runs: int,
    firsts: IntVec,
    tokens: IntVec,
) -> None:
    """Runs of words that about as many entries belong to."""
    n = indptr.size - 1
    some = np.sort(words[:: max(1, words.size // _LOOKED_AT)])
    edges = np.zeros(n_runs, np.int64)
    for run in range(1, n_runs if some.size else 0):
        edges[run] = some[some.size * run // n_runs]
    for d in range(n):
        place, i, end = indptr[d], starts[d], indptr[d + 1]
        for run in range(n_runs):
            first = edges[run]
            while place < end and words[place] < first:
                i += counts[place]
                place += 1
            firsts[run * n + d], tokens[run * n + d] = place, i
        firsts[n_runs * n + d] = end


class Rest(NamedTuple):
    """What to do until the next batch: lay out one of those ahead, and wait for what is coming."""

    ahead: Layout
    coming: IntVec


@kernel()
def stand_by(rest: Rest) -> bool:
    """Lay one batch out, then linger; whether the next piece of work has begun."""
    lay_out_one(rest.ahead)
    return linger(rest.coming)


@kernel()
def sample_documents_and_count(given: Any, counting: Counting, rest: Rest) -> bool:
    """`sample_documents`, and `add_words` once all documents are drawn; then `stand_by`.

    Whoever waits too long for the others leaves the words to them.
    """
    sample_documents(*given)
    if all_ended(given[-1], given[0].indptr.size - 1):
        add_words(counting)
    return stand_by(rest)


@kernel()
def sample_augmented_and_count(given: Any, counting: Counting, rest: Rest) -> bool:
    """The same with `sample_augmented`."""
    sample_augmented(*given)
    if all_ended(given[-1], given[0].indptr.size - 1):
        add_words(counting)
    return stand_by(rest)
