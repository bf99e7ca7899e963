"""Merge topic models that were learned apart: counts add up, topics are matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from everlearn.core.arrays import IntVec
from everlearn.estimator.merge_checks import check_contains, check_grown, refused, totals
from everlearn.text.inputs import WordSpace
from everlearn.text.stop_words import StopWords
from everlearn.text.vocabulary import Vocabulary
from everlearn.topics.estimator import TopicEstimator
from everlearn.topics.fit import TopicFit
from everlearn.topics.merges import word_gain
from everlearn.topics.scale import Scale
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import Gaussians, TopicState, anchor_means


def merge_topic_models(
    models: Sequence[TopicEstimator[Any]], base: TopicEstimator[Any] | None
) -> TopicFit[Any]:
    """The fit of the merged model. Documents of the base count once."""
    _check_sums(models)
    fits = [model._learned for model in models]
    old = None if base is None else base._learned
    if old is not None:
        for position, fit in enumerate(fits):
            check_grown(position, _sizes(fit), _sizes(old))
    every = [*fits, *([] if old is None else [old])]
    words, places = _shared_words([fit.words for fit in every])
    settings = models[0]._current_settings()
    merged = []
    for q in range(len(fits[0].states)):
        states = [
            _with_words(fit.states[q], place, words.n_words)
            for fit, place in zip(every, places, strict=True)
        ]
        merged.append(_merge_states(settings, states, None if old is None else states.pop()))
    return replace(
        fits[0],
        states=tuple(merged),
        words=words,
        n_documents=totals([fit.n_documents for fit in fits], old and old.n_documents),
        n_tokens=totals([fit.n_tokens for fit in fits], old and old.n_tokens),
    )


def _check_sums(models: Sequence[TopicEstimator[Any]]) -> None:
    """Refuse models that do not keep sums, or sums in different units."""
    first, settings = models[0], models[0]._current_settings()
    for parameter, needed, is_sum in (
        ("n_topics", "a number", not settings.grows),
        ("retention", "1.0", settings.retention == 1.0),
        ("loss", "'gibbs'", settings.loss is None or settings.loss.kind == "gibbs"),
        ("word_weights", "False", settings.max_word_multiplier == 0.0),
    ):
        if not is_sum:
            raise refused(first, parameter, needed)
    outputs = [model._learned.outputs for model in models]
    kinds = {str(getattr(space, "kind", "")) for space in outputs}
    if len(kinds) > 1:
        raise ValueError(
            f"merge needs models of the same kind of labels. Got {' and '.join(sorted(kinds))}."
        )
    if isinstance(outputs[0], Scale) and any(other != outputs[0] for other in outputs):
        raise ValueError(
            f"merge needs models of {type(first).__name__} that began as copies of one: they count "
            "in mean and spread of the first numbers they saw, and these differ."
        )


def _sizes(fit: TopicFit[Any]) -> dict[str, int]:
    """Seed and sizes by which a model is known to have grown from another one."""
    return {
        "seed": fit.seed,
        "documents": fit.n_documents,
        "tokens": fit.n_tokens,
        "batches": fit.states[0].clock,
    }


def _with_words(state: TopicState, place: IntVec, n_words: int) -> TopicState:
    """The state over the words of all models, without room for more topics."""
    counts = np.zeros((n_words, state.n_topics))
    counts[place] = state.counts[: len(place), : state.n_topics]
    return replace(state, counts=counts, totals=counts.sum(axis=0))


def _merge_states(
    settings: TopicSettings, states: list[TopicState], base: TopicState | None
) -> TopicState:
    """The sum of the states, each of which contains the base."""
    first = states[0]
    if any(not np.array_equal(state.codes, first.codes) for state in states):
        raise ValueError("merge needs models whose topics are anchored to the same classes.")
    if base is None:
        states = _match_topics(states, settings.smoothing)
    else:
        for position, state in enumerate(states):
            check_contains(position, state.counts, base.counts, "the words of the topics")
    counts = np.maximum(totals([s.counts for s in states], base and base.counts), 0.0)
    return replace(
        first,
        counts=counts,
        totals=counts.sum(axis=0),
        weights=_merge_weights(settings, states, base),
        clock=totals([s.clock for s in states], base and base.clock),
    )


def _merge_weights(
    settings: TopicSettings, states: list[TopicState], base: TopicState | None
) -> Gaussians | None:
    """The sum of natural parameters, in which the common part (base or prior) counts once."""
    if settings.loss is None:
        return None
    parts = [state.weights for state in states if isinstance(state.weights, Gaussians)]
    begun = None if base is None else base.weights
    if not isinstance(begun, Gaussians):
        variance, codes = settings.loss.variance, states[0].codes
        means = anchor_means(codes, parts[0].n_tasks, settings.loss.margin)
        prior = np.broadcast_to(np.eye(len(codes)) / variance, parts[0].precision.shape)
        begun = Gaussians(prior, means / variance)
    return Gaussians(
        totals([part.precision for part in parts], begun.precision),
        totals([part.shift for part in parts], begun.shift),
    )


def _shared_words(spaces: list[WordSpace]) -> tuple[WordSpace, list[IntVec]]:
    """One word space, and the place of each word of every model in it."""
    if len({space.kind for space in spaces}) > 1:
        raise ValueError(
            f"merge needs models of the same kind of documents. Got {[s.kind for s in spaces]}."
        )
    vocabulary: Vocabulary | None = spaces[0].vocabulary
    places: list[IntVec] = [np.arange(space.n_words) for space in spaces]
    if vocabulary is None:
        return replace(spaces[0], n_words=max(s.n_words for s in spaces)), places
    for i, space in enumerate(spaces):
        own = [] if space.vocabulary is None else space.vocabulary.words
        vocabulary, _ = vocabulary.encode([own])
        if any(word not in vocabulary.columns for word in own):
            raise ValueError(
                "merge cannot join vocabularies of more than "
                f"max_features={vocabulary.max_features} words."
            )
        places[i] = np.array([vocabulary.columns[word] for word in own], np.int64)
    found = [space.stop_words for space in spaces if space.stop_words is not None]
    stop_words = StopWords.joined(found) if found else None
    return WordSpace(spaces[0].kind, len(vocabulary), vocabulary, stop_words), places


def _match_topics(states: list[TopicState], prior: float) -> list[TopicState]:
    """The states with their topics in the order of the first one's that they match best.

    An anchored topic matches topics of the same class only.
    """
    first, whole, found = states[0], states[0].counts, [states[0]]
    for state in states[1:]:
        gains = np.full((len(first.codes), len(state.codes)), -np.inf)
        for i, j in np.argwhere(first.codes[:, None] == state.codes).tolist():
            gains[i, j] = word_gain(whole[:, i], state.counts[:, j], prior)
        order = linear_sum_assignment(gains, maximize=True)[1]
        weights = None if state.weights is None else state.weights.select(order)
        found.append(replace(state, counts=state.counts[:, order], weights=weights))
        whole = whole + found[-1].counts
    return found
