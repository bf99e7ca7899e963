"""Topic models that were learned apart become one: counts add, topics are matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from everlearn.core.arrays import IntVec
from everlearn.estimator.merge_checks import check_contains, check_grown, refused, totals
from everlearn.text.inputs import WordSpace
from everlearn.text.vocabulary import Vocabulary
from everlearn.topics.settings import TopicLearner
from everlearn.topics.state import Gaussians, TopicState, code_means
from everlearn.topics.structure import word_gain


def merge_topic_models(models: Sequence[Any], base: Any) -> Any:
    """What is known from the documents of all models, those of the base counted once."""
    _check_sums(models)
    learned = [model._learned for model in models]
    old = None if base is None else base._learned
    for position, own in enumerate([] if old is None else learned):
        check_grown(position, _seen(own), _seen(old))
    every = [*learned, *([] if old is None else [old])]
    words, places = _same_words([x.words for x in every])
    learner = models[0]._current(learned[0])
    joined = []
    for q in range(len(learned[0].states)):
        states = [
            _spread(x.states[q], place, words.n_words)
            for x, place in zip(every, places, strict=True)
        ]
        joined.append(_joined(learner, states, None if old is None else states.pop()))
    return replace(
        learned[0],
        states=tuple(joined),
        words=words,
        n_documents=totals([x.n_documents for x in learned], old and old.n_documents),
        n_tokens=totals([x.n_tokens for x in learned], old and old.n_tokens),
    )


def _check_sums(models: Sequence[Any]) -> None:
    """Refuse models that do not keep sums, or sums in different units."""
    first = models[0]
    labelled = hasattr(first, "loss")
    for parameter, needed, is_sum in (
        ("n_topics", "a number", first.n_topics != "infer"),
        ("retention", "1.0", first.retention == 1.0),
        ("loss", "'gibbs'", not labelled or first.loss == "gibbs"),
        ("word_weights", "False", not getattr(first, "word_weights", False)),
    ):
        if not is_sum:
            raise refused(first, parameter, needed)
    outputs = [model._learned.outputs for model in models]
    kinds = {str(getattr(space, "kind", "")) for space in outputs}
    if len(kinds) > 1:
        raise ValueError(
            f"merge needs models of the same kind of labels. Got {' and '.join(sorted(kinds))}."
        )
    if not hasattr(first, "classes_") and any(other != outputs[0] for other in outputs):
        raise ValueError(
            f"merge needs models of {type(first).__name__} that began as copies of one: they count "
            "in mean and spread of the first numbers they saw, and these differ."
        )


def _seen(learned: Any) -> dict[str, int]:
    state = learned.states[0]
    return {
        "seed": state.seed,
        "documents": learned.n_documents,
        "tokens": learned.n_tokens,
        "batches": state.clock,
    }


def _spread(state: TopicState, place: IntVec, n_words: int) -> TopicState:
    """The state over the words of all models, without room for more topics."""
    counts = np.zeros((n_words, state.n_topics))
    counts[place] = state.counts[: len(place), : state.n_topics]
    return replace(state, counts=counts, totals=counts.sum(axis=0))


def _joined(learner: TopicLearner, states: list[TopicState], base: TopicState | None) -> TopicState:
    """The sum of the states, in each of which the base is contained."""
    first = states[0]
    if any(not np.array_equal(state.codes, first.codes) for state in states):
        raise ValueError("merge needs models whose topics are anchored to the same classes.")
    if base is None:
        states = _matched(states, learner.smoothing)
    else:
        for position, state in enumerate(states):
            check_contains(position, state.counts, base.counts, "the words of the topics")
    counts = np.maximum(totals([s.counts for s in states], base and base.counts), 0.0)
    return replace(
        first,
        counts=counts,
        totals=counts.sum(axis=0),
        weights=_weights(learner, states, base),
        clock=totals([s.clock for s in states], base and base.clock),
    )


def _weights(
    learner: TopicLearner, states: list[TopicState], base: TopicState | None
) -> Gaussians | None:
    """The sum of natural parameters; what all have in common, base or prior, counts once."""
    if learner.loss is None:
        return None
    parts: list[Any] = [state.weights for state in states]
    begun: Any = None if base is None else base.weights
    if begun is None:
        variance, codes = learner.loss.variance, states[0].codes
        means = code_means(codes, parts[0].n_tasks, learner.loss.margin)
        begun = Gaussians(np.eye(len(codes)) / variance, means / variance)
    return Gaussians(
        totals([part.precision for part in parts], begun.precision),
        totals([part.shift for part in parts], begun.shift),
    )


def _same_words(spaces: list[WordSpace]) -> tuple[WordSpace, list[IntVec]]:
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
    return replace(spaces[0], n_words=len(vocabulary), vocabulary=vocabulary), places


def _matched(states: list[TopicState], prior: float) -> list[TopicState]:
    """States whose topics are in the order of the first: each joins the one that gains most.

    Topics that are anchored join others of the same class.
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
