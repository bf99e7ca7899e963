"""Evidence of earlier batches that weighs less and less, for streams that drift."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from everlearn.attic.inference_shifts import new_turns
from everlearn.core.arrays import Mat
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.engine.protocol import Engine
from everlearn.topics.batches import Batch, as_bags, renumbered
from everlearn.topics.kernels.completion import infer_words
from everlearn.topics.kernels.sampler import Bags, Topics
from everlearn.topics.kernels.words import (
    Counting,
    add_topics,
    fade,
    learn_words,
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
from everlearn.topics.state import FixedSpread, Gaussians, TopicState, code_means
from everlearn.topics.steps import Draws, counted
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


def faded(learner: TopicLearner, state: TopicState) -> TopicState:
    """The state before the next batch; counts and totals of the one given are changed in place.

    What documents have said, beyond the prior, counts `retention` times what it did: counts of
    words, tables of the shared sticks, and the natural parameters of Gaussian weights.
    """
    if learner.retention == 1.0 or state.clock == 0:
        return state
    fade(learner.retention, state.counts, state.totals)
    weights = state.weights
    if weights is not None and learner.loss is not None:
        means = code_means(state.codes, weights.n_tasks, learner.loss.margin)
        weights = weights.faded(learner.retention, means, learner.loss.variance)
    return replace(state, tables=learner.retention * state.tables, weights=weights)


_Drawing = Callable[[Callable[[Topics], Counting]], AbstractContextManager[Draws]]
"""Draws of a batch, whose words are counted while these are looked at, and after that."""


def learn_batch(
    learner: TopicLearner,
    state: TopicState,
    batch: Batch,
    engine: Engine,
    n_known: int = 0,
) -> tuple[TopicState, RoundInfo]:
    """The state after one more batch, before which `n_known` documents were learned.

    Counts and totals of the old one are changed in place.
    """
    state = faded(learner, state)
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
    begun = _rounds(learner, prior, batch, sampler)
    drawing: _Drawing
    if begun.draws is None and isinstance(sampler, IndependentSampler) and not learner.grows:
        drawing = partial(sampler.drawn_and_counted, *begun.last)
    else:
        draws = begun.draws or sampler.draw(*begun.last)
        if learner.grows:
            draws, left = settled(draws, batch.bags, n_old, prior.n_topics)
            prior = without_spares(prior, left)
        drawing = partial(counted, draws, engine)
    state, info, draws = _absorbed(learner, prior, batch, drawing, begun)
    if offsets is not None:
        state = _with_words(learner, state, batch, offsets)
    if due and learner.anchored:
        (tallies,) = tally_topics(batch.bags, draws.topics[None], state.n_topics)
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


class _Begun(NamedTuple):
    """Rounds of a batch before the last one, which has this number and is drawn under these.

    draws : of the last round, if it is drawn already
    converged : whether it is the last because the objective falls no longer, or all were asked for
    """

    number: int
    weights: FixedSpread | Gaussians | None
    multipliers: Mat
    draws: Draws | None = None
    converged: bool = True

    @property
    def last(self) -> tuple[int, FixedSpread | Gaussians | None, Mat]:
        """What the last round is drawn by."""
        return self[:3]


def _rounds(
    learner: TopicLearner,
    prior: TopicState,
    batch: Batch,
    sampler: CollapsedSampler | IndependentSampler,
) -> _Begun:
    """All rounds but the last; with a tolerance all, up to the one that ends the descent."""
    watch = _Watch.of(learner, prior, batch)
    weights, multipliers = prior.weights, np.zeros(batch.targets.signs.shape)
    last = learner.n_rounds - 1
    for number in range(last if watch is None else learner.n_rounds):
        draws = sampler.draw(number, weights, multipliers)
        found, solved = weights_after(
            learner, prior.weights, batch.targets, draws, batch.lengths, multipliers
        )
        if watch is not None:
            watch.follow(draws, found)
            if watch.descent.has_ended or number == last:
                return _Begun(number, weights, multipliers, draws, watch.descent.has_ended)
        weights, multipliers = found, solved
    return _Begun(last, weights, multipliers)


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
        return state.weights.drawn(stream(state.seed, "sample", state.clock))
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


def _with_words(learner: TopicLearner, state: TopicState, batch: Batch, offsets: Mat) -> TopicState:
    """The state whose word weights have learned what the topics' scores leave over."""
    assert state.words is not None
    words = state.words
    n_documents = learn_words(
        batch.bags,
        offsets,
        batch.targets.signs,
        learner.word_box,
        words.n_documents,
        words.frequencies,
        words.weights,
    )
    return replace(state, words=replace(words, n_documents=n_documents))


def _absorbed(
    learner: TopicLearner,
    prior: TopicState,
    batch: Batch,
    drawing: _Drawing,
    begun: _Begun,
) -> tuple[TopicState, RoundInfo, Draws]:
    """The state that has learned what was drawn; nothing has been changed before this.

    If anything fails in here, counts may have been changed in part.
    """
    weight = learner.ghosts / learner.n_kept

    def counting(kept: Topics) -> Counting:
        return Counting(batch.bags, kept, weight, batch.runs, prior.counts, new_turns())

    with drawing(counting) as draws:
        weights, _ = weights_after(
            learner, prior.weights, batch.targets, draws, batch.lengths, begun.multipliers
        )
        shares = (1.0 / (learner.n_kept * len(batch) * batch.lengths)) @ draws.totals
        tables = prior.tables + learner.ghosts * draws.n_tables
        state = replace(prior, tables=tables, weights=weights, clock=prior.clock + 1)
        tokens = draws.totals.sum(axis=0)
    prior.totals[: len(tokens)] += weight * tokens
    n_rounds = begun.number + 1
    info = RoundInfo(
        state.clock, len(batch), batch.n_tokens, state.ids, shares, n_rounds, begun.converged
    )
    return state, info, draws
