"""Evidence of earlier batches that weighs less and less, for streams that drift."""

from __future__ import annotations

from dataclasses import replace

from everlearn.core.codes import code_means
from everlearn.inference.kernels.word_counts import fade
from everlearn.inference.topic_model import TopicLearner
from everlearn.inference.topic_state import TopicState


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
