"""Local steps of topic models whose word counts stand still: documents are independent.

An engine shares the documents of a batch out; the draws do not depend on how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import psi

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.inference.engine import Engine
from everlearn.inference.kernels.augmented import sample_augmented
from everlearn.inference.kernels.completion import infer_topics
from everlearn.inference.kernels.documents import gathered, token_starts
from everlearn.inference.kernels.draws import Words, stream_keys
from everlearn.inference.kernels.hinges import Hinges
from everlearn.inference.kernels.topics import (
    CONTINUE,
    PREDICTIVE,
    UNIFORM,
    Bags,
    Margins,
    Samples,
    Topics,
    WordFactors,
    sample_documents,
)
from everlearn.inference.kernels.turns import new_turns
from everlearn.inference.kernels.word_counts import add_topics
from everlearn.inference.margin_step import hinges_of
from everlearn.inference.topic_model import Targets, TopicLearner, word_factors
from everlearn.inference.topic_state import FixedSpread, Gaussians, TopicState

_DEEPEST = -50.0
_FEWEST_TOKENS = 1000
"""A block with fewer is not worth sending to another thread."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What the sweeps of a round leave behind.

    topics : (n_tokens,), after the last sweep
    kept : (n_kept, n_tokens), after each sweep that counts
    totals : (B, K), tokens in topics, summed over kept sweeps
    tallies, inverses : (n_kept, B, K) and (n_kept, B, hinges), under the Gibbs loss
    tables : (K,), mean over kept sweeps; zero unless topics are born
    """

    topics: Topics
    kept: Topics
    totals: Mat
    tallies: NDArray[np.float64]
    inverses: NDArray[np.float64]
    tables: Vec


@dataclass(frozen=True)
class Batch:
    """Documents with what their tasks ask for."""

    bags: Bags
    targets: Targets

    def __len__(self) -> int:
        return len(self.bags.indptr) - 1

    @cached_property
    def lengths(self) -> Vec:
        """Tokens of each document, at least 1."""
        starts = self.bags.starts
        return np.asarray(np.maximum(starts[1:] - starts[:-1], 1), np.float64)


def as_bags(documents: Documents) -> Bags:
    """The form that kernels take."""
    starts = token_starts(documents.indptr, documents.counts)
    return Bags(documents.indptr, documents.words, documents.counts, starts)


def picked(documents: Documents, rows: IntVec) -> Documents:
    """The documents at these positions, in that order."""
    return Documents(*gathered(documents.indptr, documents.words, documents.counts, rows))


def even_cuts(bags: Bags, n_parts: int) -> list[slice]:
    """Runs of documents with about as many tokens each."""
    n_tokens = int(bags.starts[-1])
    n_parts = max(1, min(n_parts, n_tokens // _FEWEST_TOKENS))
    if n_parts == 1 and len(bags.indptr) > 1:
        return [slice(0, len(bags.indptr) - 1)]
    inner = np.searchsorted(bags.starts, n_tokens * np.arange(1, n_parts) / n_parts)
    edges = [0, *inner.tolist(), len(bags.indptr) - 1]
    return [slice(a, b) for a, b in pairwise(edges) if b > a]


def cut(bags: Bags, where: slice) -> Bags:
    """A run of documents."""
    indptr = bags.indptr[where.start : where.stop + 1]
    starts = bags.starts[where.start : where.stop + 1]
    inside = slice(int(indptr[0]), int(indptr[-1]))
    return Bags(indptr - indptr[0], bags.words[inside], bags.counts[inside], starts - starts[0])


@dataclass(frozen=True, slots=True)
class Block:
    """Documents on their way through a local step, with what belongs to them."""

    bags: Bags
    keys: Words
    topics: Topics
    signs: NDArray[np.int8]
    offsets: Mat
    multipliers: Mat
    inverses: NDArray[np.float64]

    def cut(self, where: slice) -> Block:
        """A run of its documents."""
        if where == slice(0, len(self.keys)):
            return self
        tokens = slice(int(self.bags.starts[where.start]), int(self.bags.starts[where.stop]))
        return Block(
            cut(self.bags, where),
            self.keys[where],
            self.topics[tokens],
            self.signs[where],
            self.offsets[where],
            self.multipliers[where],
            self.inverses[:, where],
        )


@dataclass(frozen=True, slots=True)
class AveragingStep:
    """Sweeps under the averaging loss, or without labels (no tasks).

    `closed_form` is margin, variance and box of the first multipliers, which replace those of
    the block; a box of 0 keeps them.
    """

    factors: WordFactors
    alpha: Vec
    weights: Mat
    closed_form: tuple[float, float, float]
    schedule: tuple[int, int, int]

    def room(self, block: Block) -> Draws:
        """Room for the draws of a block."""
        samples = _samples(block, self.schedule, len(self.alpha))
        return Draws(*samples, block.inverses, block.inverses, np.zeros(0))

    def draw(self, block: Block, out: Draws, turns: IntVec) -> None:
        """Draw the topics of those documents of a block that nobody has taken."""
        sample_documents(
            block.bags,
            self.factors,
            self.alpha,
            Margins(self.weights, block.signs, block.multipliers.copy()),
            self.closed_form,
            block.keys,
            self.schedule,
            Samples(out.topics, out.kept, out.totals),
            turns,
        )


@dataclass(frozen=True, slots=True)
class GibbsStep:
    """Sweeps under the Gibbs loss; signs and offsets of `hinges` come with the block."""

    factors: WordFactors
    alpha: Vec
    hinges: Hinges
    schedule: tuple[int, int, int]

    def room(self, block: Block) -> Draws:
        """Room for the draws of a block."""
        samples = _samples(block, self.schedule, len(self.alpha))
        tallies = np.zeros((len(samples.kept), *samples.totals.shape))
        return Draws(*samples, tallies, block.inverses.copy(), np.zeros(0))

    def draw(self, block: Block, out: Draws, turns: IntVec) -> None:
        """Draw the topics of those documents of a block that nobody has taken."""
        sample_augmented(
            block.bags,
            self.factors,
            self.alpha,
            self.hinges._replace(signs=block.signs, offsets=block.offsets),
            block.keys,
            self.schedule,
            Samples(out.topics, out.kept, out.totals),
            out.tallies,
            out.inverses,
            turns,
        )


Step = AveragingStep | GibbsStep


def _samples(block: Block, schedule: tuple[int, int, int], n_topics: int) -> Samples:
    n_sweeps, burn_in, _ = schedule
    return Samples(
        block.topics.copy(),
        np.empty((n_sweeps - burn_in, len(block.topics)), np.uint16),
        np.zeros((len(block.keys), n_topics)),
    )


def drawn(step: Step, block: Block) -> Draws:
    """The topics of a block."""
    out = step.room(block)
    step.draw(block, out, new_turns())
    return out


def _take_part(work: tuple[Step, Block, Draws, IntVec]) -> None:
    step, block, out, turns = work
    step.draw(block, out, turns)


def _joined(parts: Sequence[Draws]) -> Draws:
    if len(parts) == 1:
        return parts[0]
    return Draws(
        np.concatenate([p.topics for p in parts]),
        np.concatenate([p.kept for p in parts], axis=1),
        np.concatenate([p.totals for p in parts]),
        np.concatenate([p.tallies for p in parts], axis=1),
        np.concatenate([p.inverses for p in parts], axis=1),
        parts[0].tables,
    )


class IndependentSampler:
    """Rounds of sweeps over a batch, each from where the last one stopped."""

    def __init__(
        self, learner: TopicLearner, state: TopicState, batch: Batch, engine: Engine
    ) -> None:
        self._learner, self._state, self._batch, self._engine = learner, state, batch, engine
        self._alpha = learner.prior.document_prior(state.tables)
        self._topics = np.zeros(int(batch.bags.starts[-1]), np.uint16)
        self._inverses = np.zeros((learner.n_kept, len(batch), 0))
        self._kept: Topics | None = None

    def draw(self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat) -> Draws:
        """The draws of round `number`, from 0, under these weights."""
        learner, batch = self._learner, self._batch
        factors, bags = self._factors()
        schedule = (learner.n_sweeps, learner.burn_in, self._start(number))
        keys = stream_keys(self._state.seed, self._state.clock, number, len(batch))
        signs, offsets = batch.targets.signs, batch.targets.values
        step: Step
        if isinstance(weights, Gaussians) and learner.loss is not None:
            hinges = hinges_of(learner.loss, weights, batch.targets, self._engine)
            signs, offsets = hinges.signs, hinges.offsets
            step = GibbsStep(factors, self._alpha, hinges, schedule)
            if number == 0:
                self._inverses = np.zeros((learner.n_kept, *signs.shape))
        else:
            mean = np.empty((0, len(self._alpha))) if weights is None else weights.mean
            step = AveragingStep(factors, self._alpha, mean, learner.closed_form(number), schedule)
        block = Block(bags, keys, self._topics, signs, offsets, multipliers, self._inverses)
        draws = self._drawn(step, block)
        self._topics, self._inverses, self._kept = draws.topics, draws.inverses, draws.kept
        return draws

    def _drawn(self, step: Step, block: Block) -> Draws:
        """The topics of a block: threads write to the same room, other workers to their own."""
        engine = self._engine
        if engine.here is not engine:
            cuts = even_cuts(block.bags, engine.n_workers)
            return _joined(engine.map(drawn, [block.cut(where) for where in cuts], step))
        out = step.room(block)
        n_calls = len(block.topics) // _FEWEST_TOKENS
        engine.here.join(_take_part, (step, block, out, new_turns()), n_calls)
        return out

    def _start(self, number: int) -> int:
        if number > 0:
            return CONTINUE
        uniform = self._learner.start == "uniform" or self._state.clock == 0
        return UNIFORM if uniform else PREDICTIVE

    def _factors(self) -> tuple[WordFactors, Bags]:
        """Word factors, and the documents with words numbered as the factors are.

        After the first round they contain what the batch has drawn, so they are made for the
        words of the batch only; digammas are, too.
        """
        learner, state, bags = self._learner, self._state, self._batch.bags
        digamma = learner.word_factor == "digamma"
        if self._kept is None and not digamma:
            return word_factors(learner, state), bags
        k = state.n_topics
        distinct, places = np.unique(bags.words, return_inverse=True)
        bags = bags._replace(words=places.astype(np.int32))
        counts, totals = state.counts[distinct, :k], state.totals[:k].copy()
        if self._kept is not None:
            weight = learner.ghosts / learner.n_kept
            tally = add_topics(bags, self._kept, weight, (0, len(distinct)), counts)
            totals += weight * tally
        totals += learner.smoothing * state.n_words
        if digamma:
            table = psi(counts + learner.smoothing) - psi(totals)
            return WordFactors(deepened(table), 0.0, np.ones(k)), bags
        return WordFactors(counts, learner.smoothing, 1.0 / totals), bags


def deepened(table: Mat) -> Mat:
    """Factors from expected logarithms (words, topics): only ratios matter, and none may vanish."""
    relative = table - table.max(axis=1, keepdims=True)
    return np.asarray(np.exp(np.maximum(relative, _DEEPEST)))


def infer(
    documents: Documents, factors: WordFactors, alpha: Vec, n_passes: int, engine: Engine
) -> Mat:
    """Topic proportions (B, K) of documents without looking at labels, deterministic."""
    bags = as_bags(documents)
    shared = (factors, alpha, n_passes)
    parts = engine.map(_infer, [cut(bags, w) for w in even_cuts(bags, engine.n_workers)], shared)
    return np.concatenate(parts) if parts else np.empty((0, len(alpha)))


def _infer(shared: tuple[WordFactors, Vec, int], bags: Bags) -> Mat:
    factors, alpha, n_passes = shared
    out = np.empty((len(bags.indptr) - 1, len(alpha)))
    infer_topics(bags, factors, alpha, n_passes, out)
    return out
