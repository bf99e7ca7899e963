"""Why a document gets its label or number: topics, then words, with what each adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Vec
from everlearn.core.documents import Documents
from everlearn.estimator.labels import LabelSpace
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels.words import word_features
from everlearn.topics.predict import decision_weights, topics_of_words
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import TopicState, topic_words


@dataclass(frozen=True, slots=True)
class TopicShare:
    """A topic's part in a score.

    topic : its permanent id
    share : of the document's tokens
    weight : of the topic for the label, in units of the margin; or for the number
    words : words of the document in the topic, first those that the topic has more often than
        others, with their numbers of tokens: expected ones, or means over the draws if topics
        are drawn
    """

    topic: int
    share: float
    weight: float
    words: tuple[tuple[Any, float], ...]

    @property
    def margin(self) -> float:
        """What the topic adds to the score, or to the number."""
        return self.share * self.weight

    def __str__(self) -> str:
        words = ", ".join(f"{word} {count:.1f}" for word, count in self.words)
        return (
            f"{self.margin:+.2f} = {self.share:.0%} of topic {self.topic} "
            f"at {self.weight:+.2f}: {words}"
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """A label, its score in units of the margin, and what the score is made of.

    label : the label that is explained
    score : its score; 1 or more is beyond the margin
    runner_up : the other label with the largest score, and that score; None for two classes
    topics : the topics that add most to the score or take most from it
    words : words that add or take most by weights of their own, and what they add
    predicted : whether the document gets the label
    """

    label: Any
    score: float
    runner_up: tuple[Any, float] | None
    topics: tuple[TopicShare, ...]
    words: tuple[tuple[Any, float], ...]
    predicted: bool = True

    def __str__(self) -> str:
        lines = [f"{self.label}: {self.score:+.2f}{'' if self.predicted else ', not predicted'}"]
        if self.runner_up is not None:
            order = "then" if self.runner_up[1] <= self.score else "after"
            lines[0] += f"  ({order} {self.runner_up[0]}: {self.runner_up[1]:+.2f})"
        lines.extend(f"  {part}" for part in self.topics)
        lines.extend(f"  {value:+.2f} from the word {word}" for word, value in self.words)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class NumberExplanation:
    """A predicted number, and what it is made of.

    number : intercept, and what the topics add to it
    intercept : the number of a document whose topics add nothing
    topics : the topics that add most to the number or take most from it
    """

    number: float
    intercept: float
    topics: tuple[TopicShare, ...]

    def __str__(self) -> str:
        lines = [f"{self.number:.2f}, from {self.intercept:.2f}"]
        return "\n".join([*lines, *(f"  {part}" for part in self.topics)])


def explain_label(
    settings: TopicSettings,
    states: Sequence[TopicState],
    space: LabelSpace,
    document: Documents,
    vocabulary: NDArray[Any],
    scores: Vec,
    label: Any,
    n: int,
) -> Explanation:
    """The parts of the score of a label; None is the label with the largest score.

    `scores` are those of the tasks, in units of the margin.
    """
    assert settings.loss is not None
    binary = space.kind == "binary"
    by_class = np.array([-scores[0], scores[0]]) if binary else scores
    best = int(by_class.argmax())
    asked = best if label is None else space.position(label)
    task, sign = (0, 2.0 * asked - 1.0) if binary else (asked, 1.0)
    own = len(states) > 1
    state, row = states[task if own else 0], 0 if own else task
    weights = sign * decision_weights(settings, state)[row]
    score, runner_up = float(by_class[asked]), None
    if not binary:
        other = int(np.where(np.arange(len(scores)) == asked, -np.inf, scores).argmax())
        runner_up = (space.classes[other], float(scores[other]))
    return Explanation(
        space.classes[asked],
        score,
        runner_up,
        explain_score(settings, state, document, vocabulary, weights, n),
        _explain_words(state, document, vocabulary, row, sign, n),
        score > 0 if space.kind == "multilabel" else asked == best,
    )


def explain_score(
    settings: TopicSettings,
    state: TopicState,
    document: Documents,
    vocabulary: NDArray[Any],
    weights: Vec,
    n: int,
) -> tuple[TopicShare, ...]:
    """The `n` topics that add or take most under weights (K,)."""
    tokens = topics_of_words(settings, state, document)
    alpha = settings.prior.document_prior(state.tables)
    shares = tokens.sum(axis=0) if tokens.size else alpha
    shares = shares / shares.sum()
    order = np.argsort(-np.abs(shares * weights), kind="stable")[:n]
    found = []
    ranked = topic_words(state, settings.smoothing, document.words)
    for k in order:
        own = tokens[:, k]
        interest = own * np.maximum(ranked.log_lifts(int(k)), 0.0)
        places = [p for p in np.lexsort((-own, -interest)) if own[p] > 0][:n]
        words = tuple((vocabulary[document.words[p]], float(tokens[p, k])) for p in places)
        found.append(TopicShare(int(state.ids[k]), float(shares[k]), float(weights[k]), words))
    return tuple(found)


def _explain_words(
    state: TopicState, document: Documents, vocabulary: NDArray[Any], task: int, sign: float, n: int
) -> tuple[tuple[Any, float], ...]:
    """The `n` words that add or take most by weights of their own, and what they add."""
    if state.words is None:
        return ()
    x = word_features(as_bags(document), state.words.n_documents, state.words.frequencies)
    added = sign * x * state.words.weights[document.words, task]
    order = np.argsort(-np.abs(added), kind="stable")[:n]
    return tuple((vocabulary[document.words[p]], float(added[p])) for p in order)
