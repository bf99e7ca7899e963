"""Online Bayesian passive-aggressive learning of topics from documents that are elsewhere.

The batch is drawn where its documents are; counts come back, and the weights of the tasks are found
here. Topics that are born, and words with weights of their own, need the documents one by one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everlearn.inference.engine import Engine
from everlearn.inference.forgetting import faded
from everlearn.inference.local.chunked_topics import ChunkedBatch, ChunkedSampler, Told
from everlearn.inference.margin_step import weights_after
from everlearn.inference.objective import descent_of
from everlearn.inference.topic_model import RoundInfo, TopicLearner
from everlearn.inference.topic_state import TopicState


def learn_chunked_batch(
    learner: TopicLearner,
    state: TopicState,
    batch: ChunkedBatch,
    engine: Engine,
) -> tuple[TopicState, RoundInfo]:
    """The state after one more batch. Counts and totals of the old one are changed in place."""
    prior = faded(learner, state)
    targets = batch.targets
    sampler = ChunkedSampler(learner, prior, batch.documents, targets, engine)
    weights, multipliers, k = prior.weights, np.zeros(targets.signs.shape), prior.n_topics
    watch = descent_of(learner, prior, targets, prior.counts[:, :k])
    for number in range(learner.n_rounds):
        told = _together(sampler.draw(number, weights, multipliers))
        weights, multipliers = weights_after(
            learner, prior.weights, targets, told, told.lengths, multipliers
        )
        if watch is not None:
            assert sampler.counts is not None
            watch.follow(told, sampler.counts, prior.tables, weights)
            if watch.has_ended:
                break
    assert sampler.counts is not None
    weight = learner.ghosts / learner.n_kept
    prior.counts[:, :k] += weight * sampler.counts
    prior.totals[:k] += weight * sampler.counts.sum(axis=0)
    n = len(batch.documents)
    after = replace(prior, weights=weights, clock=prior.clock + 1)
    n_tokens = batch.documents.n_tokens
    converged = watch is None or watch.has_ended
    return after, RoundInfo(
        after.clock, n, n_tokens, after.ids, told.shares / n, number + 1, converged
    )


def _together(told: tuple[Told, ...]) -> Told:
    """What is told of all chunks, their documents in order."""
    return Told(
        np.sum([part.shares for part in told], axis=0),
        np.concatenate([part.lengths for part in told]),
        np.concatenate([part.totals for part in told]),
        np.concatenate([part.tallies for part in told], axis=1),
        np.concatenate([part.inverses for part in told], axis=1),
    )
