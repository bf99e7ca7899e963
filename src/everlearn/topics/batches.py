"""Documents on their way into a topic model: laid out for kernels, with what is asked of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.attic.inference_kernels_turns import all_ended
from everlearn.attic.inference_shifts import have_ended, new_turns
from everlearn.core.arrays import IntVec, Vec
from everlearn.core.documents import Documents
from everlearn.engine.protocol import Share, alone, wait_until
from everlearn.topics.kernels.layout import Layout, lay_out, token_starts
from everlearn.topics.kernels.sampler import Bags
from everlearn.topics.kernels.words import WordRuns
from everlearn.topics.settings import Targets

_RUNS, _MOST_RUNS = 4, 32
"""Runs of words for each thread, so that whoever comes later finds some left, and for all."""
_SLEEP = 1.0
"""Seconds after which nobody waits any longer for a batch that another thread lays out."""


def as_bags(documents: Documents) -> Bags:
    """The form that kernels take."""
    starts = token_starts(documents.indptr, documents.counts)
    return Bags(documents.indptr, documents.words, documents.counts, starts)


def renumbered(bags: Bags) -> tuple[IntVec, Bags]:
    """The distinct words of documents, and these with words numbered by their places there."""
    present = np.zeros(bags.words.max(initial=-1) + 1, np.bool_)
    present[bags.words] = True
    places = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present), bags._replace(words=places[bags.words])


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that are learned together, with what their tasks ask for.

    lengths : (B,), tokens of each document, at least 1
    runs : how threads share the words out when these are counted
    ahead : batches to come, which whoever has nothing else to do lays out
    """

    bags: Bags
    targets: Targets
    lengths: Vec
    runs: WordRuns
    ahead: Layout

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def documents(self) -> Documents:
        """The documents alone."""
        return Documents(*self.bags[:3])

    @property
    def n_tokens(self) -> int:
        """Tokens of all documents."""
        return int(self.bags.starts[-1])


def layout_of(documents: Documents, parts: Sequence[IntVec], n_workers: int) -> Layout:
    """Room for batches of the documents at these positions, to be learned by so many workers."""
    indptr, n_runs = documents.indptr, 1 if n_workers == 1 else min(_RUNS * n_workers, _MOST_RUNS)
    rows = np.concatenate([np.empty(0, np.int64), *parts])
    edges = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)])
    sizes = indptr[rows + 1] - indptr[rows]
    places = np.concatenate([[0], np.cumsum(sizes)])[edges]
    n, n_ends = len(rows), len(rows) + len(parts)
    return Layout(
        (indptr, documents.words, documents.counts),
        n_runs,
        rows,
        edges,
        places,
        np.empty(n_ends, np.int64),
        np.empty(n_ends, np.int64),
        np.empty(places[-1], np.int32),
        np.empty(places[-1], np.int32),
        np.empty(n),
        np.empty(n * (n_runs + 1), np.int64),
        np.empty(n * n_runs, np.int64),
        new_turns(),
    )


def laid_out(layout: Layout, targets: Targets, ahead: Layout, share: Share = alone) -> list[Batch]:
    """The batches of a layout; `targets` are those of all documents that it is made of."""
    if not have_ended(layout.turns, layout.n_batches):
        share(lambda: lay_out(layout))
    end = time.monotonic() + _SLEEP
    wait_until(lambda: all_ended(layout.turns, layout.n_batches) or time.monotonic() > end)
    if not have_ended(layout.turns, layout.n_batches):  # somebody sleeps over one, or has failed
        lay_out(layout._replace(turns=new_turns()))
    asked = targets.take(layout.rows)
    return [_batch(layout, asked, ahead, number) for number in range(layout.n_batches)]


def _batch(layout: Layout, targets: Targets, ahead: Layout, number: int) -> Batch:
    n_runs = layout.n_runs
    first, stop = layout.edges[number : number + 2].tolist()
    ends, n = slice(first + number, stop + number + 1), stop - first
    entries = slice(*layout.places[number : number + 2].tolist())
    bags = Bags(
        layout.indptr[ends], layout.words[entries], layout.counts[entries], layout.starts[ends]
    )
    runs = WordRuns(
        layout.firsts[first * (n_runs + 1) : stop * (n_runs + 1)].reshape(n_runs + 1, n),
        layout.tokens[first * n_runs : stop * n_runs].reshape(n_runs, n),
    )
    return Batch(bags, targets[first:stop], layout.lengths[first:stop], runs, ahead)
