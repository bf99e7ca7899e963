"""Predict topics and scores of new documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.engine.protocol import Engine
from everlearn.kernels.draws import Words, content_keys
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels.completion import infer_topics, infer_words
from everlearn.topics.kernels.sampler import (
    PREDICTIVE,
    Bags,
    Margins,
    Samples,
    WordFactors,
    sample_documents,
)
from everlearn.topics.kernels.words import score_words
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import Gaussians, TopicState, word_factors
from everlearn.topics.steps import cut, even_runs

_BLOCK_TOKENS = 20_000
"""Tokens of a block of documents. Smaller blocks keep fewer draws in memory."""


def topic_proportions(
    settings: TopicSettings, state: TopicState, documents: Documents, engine: Engine
) -> Mat:
    """Topic proportions (B, K) of documents."""
    alpha = settings.prior.document_prior(state.tables)
    factors = word_factors(settings, state)
    if settings.sampled_inference:
        return infer_sampled(
            documents, factors, alpha, settings.inference_passes, state.seed, engine
        )
    return infer_expected(documents, factors, alpha, settings.inference_passes, engine)


def topics_of_words(settings: TopicSettings, state: TopicState, document: Documents) -> Mat:
    """Expected tokens (words, K) of each word of a document in each topic.

    They add up to the topic proportions of the document.
    """
    alpha = settings.prior.document_prior(state.tables)
    factors = word_factors(settings, state)
    if settings.sampled_inference:
        return sampled_words(document, factors, alpha, settings.inference_passes, state.seed)
    return infer_words(as_bags(document), factors, alpha, settings.inference_passes)


def decision_weights(settings: TopicSettings, state: TopicState) -> Mat:
    """Weights (Q, K) for new documents: their means, or one draw of them."""
    assert state.weights is not None
    if settings.drawn_decision and isinstance(state.weights, Gaussians):
        return state.weights.draw(stream(state.seed, "sample", state.clock))
    return state.weights.mean


def topic_scores(
    settings: TopicSettings, state: TopicState, documents: Documents, weights: Mat, engine: Engine
) -> Mat:
    """Scores (B, Q) of the topics under weights (Q, K), in units of the margin."""
    assert settings.loss is not None
    z = topic_proportions(settings, state, documents, engine)
    return np.asarray(z @ weights.T / settings.loss.margin)


def scores(settings: TopicSettings, state: TopicState, documents: Documents, engine: Engine) -> Mat:
    """Scores (B, Q) of topics, and of words with weights of their own, in units of the margin."""
    weights = decision_weights(settings, state)
    found = topic_scores(settings, state, documents, weights, engine)
    if state.words is not None:
        words = state.words
        score_words(as_bags(documents), words.n_documents, words.frequencies, words.weights, found)
    return found


def infer_expected(
    documents: Documents, factors: WordFactors, alpha: Vec, n_passes: int, engine: Engine
) -> Mat:
    """Expected topic proportions (B, K)."""
    bags = as_bags(documents)
    shared = (factors, alpha, n_passes)
    parts = engine.map(
        _expected_block, [cut(bags, w) for w in even_runs(bags, engine.n_workers)], shared
    )
    return np.concatenate(parts) if parts else np.empty((0, len(alpha)))


def _expected_block(shared: tuple[WordFactors, Vec, int], bags: Bags) -> Mat:
    factors, alpha, n_passes = shared
    out = np.empty((len(bags.indptr) - 1, len(alpha)))
    infer_topics(bags, factors, alpha, n_passes, out)
    return out


class _Inference(NamedTuple):
    """The parameters that all documents share when their topics are drawn."""

    factors: WordFactors
    alpha: Vec
    n_sweeps: int


def infer_sampled(
    documents: Documents, factors: WordFactors, alpha: Vec, n_sweeps: int, seed: int, engine: Engine
) -> Mat:
    """Topic proportions (B, K), averaged over `n_sweeps` sweeps after a burn-in of as many.

    The draws of a document depend only on the seed and on its words.
    """
    bags = as_bags(documents)
    keys = content_keys(seed, bags.indptr, bags.words, bags.counts)
    parts = even_runs(bags, max(engine.n_workers, int(bags.starts[-1]) // _BLOCK_TOKENS))
    blocks = [(cut(bags, where), keys[where]) for where in parts]
    found = engine.map(_sampled_block, blocks, _Inference(factors, alpha, n_sweeps))
    return np.concatenate(found) if found else np.empty((0, len(alpha)))


def sampled_words(
    document: Documents, factors: WordFactors, alpha: Vec, n_sweeps: int, seed: int
) -> Mat:
    """As `topics_of_words`, from the same draws as `infer_sampled`."""
    bags = as_bags(document)
    keys = content_keys(seed, bags.indptr, bags.words, bags.counts)
    kept = _draws(_Inference(factors, alpha, n_sweeps), bags, keys).kept
    tokens = np.zeros((len(bags.words), len(alpha)))
    places = np.repeat(np.arange(len(bags.words)), bags.counts)
    np.add.at(tokens, (np.broadcast_to(places, kept.shape), kept), 1.0)
    return tokens / n_sweeps


def _sampled_block(inference: _Inference, block: tuple[Bags, Words]) -> Mat:
    bags, keys = block
    totals = _draws(inference, bags, keys).totals
    totals[bags.starts[1:] == bags.starts[:-1]] = inference.alpha
    return np.asarray(totals / totals.sum(axis=1, keepdims=True))


def _draws(inference: _Inference, bags: Bags, keys: Words) -> Samples:
    factors, alpha, n_sweeps = inference
    n, n_tokens, k = len(keys), int(bags.starts[-1]), len(alpha)
    out = Samples(
        np.zeros(n_tokens, np.uint16),
        np.empty((n_sweeps, n_tokens), np.uint16),
        np.zeros((n, k)),
        np.zeros((0, k)),
    )
    margins = Margins(np.empty((0, k)), np.zeros((n, 0), np.int8), np.zeros((n, 0)))
    schedule = (2 * n_sweeps, n_sweeps, PREDICTIVE)
    sample_documents(bags, factors, alpha, margins, (0.0, 1.0, 0.0), keys, schedule, out)
    return out
