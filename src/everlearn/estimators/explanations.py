"""Why a document gets its label: label, then topics, then words, with their margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Vec
from everlearn.core.documents import Documents
from everlearn.inference.kernels.completion import infer_words
from everlearn.inference.kernels.word_weights import word_features
from everlearn.inference.local.topics import as_bags
from everlearn.inference.topic_model import TopicLearner, word_factors
from everlearn.inference.topic_state import TopicState


@dataclass(frozen=True, slots=True)
class TopicShare:
    """A topic's part in a score.

    topic : its permanent number
    share : of the document's tokens
    weight : of the topic for the label, in units of the margin
    words : words of the document that lie in it, with their expected numbers of tokens
    """

    topic: int
    share: float
    weight: float
    words: tuple[tuple[Any, float], ...]

    @property
    def margin(self) -> float:
        """What the topic adds to the score."""
        return self.share * self.weight


@dataclass(frozen=True, slots=True)
class Explanation:
    """A label, its score in units of the margin, and what the score is made of.

    label : the label of largest score
    score : its score; at least 1 is beyond the margin
    runner_up : the label of the second largest score and that score, None for a single task
    topics : the topics that add most to it or take most from it
    words : words with the largest weights of their own, and what they add, if words have weights
    """

    label: Any
    score: float
    runner_up: tuple[Any, float] | None
    topics: tuple[TopicShare, ...]
    words: tuple[tuple[Any, float], ...]

    def __str__(self) -> str:
        lines = [f"{self.label}: {self.score:+.2f}"]
        if self.runner_up is not None:
            lines[0] += f"  (then {self.runner_up[0]}: {self.runner_up[1]:+.2f})"
        for part in self.topics:
            words = ", ".join(f"{word} {count:.1f}" for word, count in part.words)
            lines.append(
                f"  {part.margin:+.2f} = {part.share:.0%} of topic {part.topic} "
                f"at {part.weight:+.2f}: {words}"
            )
        lines.extend(f"  {value:+.2f} from the word {word}" for word, value in self.words)
        return "\n".join(lines)


def explain_score(
    learner: TopicLearner,
    state: TopicState,
    document: Documents,
    vocabulary: NDArray[Any],
    weights: Vec,
    n: int,
) -> tuple[TopicShare, ...]:
    """The `n` topics that matter most for weights (K,) in units of the margin."""
    bags = as_bags(document)
    alpha = learner.prior.document_prior(state.tables)
    tokens = infer_words(bags, word_factors(learner, state), alpha, learner.passes)
    n_tokens = max(1.0, float(tokens.sum()))
    shares = tokens.sum(axis=0) / n_tokens if tokens.size else alpha / alpha.sum()
    order = np.argsort(-np.abs(shares * weights), kind="stable")[:n]
    found = []
    for k in order:
        places = np.argsort(-tokens[:, k], kind="stable")[:n]
        words = tuple((vocabulary[document.words[p]], float(tokens[p, k])) for p in places)
        found.append(TopicShare(int(state.ids[k]), float(shares[k]), float(weights[k]), words))
    return tuple(found)


def explain_words(
    state: TopicState, document: Documents, vocabulary: NDArray[Any], task: int, sign: float, n: int
) -> tuple[tuple[Any, float], ...]:
    """The `n` words that matter most by weights of their own, and what they add to the score."""
    if state.words is None:
        return ()
    x = word_features(as_bags(document), state.words.n_documents, state.words.frequencies)
    added = sign * x * state.words.weights[document.words, task]
    order = np.argsort(-np.abs(added), kind="stable")[:n]
    return tuple((vocabulary[document.words[p]], float(added[p])) for p in order)
