"""Draw the topics of a batch in rounds, with fixed word counts or by collapsed Gibbs sampling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import psi

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.protocol import Engine
from everlearn.kernels.draws import stream_keys
from everlearn.topics.batches import Batch, Targets, renumber_words
from everlearn.topics.kernels.collapsed import (
    LiveCounts,
    sweep_collapsed,
    sweep_collapsed_with_hinges,
)
from everlearn.topics.kernels.hinges import Hinges
from everlearn.topics.kernels.sampler import (
    CONTINUE,
    PREDICTIVE,
    UNIFORM,
    Bags,
    WordFactors,
    count_tables,
)
from everlearn.topics.kernels.words import add_topics
from everlearn.topics.priors import SharedSticks
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, TopicState, word_factors
from everlearn.topics.steps import (
    AveragingStep,
    Block,
    Draws,
    GibbsStep,
    Step,
    draw_topics,
)
from everlearn.topics.weights import (
    first_multipliers,
    make_hinges,
    no_hinges,
    tilts,
    weight_draws,
)

_LEAST_EXPONENT = -50.0
"""Smaller exponents are raised to this one."""


def first_topics(settings: TopicSettings, state: TopicState, number: int) -> int:
    """How tokens get their topics at the beginning of round `number`, from 0."""
    if number > 0:
        return CONTINUE
    return UNIFORM if settings.init == "uniform" or state.clock == 0 else PREDICTIVE


def step_of_round(
    settings: TopicSettings,
    state: TopicState,
    number: int,
    factors: WordFactors,
    alpha: Vec,
    weights: FixedSpread | Gaussians | None,
    targets: Targets,
    engine: Engine,
) -> Step:
    """The step that draws the topics of all documents in round `number`, from 0."""
    schedule = (settings.n_sweeps, settings.burn_in, first_topics(settings, state, number))
    if isinstance(weights, Gaussians) and settings.loss is not None:
        rng = weight_draws(settings, state, number)
        hinges = make_hinges(settings.loss, weights, targets, engine, rng)
        return GibbsStep(factors, alpha, hinges, settings.first_pull, schedule)
    mean = np.empty((0, len(alpha))) if weights is None else weights.mean
    return AveragingStep(factors, alpha, mean, settings.closed_form(number), schedule)


class IndependentSampler:
    """Rounds of sweeps over a batch with word counts that are fixed during a round.

    So documents are independent, and workers share them. Each round goes on from the
    topics of the last one.
    """

    def __init__(
        self, settings: TopicSettings, state: TopicState, batch: Batch, engine: Engine
    ) -> None:
        self._settings, self._state, self._batch, self._engine = settings, state, batch, engine
        self._topics = np.empty(batch.n_tokens, np.uint16)
        self._inverses = np.zeros((settings.n_kept, len(batch), 0))
        self._draws: Draws | None = None
        self._own_words: tuple[Bags, Mat] | None = None

    def draw(self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat) -> Draws:
        """The draws of round `number`, from 0, under these weights."""
        step, block = self._prepared(number, weights, multipliers)
        draws = draw_topics(step, block, self._engine)
        self._topics, self._inverses, self._draws = draws.topics, draws.inverses, draws
        return draws

    def _prepared(
        self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat
    ) -> tuple[Step, Block]:
        """The step that draws a round, and the documents it starts from."""
        settings, batch, alpha = self._settings, self._batch, self._document_prior()
        factors, bags = self._factors()
        keys = stream_keys(self._state.seed, self._state.clock, number, len(batch))
        step = step_of_round(
            settings, self._state, number, factors, alpha, weights, batch.targets, self._engine
        )
        step = replace(step, draws_tables=settings.grows)
        signs, offsets = batch.targets.signs, batch.targets.values
        if isinstance(step, GibbsStep):
            signs, offsets = step.hinges.signs, step.hinges.offsets
            if number == 0:
                self._inverses = np.zeros((settings.n_kept, *signs.shape))
        return step, Block(bags, keys, self._topics, signs, offsets, multipliers, self._inverses)

    def _document_prior(self) -> Vec:
        """The Dirichlet parameter of each topic, given the tables of the last round."""
        tables = self._state.tables
        if self._draws is not None and self._settings.grows:
            tables = tables + self._settings.ghosts * self._draws.n_tables
        return self._settings.prior.document_prior(tables)

    def _factors(self) -> tuple[WordFactors, Bags]:
        """Word factors, and the documents with words numbered as in the factors.

        After the first round the factors contain what the batch has drawn. They are then made for
        the words of the batch only, as are digammas, because that costs time for each word.
        """
        settings, state = self._settings, self._state
        if self._draws is None and settings.word_factor != "digamma":
            return word_factors(settings, state), self._batch.bags
        k = state.n_topics
        if self._own_words is None:
            distinct, bags = renumber_words(self._batch.bags)
            self._own_words = bags, state.counts.take(distinct, axis=0)[:, :k]
        bags, before = self._own_words
        counts, totals = before.copy(), state.totals[:k].copy()
        if self._draws is not None:
            weight = settings.ghosts / settings.n_kept
            add_topics(bags, self._draws.kept, weight, counts)
            totals += weight * self._draws.totals.sum(axis=0)
        return word_factors_of(settings, counts, totals, state.n_words), bags


def word_factors_of(settings: TopicSettings, counts: Mat, totals: Vec, n_words: int) -> WordFactors:
    """`word_factors` for counts of some words (words, K), and totals (K,) of all words.

    Also for factors of digammas, the variational ones.
    """
    smoothing = settings.smoothing
    totals = totals + smoothing * n_words
    if settings.word_factor != "digamma":
        return WordFactors(counts, smoothing, 1.0 / totals)
    # Only ratios in a row matter, and none may be 0, or its topic could never be drawn.
    logs = psi(counts + smoothing) - psi(totals)
    relative = np.maximum(logs - logs.max(axis=1, keepdims=True), _LEAST_EXPONENT)
    return WordFactors(np.exp(relative), 0.0, np.ones(len(totals)))


class CollapsedSampler:
    """Rounds of collapsed Gibbs sweeps over a batch: each draw changes the word counts.

    So each document depends on the one before, and one thread draws them all. Each round goes on
    from the topics of the last one.
    """

    def __init__(self, settings: TopicSettings, state: TopicState, batch: Batch) -> None:
        self._settings, self._state, self._batch = settings, state, batch
        self._factors = word_factors(settings, state)
        n, k = len(batch), state.n_topics
        distinct, bags = renumber_words(batch.bags)
        counts = np.zeros((len(distinct), k))
        scale = self._factors.scale.copy()
        self._live = LiveCounts(bags.words.astype(np.int64), counts, 1.0 / scale, scale)
        self._streams = stream_keys(state.seed, state.clock, 0, n)
        self._topics = np.zeros(batch.n_tokens, np.uint16)
        self._tallies = np.zeros((n, k))
        self._inverses = np.zeros((n, 0))
        self._tables = np.zeros((0, k))

    def draw(self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat) -> Draws:
        """The draws of round `number`, from 0, under these weights."""
        settings, batch = self._settings, self._batch
        tilt = np.ones_like(self._tallies)
        hinges = no_hinges(len(batch), self._state.n_topics)
        if isinstance(weights, Gaussians) and settings.loss is not None:
            rng = weight_draws(settings, self._state, number)
            hinges = make_hinges(settings.loss, weights, batch.targets, rng=rng)
            if number == 0:
                self._inverses = np.zeros(hinges.signs.shape)
        if number == 0:
            first = tilts(hinges.weights, hinges.signs, settings.first_pull, batch.lengths)
            self._sweep(first, hinges, first_topics(settings, self._state, number))
        if isinstance(weights, FixedSpread) and settings.loss is not None:
            if settings.closed_form(number)[2] > 0.0:
                z = self._tallies / batch.lengths[:, None]
                multipliers = first_multipliers(
                    settings.loss, weights.mean, z, batch.targets.signs, settings.max_multiplier
                )
            tilt = tilts(weights.mean, batch.targets.signs, multipliers, batch.lengths)
        return self._sweeps(tilt, hinges)

    def _sweeps(self, tilt: Mat, hinges: Hinges) -> Draws:
        kept, tallies, inverses, tables = [], [], [], []
        for sweep in range(self._settings.n_sweeps):
            self._sweep(tilt, hinges, CONTINUE)
            if sweep >= self._settings.burn_in:
                kept.append(self._topics.copy())
                tallies.append(self._tallies.copy())
                inverses.append(self._inverses.copy())
                tables.append(self._tables)
        return Draws(
            kept[-1],
            np.stack(kept),
            np.sum(tallies, axis=0),
            np.stack(tallies),
            np.stack(inverses),
            np.sum(tables, axis=0),
        )

    def _sweep(self, tilt: Mat, hinges: Hinges, start: int) -> None:
        """Draw every token once, then the tables."""
        prior, bags, streams = self._settings.prior, self._batch.bags, self._streams
        alpha = prior.document_prior(self._state.tables + self._tables.sum(axis=0))
        live, topics, tallies = self._live, self._topics, self._tallies
        before = bags, self._factors, alpha, live, tilt
        if self._inverses.shape[1]:
            after = streams, start, topics, tallies, self._inverses
            sweep_collapsed_with_hinges(*before, hinges, *after)
        else:
            sweep_collapsed(*before, streams, start, topics, tallies)
        if isinstance(prior, SharedSticks):
            self._tables = count_tables(self._tallies, alpha, self._streams)
