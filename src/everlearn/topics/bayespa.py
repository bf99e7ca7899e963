"""Learn one batch: draw its topics under the weights of the tasks, then add what was drawn.

This is BayesPA of Shi and Zhu, and the same without labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.engine.protocol import Engine
from everlearn.topics.batches import Batch, as_bags, renumbered
from everlearn.topics.kernels.completion import infer_words
from everlearn.topics.kernels.sampler import Bags
from everlearn.topics.kernels.words import (
    add_topics,
    score_words,
    tally_topics,
)
from everlearn.topics.objective import Descent, descent_of
from everlearn.topics.sampling import (
    CollapsedSampler,
    IndependentSampler,
    infer,
    infer_sampled,
    sampled_words,
)
from everlearn.topics.settings import RoundInfo, TopicLearner, word_factors
from everlearn.topics.state import CountBuffer, FixedSpread, Gaussians, TopicState, code_means
from everlearn.topics.steps import Draws
from everlearn.topics.structure import (
    Completion,
    JointEvidence,
    is_due,
    merged,
    settled,
    with_spares,
    without_spares,
)
from everlearn.topics.weights import weights_after


def decay(learner: TopicLearner, state: TopicState) -> TopicState:
    """Keep the share `retention` of the evidence of earlier batches, before the next one.

    This holds for counts of words, tables of the shared sticks, and the natural parameters of
    Gaussian weights, but not for priors. Changes the counts of the state given in place.
    """
    if learner.retention == 1.0 or state.clock == 0:
        return state
    CountBuffer(state).decay(learner.retention)
    weights = state.weights
    if weights is not None and learner.loss is not None:
        means = code_means(state.codes, weights.n_tasks, learner.loss.margin)
        weights = weights.decay(learner.retention, means, learner.loss.variance)
    return replace(state, tables=learner.retention * state.tables, weights=weights)


def learn_batch(
    learner: TopicLearner,
    state: TopicState,
    batch: Batch,
    engine: Engine,
    n_known: int = 0,
) -> tuple[TopicState, RoundInfo]:
    """The state after one more batch, before which `n_known` documents were learned.

    Changes the counts of the state given in place (see `CountBuffer`).
    """
    state = decay(learner, state)
    due = learner.grows and is_due(n_known, n_known + len(batch))
    if due and learner.loss is None and state.clock > 0:
        judge = Completion.of(learner, batch.documents, engine)
        state = state if judge is None else merged(learner, state, judge)
    offsets = None
    if learner.word_box > 0 and state.weights is not None:
        offsets = topic_scores(learner, state, batch.documents, state.weights.mean, engine)
    n_old = 0 if state.clock == 0 and learner.grows else state.n_topics
    prior = with_spares(learner, state, batch.targets.signs)
    sampler = _sampler(learner, prior, batch, engine)
    rounds = _inner_rounds(learner, prior, batch, sampler)
    if learner.grows:
        draws, left = settled(rounds.draws, batch.bags, n_old, prior.n_topics)
        prior, rounds = without_spares(prior, left), rounds._replace(draws=draws)
    state, info = _learn_draws(learner, prior, batch, rounds)
    if offsets is not None:
        signs, box = batch.targets.signs, learner.word_box
        words = CountBuffer(state).learn_words(batch.bags, offsets, signs, box)
        state = replace(state, words=words)
    if due and learner.anchored:
        (tallies,) = tally_topics(batch.bags, rounds.draws.topics[None], state.n_topics)
        evidence = JointEvidence.of(learner, tallies, state)
        state = merged(learner, state, evidence)
    return state, info


def _sampler(
    learner: TopicLearner, prior: TopicState, batch: Batch, engine: Engine
) -> CollapsedSampler | IndependentSampler:
    """What draws the topics of a batch."""
    if learner.collapsed:
        return CollapsedSampler(learner, prior, batch)
    return IndependentSampler(learner, prior, batch, engine)


class InnerRounds(NamedTuple):
    """What the inner rounds of a batch have drawn.

    draws : of the last round
    multipliers : of the averaging loss, before the last round
    n_rounds : how many there were
    converged : False if the objective was still falling at the last one
    """

    draws: Draws
    multipliers: Mat
    n_rounds: int
    converged: bool


def _inner_rounds(
    learner: TopicLearner,
    prior: TopicState,
    batch: Batch,
    sampler: CollapsedSampler | IndependentSampler,
) -> InnerRounds:
    """Draw topics and find the weights for them, in turn; with a tolerance, until it is met."""
    watch = _Watch.of(learner, prior, batch)
    weights, multipliers = prior.weights, np.zeros(batch.targets.signs.shape)
    for number in range(1, learner.n_rounds + 1):
        draws = sampler.draw(number - 1, weights, multipliers)
        is_last = number == learner.n_rounds
        if is_last and watch is None:
            break
        found, solved = weights_after(
            learner, prior.weights, batch.targets, draws, batch.lengths, multipliers
        )
        if watch is not None:
            watch.follow(draws, found)
            if watch.descent.has_ended or is_last:
                break
        weights, multipliers = found, solved
    converged = watch is None or watch.descent.has_ended
    return InnerRounds(draws, multipliers, number, converged)


@dataclass(frozen=True, slots=True)
class _Watch:
    """Watches the objective of a batch whose documents are here, words numbered anew."""

    descent: Descent
    bags: Bags

    @classmethod
    def of(cls, learner: TopicLearner, prior: TopicState, batch: Batch) -> _Watch | None:
        """One for a learner with a tolerance."""
        if learner.tol is None:
            return None
        words, bags = renumbered(batch.bags)
        before = prior.counts[words, : prior.n_topics]
        descent = descent_of(learner, prior, batch.targets, before)
        return None if descent is None else cls(descent, bags)

    def follow(self, draws: Draws, weights: FixedSpread | Gaussians | None) -> None:
        """Look at what a round has drawn, and at the weights that this asks for."""
        objective = self.descent.objective
        counts = np.zeros_like(objective.before)
        add_topics(self.bags, draws.kept, 1.0, counts)
        tables = objective.prior.tables + objective.learner.ghosts * draws.n_tables
        self.descent.follow(draws, counts, tables, weights)


def topic_proportions(
    learner: TopicLearner, state: TopicState, documents: Documents, engine: Engine
) -> Mat:
    """Topic proportions (B, K) of documents whose labels are not looked at."""
    alpha = learner.prior.document_prior(state.tables)
    factors = word_factors(learner, state)
    if learner.sampled:
        return infer_sampled(documents, factors, alpha, learner.passes, state.seed, engine)
    return infer(documents, factors, alpha, learner.passes, engine)


def topics_of_words(learner: TopicLearner, state: TopicState, document: Documents) -> Mat:
    """Tokens (words, K) of each word of one document in each topic; sums are its proportions."""
    alpha = learner.prior.document_prior(state.tables)
    factors = word_factors(learner, state)
    if learner.sampled:
        return sampled_words(document, factors, alpha, learner.passes, state.seed)
    return infer_words(as_bags(document), factors, alpha, learner.passes)


def decision_weights(learner: TopicLearner, state: TopicState) -> Mat:
    """Weights (Q, K) that decide about new documents: their means, or one draw of them."""
    assert state.weights is not None
    if learner.drawn_weights and isinstance(state.weights, Gaussians):
        return state.weights.draw(stream(state.seed, "sample", state.clock))
    return state.weights.mean


def topic_scores(
    learner: TopicLearner, state: TopicState, documents: Documents, weights: Mat, engine: Engine
) -> Mat:
    """Scores (B, Q) of the topics under weights (Q, K), in units of the margin."""
    assert learner.loss is not None
    z = topic_proportions(learner, state, documents, engine)
    return np.asarray(z @ weights.T / learner.loss.margin)


def scores(learner: TopicLearner, state: TopicState, documents: Documents, engine: Engine) -> Mat:
    """Scores (B, Q) of documents, in units of the margin: topics, and words if they have a term."""
    weights = decision_weights(learner, state)
    found = topic_scores(learner, state, documents, weights, engine)
    if state.words is not None:
        words = state.words
        score_words(as_bags(documents), words.n_documents, words.frequencies, words.weights, found)
    return found


def _learn_draws(
    learner: TopicLearner, prior: TopicState, batch: Batch, rounds: InnerRounds
) -> tuple[TopicState, RoundInfo]:
    """The state that has learned the draws of the last round.

    Adds to the counts of `prior` in place; after an interrupt some may be added.
    """
    draws, weight = rounds.draws, learner.ghosts / learner.n_kept
    weights, _ = weights_after(
        learner, prior.weights, batch.targets, draws, batch.lengths, rounds.multipliers
    )
    shares = (1.0 / (learner.n_kept * len(batch) * batch.lengths)) @ draws.totals
    tables = prior.tables + learner.ghosts * draws.n_tables
    state = replace(prior, tables=tables, weights=weights, clock=prior.clock + 1)
    CountBuffer(prior).add_draws(batch.bags, draws.kept, weight, draws.totals.sum(axis=0))
    info = RoundInfo(
        state.clock,
        len(batch),
        batch.n_tokens,
        state.ids,
        shares,
        rounds.n_rounds,
        rounds.converged,
    )
    return state, info
