"""Local steps of topic models whose word counts stand still: documents are independent.

An engine shares the documents of a batch out; the draws do not depend on how.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from scipy.special import psi

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.inference.engine import Engine
from everlearn.inference.kernels.completion import infer_topics
from everlearn.inference.kernels.draws import stream_keys
from everlearn.inference.kernels.topics import (
    CONTINUE,
    PREDICTIVE,
    UNIFORM,
    Bags,
    Topics,
    WordFactors,
)
from everlearn.inference.kernels.word_counts import Counting, add_topics
from everlearn.inference.local.topic_batches import Batch, as_bags, renumbered
from everlearn.inference.local.topic_steps import (
    AveragingStep,
    Block,
    Draws,
    GibbsStep,
    Step,
    cut,
    drawn_and_counted,
    drawn_by,
    even_cuts,
)
from everlearn.inference.margin_step import hinges_of
from everlearn.inference.topic_model import TopicLearner, word_factors
from everlearn.inference.topic_state import FixedSpread, Gaussians, TopicState

_DEEPEST = -50.0


class IndependentSampler:
    """Rounds of sweeps over a batch, each from where the last one stopped."""

    def __init__(
        self, learner: TopicLearner, state: TopicState, batch: Batch, engine: Engine
    ) -> None:
        self._learner, self._state, self._batch, self._engine = learner, state, batch, engine
        self._topics = np.empty(batch.n_tokens, np.uint16)
        self._inverses = np.zeros((learner.n_kept, len(batch), 0))
        self._draws: Draws | None = None
        self._own_words: tuple[Bags, Mat] | None = None

    def draw(self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat) -> Draws:
        """The draws of round `number`, from 0, under these weights."""
        step, block = self._prepared(number, weights, multipliers)
        draws = drawn_by(self._engine, step, block)
        self._topics, self._inverses, self._draws = draws.topics, draws.inverses, draws
        return draws

    def drawn_and_counted(
        self,
        number: int,
        weights: FixedSpread | Gaussians | None,
        multipliers: Mat,
        counting: Callable[[Topics], Counting],
    ) -> AbstractContextManager[Draws]:
        """The draws of the last round, whose words are counted while these are looked at."""
        step, block = self._prepared(number, weights, multipliers)
        return drawn_and_counted(step, block, self._engine, counting, self._batch.ahead)

    def _prepared(
        self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat
    ) -> tuple[Step, Block]:
        """What draws a round, and from what."""
        learner, batch, alpha = self._learner, self._batch, self._document_prior()
        factors, bags = self._factors()
        schedule = (learner.n_sweeps, learner.burn_in, self._start(number))
        keys = stream_keys(self._state.seed, self._state.clock, number, len(batch))
        signs, offsets = batch.targets.signs, batch.targets.values
        step: Step
        if isinstance(weights, Gaussians) and learner.loss is not None:
            rng = learner.weight_draws(self._state, number)
            hinges = hinges_of(learner.loss, weights, batch.targets, self._engine, rng)
            signs, offsets = hinges.signs, hinges.offsets
            pull = learner.first_pull
            step = GibbsStep(factors, alpha, hinges, pull, schedule, learner.grows)
            if number == 0:
                self._inverses = np.zeros((learner.n_kept, *signs.shape))
        else:
            mean = np.empty((0, len(alpha))) if weights is None else weights.mean
            first = learner.closed_form(number)
            step = AveragingStep(factors, alpha, mean, first, schedule, learner.grows)
        return step, Block(bags, keys, self._topics, signs, offsets, multipliers, self._inverses)

    def _document_prior(self) -> Vec:
        """The Dirichlet parameter of each topic, given the tables of the last round."""
        tables = self._state.tables
        if self._draws is not None and self._learner.grows:
            tables = tables + self._learner.ghosts * self._draws.n_tables
        return self._learner.prior.document_prior(tables)

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
        learner, state = self._learner, self._state
        digamma = learner.word_factor == "digamma"
        if self._draws is None and not digamma:
            return word_factors(learner, state), self._batch.bags
        k = state.n_topics
        if self._own_words is None:
            distinct, bags = renumbered(self._batch.bags)
            self._own_words = bags, state.counts.take(distinct, axis=0)[:, :k]
        bags, before = self._own_words
        counts, totals = before.copy(), state.totals[:k].copy()
        if self._draws is not None:
            weight = learner.ghosts / learner.n_kept
            add_topics(bags, self._draws.kept, weight, counts)
            totals += weight * self._draws.totals.sum(axis=0)
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
