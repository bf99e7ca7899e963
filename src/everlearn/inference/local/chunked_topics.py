"""Local steps of topic models whose documents are elsewhere: sweeps where the documents are.

What comes back are counts of words in topics, which are whole numbers, so that their sums are
exact in any order, and, if there are labels, what the weights need to know of each document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import psi

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.inference.chunks import dealt
from everlearn.inference.engine import Engine, Handle
from everlearn.inference.kernels.draws import stream_keys
from everlearn.inference.kernels.topics import CONTINUE, PREDICTIVE, UNIFORM, WordFactors
from everlearn.inference.kernels.word_counts import add_topics
from everlearn.inference.local.topic_batches import as_bags
from everlearn.inference.local.topic_steps import (
    AveragingStep,
    Block,
    Draws,
    GibbsStep,
    Step,
    drawn,
)
from everlearn.inference.local.topics import deepened
from everlearn.inference.margin_step import hinges_of
from everlearn.inference.topic_model import Targets, TopicLearner
from everlearn.inference.topic_state import FixedSpread, Gaussians, TopicState


@dataclass(frozen=True, slots=True, eq=False)
class DocumentChunk:
    """Documents that are held together: a handle of a list of one `Documents`, and where they are.

    start : position of the first among all documents of the collection
    """

    handle: Handle
    start: int
    n_documents: int
    n_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedDocuments:
    """Documents in chunks."""

    chunks: tuple[DocumentChunk, ...]

    def __len__(self) -> int:
        return sum(chunk.n_documents for chunk in self.chunks)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all documents."""
        return sum(chunk.n_tokens for chunk in self.chunks)

    def blocks(self, size: int) -> list[ChunkedDocuments]:
        """Batches of about `size` documents, at least a chunk each."""
        return dealt(self, size)

    @property
    def positions(self) -> IntVec:
        """Positions of the documents in the collection."""
        parts = [c.start + np.arange(c.n_documents) for c in self.chunks]
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedBatch:
    """Documents in chunks, with what their tasks ask for."""

    documents: ChunkedDocuments
    targets: Targets


class _Along(NamedTuple):
    """What goes with a chunk: its place in the batch, and what its documents are asked for."""

    first: int
    signs: NDArray[np.int8]
    offsets: Mat
    multipliers: Mat


class _Round(NamedTuple):
    """What all chunks share in a round; `place` is seed, clock, round and documents of a batch."""

    step: Step
    place: tuple[int, int, int, int]
    n_kept: int
    labels: bool


class Told(NamedTuple):
    """What is told of a chunk: topics drawn, in shares of documents; the rest if there are labels.

    lengths : (n,) tokens of each document, at least 1
    totals, tallies, inverses : see `Draws`; totals are left out under the Gibbs loss
    """

    shares: Vec
    lengths: Vec
    totals: Mat
    tallies: NDArray[np.float64]
    inverses: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Swept:
    """Of chunks in order: whole counts of words in topics over the sweeps kept, what is told."""

    counts: Mat
    told: tuple[Told, ...]

    def __add__(self, other: Swept) -> Swept:
        return Swept(self.counts + other.counts, self.told + other.told)


def _swept(
    shared: _Round, item: tuple[list[Documents], list[Draws] | None, _Along]
) -> tuple[Swept, Draws]:
    """What comes back of a chunk, and the draws, which stay."""
    (documents,), before, along = item
    bags, n = as_bags(documents), len(documents)
    keys = stream_keys(*shared.place)[along.first : along.first + n]
    if before is None:
        topics = np.zeros(int(bags.starts[-1]), np.uint16)
        hinges = along.signs.shape[1] if isinstance(shared.step, GibbsStep) else 0
        inverses = np.zeros((shared.n_kept, n, hinges))
    else:
        topics, inverses = before[0].topics, before[0].inverses
    block = Block(bags, keys, topics, along.signs, along.offsets, along.multipliers, inverses)
    draws = drawn(shared.step, block)
    counts = np.zeros(shared.step.factors.counts.shape)
    add_topics(bags, draws.kept, 1.0, counts)
    return Swept(counts, (_told(documents, draws, shared.labels),)), draws


def _told(documents: Documents, draws: Draws, labels: bool) -> Told:
    lengths = np.maximum(documents.lengths, 1).astype(np.float64)
    shares = (1.0 / (len(draws.kept) * lengths)) @ draws.totals
    if labels:
        totals = draws.totals[:0] if draws.tallies.size else draws.totals  # tallies say it all
        return Told(shares, lengths, totals, draws.tallies, draws.inverses)
    return Told(shares, lengths[:0], draws.totals[:0], draws.tallies[:, :0], draws.inverses[:, :0])


class ChunkedSampler:
    """Rounds of sweeps over a batch, each from where the last one stopped."""

    def __init__(
        self,
        learner: TopicLearner,
        state: TopicState,
        batch: ChunkedDocuments,
        targets: Targets,
        engine: Engine,
    ) -> None:
        self._learner, self._state, self._engine = learner, state, engine
        self._batch, self._targets = batch, targets
        self._alpha = learner.prior.document_prior(state.tables)
        self._kept: Sequence[Handle | None] = [None] * len(batch.chunks)
        self.counts: Mat | None = None

    def draw(
        self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat
    ) -> tuple[Told, ...]:
        """What is told of the draws of round `number`, from 0; `counts` are those of words."""
        learner, state = self._learner, self._state
        schedule = (learner.n_sweeps, learner.burn_in, self._start(number))
        signs, offsets, factors = self._targets.signs, self._targets.values, self._factors()
        step: Step
        if isinstance(weights, Gaussians) and learner.loss is not None:
            rng = learner.weight_draws(state, number)
            hinges = hinges_of(learner.loss, weights, self._targets, self._engine, rng)
            signs, offsets = hinges.signs, hinges.offsets
            lean = hinges._replace(signs=signs[:0], offsets=offsets[:0])
            step = GibbsStep(factors, self._alpha, lean, learner.first_pull, schedule)
        else:
            mean = np.empty((0, len(self._alpha))) if weights is None else weights.mean
            step = AveragingStep(factors, self._alpha, mean, learner.closed_form(number), schedule)
        items, first = [], 0
        for chunk, kept in zip(self._batch.chunks, self._kept, strict=True):
            own = slice(first, first + chunk.n_documents)
            along = _Along(first, signs[own], offsets[own], multipliers[own])
            items.append((chunk.handle, kept, along))
            first = own.stop
        place = (state.seed, state.clock, number, first)
        shared = _Round(step, place, learner.n_kept, labels=learner.loss is not None)
        swept, self._kept = self._engine.map_sum_kept(_swept, items, shared)
        self.counts = swept.counts
        return swept.told

    def _start(self, number: int) -> int:
        if number > 0:
            return CONTINUE
        uniform = self._learner.start == "uniform" or self._state.clock == 0
        return UNIFORM if uniform else PREDICTIVE

    def _factors(self) -> WordFactors:
        """Word factors; after the first round they contain what the batch has drawn."""
        learner, state = self._learner, self._state
        k = state.n_topics
        counts, totals = np.ascontiguousarray(state.counts[:, :k]), state.totals[:k].copy()
        if self.counts is not None:
            weight = learner.ghosts / learner.n_kept
            counts = counts + weight * self.counts
            totals += weight * self.counts.sum(axis=0)
        totals += learner.smoothing * state.n_words
        if learner.word_factor != "digamma":
            return WordFactors(counts, learner.smoothing, 1.0 / totals)
        table = psi(counts + learner.smoothing) - psi(totals)
        return WordFactors(deepened(table), 0.0, np.ones(k))
