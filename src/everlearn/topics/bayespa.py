"""Learn one batch: draw its topics under the weights of the tasks, and add the draws to the counts.

This is BayesPA of Shi and Zhu, and the same without labels. `learn_batch` does, in this order:
decay old evidence, merge topics (without labels), add spare topics, draw topics and weights in
rounds, drop empty topics, add the draws to the counts, and merge topics (with labels).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.engine.protocol import Engine
from everlearn.topics.batches import Batch, BatchInfo, renumber_words
from everlearn.topics.births import add_spare_topics, drop_empty_topics, select_topics
from everlearn.topics.kernels.words import add_topics, tally_topics
from everlearn.topics.merges import Completion, JointEvidence, merge_is_due, merge_topics
from everlearn.topics.objective import monitor_of
from everlearn.topics.predict import topic_scores
from everlearn.topics.sampling import CollapsedSampler, IndependentSampler
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import CountBuffer, TopicState, anchor_means
from everlearn.topics.steps import Draws
from everlearn.topics.weights import update_weights


def decay(settings: TopicSettings, state: TopicState) -> TopicState:
    """Keep the share `retention` of the evidence of earlier batches, before the next one.

    This holds for counts of words, tables of the shared sticks, and the natural parameters of
    Gaussian weights, but not for priors. Changes the counts of the state given in place.
    """
    if settings.retention == 1.0 or state.clock == 0:
        return state
    CountBuffer(state).decay(settings.retention)
    weights = state.weights
    if weights is not None and settings.loss is not None:
        means = anchor_means(state.codes, weights.n_tasks, settings.loss.margin)
        weights = weights.decay(settings.retention, means, settings.loss.variance)
    return replace(state, tables=settings.retention * state.tables, weights=weights)


def learn_batch(
    settings: TopicSettings,
    state: TopicState,
    batch: Batch,
    engine: Engine,
    n_known: int = 0,
) -> tuple[TopicState, BatchInfo]:
    """The state after one more batch, before which `n_known` documents were learned.

    Changes the counts of the state given in place (see `CountBuffer`).
    """
    state = decay(settings, state)
    due = settings.grows and merge_is_due(n_known, n_known + len(batch))
    if due and settings.loss is None and state.clock > 0:
        judge = Completion.of(settings, batch.documents, engine)
        state = state if judge is None else merge_topics(settings, state, judge)
    offsets = None  # taken before learning, so that words learn what unseen documents would miss
    if settings.max_word_multiplier > 0 and state.weights is not None:
        offsets = topic_scores(settings, state, batch.documents, state.weights.mean, engine)
    # All topics of a new model may be dropped if they stay empty, later only the spare ones.
    n_old = 0 if state.clock == 0 and settings.grows else state.n_topics
    prior = add_spare_topics(settings, state, batch.targets.signs)
    sampler = (
        CollapsedSampler(settings, prior, batch)
        if settings.collapsed
        else IndependentSampler(settings, prior, batch, engine)
    )
    rounds = _inner_rounds(settings, prior, batch, sampler)
    if settings.grows:
        draws, left = drop_empty_topics(rounds.draws, batch.bags, n_old, prior.n_topics)
        prior, rounds = select_topics(prior, left), rounds._replace(draws=draws)
    state, info = _learn_draws(settings, prior, batch, rounds)
    if offsets is not None:
        signs, max_multiplier = batch.targets.signs, settings.max_word_multiplier
        words = CountBuffer(state).learn_words(batch.bags, offsets, signs, max_multiplier)
        state = replace(state, words=words)
    if due and settings.anchored:
        (tallies,) = tally_topics(batch.bags, rounds.draws.topics[None], state.n_topics)
        evidence = JointEvidence.of(settings, tallies, state)
        state = merge_topics(settings, state, evidence)
    return state, info


class InnerRounds(NamedTuple):
    """What the inner rounds of a batch have drawn.

    draws : of the last round
    multipliers : of the averaging loss, before the last round
    n_rounds : number of rounds
    converged : False if the objective was still falling in the last round
    """

    draws: Draws
    multipliers: Mat
    n_rounds: int
    converged: bool


def _inner_rounds(
    settings: TopicSettings,
    prior: TopicState,
    batch: Batch,
    sampler: CollapsedSampler | IndependentSampler,
) -> InnerRounds:
    """Draw topics and find the weights for them in turn; with a tolerance, until it is met."""
    monitor, bags = None, batch.bags
    if settings.tol is not None:
        words, bags = renumber_words(batch.bags)
        before = prior.counts[words, : prior.n_topics]
        monitor = monitor_of(settings, prior, batch.targets, before)
    weights, multipliers = prior.weights, np.zeros(batch.targets.signs.shape)
    for number in range(1, settings.n_rounds + 1):
        draws = sampler.draw(number - 1, weights, multipliers)
        is_last = number == settings.n_rounds
        if is_last and monitor is None:
            break
        found, solved = update_weights(
            settings, prior.weights, batch.targets, draws, batch.lengths, multipliers
        )
        if monitor is not None:
            counts = np.zeros_like(monitor.objective.before)
            add_topics(bags, draws.kept, 1.0, counts)
            tables = prior.tables + settings.ghosts * draws.n_tables
            monitor.record(draws, counts, tables, found)
            if monitor.has_converged or is_last:
                break
        weights, multipliers = found, solved
    converged = monitor is None or monitor.has_converged
    return InnerRounds(draws, multipliers, number, converged)


def _learn_draws(
    settings: TopicSettings, prior: TopicState, batch: Batch, rounds: InnerRounds
) -> tuple[TopicState, BatchInfo]:
    """The state that has learned the draws of the last round.

    Adds to the counts of `prior` in place; after an interrupt some may be added.
    """
    draws, weight = rounds.draws, settings.ghosts / settings.n_kept
    weights, _ = update_weights(
        settings, prior.weights, batch.targets, draws, batch.lengths, rounds.multipliers
    )
    shares = (1.0 / (settings.n_kept * len(batch) * batch.lengths)) @ draws.totals
    tables = prior.tables + settings.ghosts * draws.n_tables
    state = replace(prior, tables=tables, weights=weights, clock=prior.clock + 1)
    CountBuffer(prior).add_draws(batch.bags, draws.kept, weight, draws.totals.sum(axis=0))
    info = BatchInfo(
        state.clock,
        len(batch),
        batch.n_tokens,
        state.ids,
        shares,
        rounds.n_rounds,
        rounds.converged,
    )
    return state, info
