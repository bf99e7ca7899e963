"""Learn one batch of documents that workers hold: they draw the topics and send back sums.

Workers send counts of words in topics. These are whole numbers, so sums are exact in any order.
With labels, they also send the draws of each document, from which the weights are learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.engine.protocol import Engine, Handle
from everlearn.kernels.draws import stream_keys
from everlearn.topics.batches import BatchInfo, Targets, as_bags
from everlearn.topics.bayespa import decay
from everlearn.topics.corpus import ChunkedDocuments
from everlearn.topics.kernels.sampler import WordFactors
from everlearn.topics.kernels.words import add_topics
from everlearn.topics.objective import monitor_of
from everlearn.topics.sampling import step_of_round, word_factors_of
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import CountBuffer, FixedSpread, Gaussians, TopicState
from everlearn.topics.steps import Block, Draws, GibbsStep, Step
from everlearn.topics.weights import update_weights


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedBatch:
    """Documents in chunks, with their labels or numbers."""

    documents: ChunkedDocuments
    targets: Targets


class _ChunkTargets(NamedTuple):
    """What goes to a chunk: the position of its first document in the batch, and its targets."""

    first: int
    signs: NDArray[np.int8]
    offsets: Mat
    multipliers: Mat


class _Round(NamedTuple):
    """What all chunks share in a round; `place` is the arguments of `stream_keys`."""

    step: Step
    place: tuple[int, int, int, int]
    n_kept: int
    labels: bool


class ChunkDraws(NamedTuple):
    """The part of its draws that a chunk sends back. Without labels, only shares are not empty.

    shares : (K,) shares of documents in topics, summed over documents and kept sweeps
    lengths : (n,) tokens of each document, at least 1
    totals, tallies, inverses : as in `Draws`; totals are left out under the Gibbs loss
    """

    shares: Vec
    lengths: Vec
    totals: Mat
    tallies: NDArray[np.float64]
    inverses: NDArray[np.float64]

    @classmethod
    def of(cls, documents: Documents, draws: Draws, labels: bool) -> ChunkDraws:
        """The part of the draws of these documents that is sent back."""
        lengths = np.maximum(documents.lengths, 1).astype(np.float64)
        shares = (1.0 / (len(draws.kept) * lengths)) @ draws.totals
        if labels:
            # The totals are sums of the tallies, if there are any.
            totals = draws.totals[:0] if draws.tallies.size else draws.totals
            return cls(shares, lengths, totals, draws.tallies, draws.inverses)
        empty = draws.tallies[:, :0], draws.inverses[:, :0]
        return cls(shares, lengths[:0], draws.totals[:0], *empty)

    @classmethod
    def concatenate(cls, parts: Sequence[ChunkDraws]) -> ChunkDraws:
        """The draws of all chunks as one, with documents in order."""
        return cls(
            np.sum([part.shares for part in parts], axis=0),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.totals for part in parts]),
            np.concatenate([part.tallies for part in parts], axis=1),
            np.concatenate([part.inverses for part in parts], axis=1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSums:
    """Sums over chunks: counts of words in topics over the kept sweeps, and the draws, in order."""

    counts: Mat
    draws: tuple[ChunkDraws, ...]

    def __add__(self, other: ChunkSums) -> ChunkSums:
        return ChunkSums(self.counts + other.counts, self.draws + other.draws)


def _draw_chunk(
    shared: _Round, item: tuple[list[Documents], list[Draws] | None, _ChunkTargets]
) -> tuple[ChunkSums, Draws]:
    """A round on one chunk: what comes back, and the draws, which stay for the next round."""
    (documents,), before, targets = item
    bags, n = as_bags(documents), len(documents)
    keys = stream_keys(*shared.place)[targets.first : targets.first + n]
    if before is None:
        topics = np.zeros(int(bags.starts[-1]), np.uint16)
        hinges = targets.signs.shape[1] if isinstance(shared.step, GibbsStep) else 0
        inverses = np.zeros((shared.n_kept, n, hinges))
    else:
        topics, inverses = before[0].topics, before[0].inverses
    block = Block(bags, keys, topics, targets.signs, targets.offsets, targets.multipliers, inverses)
    draws = shared.step.draw(block)
    counts = np.zeros(shared.step.factors.counts.shape)
    add_topics(bags, draws.kept, 1.0, counts)
    return ChunkSums(counts, (ChunkDraws.of(documents, draws, shared.labels),)), draws


class ChunkedSampler:
    """Rounds of sweeps over a batch in chunks; each goes on from the topics of the last one."""

    def __init__(
        self,
        settings: TopicSettings,
        state: TopicState,
        batch: ChunkedDocuments,
        targets: Targets,
        engine: Engine,
    ) -> None:
        self._settings, self._state, self._engine = settings, state, engine
        self._batch, self._targets = batch, targets
        self._alpha = settings.prior.document_prior(state.tables)
        self._draws: Sequence[Handle | None] = [None] * len(batch.chunks)
        self.counts: Mat | None = None

    def draw(
        self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat
    ) -> ChunkDraws:
        """The draws of round `number`, from 0; `counts` are then its words in topics."""
        settings, state = self._settings, self._state
        targets = self._targets
        step = step_of_round(
            settings, state, number, self._factors(), self._alpha, weights, targets, self._engine
        )
        signs, offsets = targets.signs, targets.values
        if isinstance(step, GibbsStep):
            # Targets go to each chunk apart, the step to all of them.
            signs, offsets = step.hinges.signs, step.hinges.offsets
            step = replace(step, hinges=step.hinges._replace(signs=signs[:0], offsets=offsets[:0]))
        items, first = [], 0
        for chunk, draws in zip(self._batch.chunks, self._draws, strict=True):
            own = slice(first, first + chunk.n_documents)
            part = _ChunkTargets(first, signs[own], offsets[own], multipliers[own])
            items.append((chunk.handle, draws, part))
            first = own.stop
        place = (state.seed, state.clock, number, first)
        shared = _Round(step, place, settings.n_kept, labels=settings.loss is not None)
        sums, self._draws = self._engine.map_sum_and_keep(_draw_chunk, items, shared)
        self.counts = sums.counts
        return ChunkDraws.concatenate(sums.draws)

    def _factors(self) -> WordFactors:
        """Word factors; after the first round they contain what the batch has drawn."""
        settings, state = self._settings, self._state
        k = state.n_topics
        counts, totals = np.ascontiguousarray(state.counts[:, :k]), state.totals[:k].copy()
        if self.counts is not None:
            weight = settings.ghosts / settings.n_kept
            counts = counts + weight * self.counts
            totals += weight * self.counts.sum(axis=0)
        return word_factors_of(settings, counts, totals, state.n_words)


def learn_chunked_batch(
    settings: TopicSettings,
    state: TopicState,
    batch: ChunkedBatch,
    engine: Engine,
) -> tuple[TopicState, BatchInfo]:
    """The state after one more batch; changes the counts of the state given in place."""
    prior = decay(settings, state)
    targets = batch.targets
    sampler = ChunkedSampler(settings, prior, batch.documents, targets, engine)
    weights, multipliers, k = prior.weights, np.zeros(targets.signs.shape), prior.n_topics
    monitor = monitor_of(settings, prior, targets, prior.counts[:, :k])
    for number in range(settings.n_rounds):
        draws = sampler.draw(number, weights, multipliers)
        weights, multipliers = update_weights(
            settings, prior.weights, targets, draws, draws.lengths, multipliers
        )
        if monitor is not None:
            assert sampler.counts is not None
            monitor.record(draws, sampler.counts, prior.tables, weights)
            if monitor.has_converged:
                break
    assert sampler.counts is not None
    CountBuffer(prior).add_counts(sampler.counts, settings.ghosts / settings.n_kept)
    n = len(batch.documents)
    after = replace(prior, weights=weights, clock=prior.clock + 1)
    n_tokens = batch.documents.n_tokens
    converged = monitor is None or monitor.has_converged
    return after, BatchInfo(
        after.clock, n, n_tokens, after.ids, draws.shares / n, number + 1, converged
    )
