"""What a topic estimator shows of what it has learned: topics, words, how much it has seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.params import check_params
from everlearn.estimators.collapse import Watch
from everlearn.estimators.documents import WordSpace, word_names
from everlearn.estimators.topic_params import COUNT
from everlearn.inference.topic_model import Loss
from everlearn.inference.topic_state import TopicState

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Learned(Generic[T]):
    """What an estimator knows.

    states : one, or one for each task if these have topics of their own
    words : what the columns stand for
    outputs : what the targets are
    loss : the one that learning began with, None without labels
    n_documents, n_tokens : learned from, each counted as often as it was visited
    n_rounds : of the last batch, in the state with most
    watch : what was seen of the last documents' topics; a file does not keep it
    """

    states: tuple[TopicState, ...]
    words: WordSpace
    outputs: T
    loss: Loss | None
    n_documents: int = 0
    n_tokens: int = 0
    n_rounds: int = 0
    watch: Watch = field(default_factory=Watch)


class TopicAttributes(Generic[T]):
    """Fitted attributes, computed from the counts when asked for."""

    _learned: Learned[T]
    word_prior: float

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> Learned[T]:
        check_is_fitted(self)
        return self._learned

    def _known(self) -> Learned[T] | None:
        known: Learned[T] | None = getattr(self, "_learned", None)
        return known

    @property
    def n_topics_(self) -> int:
        """Topics in use."""
        return sum(state.n_topics for state in self._fitted().states)

    @property
    def n_components_(self) -> int:
        """Topics in use, under the name that all estimators have for it."""
        return self.n_topics_

    @property
    def component_ids_(self) -> IntVec:
        """Permanent numbers of the topics, never used twice in the life of a model.

        If each task has its own topics, they are those of one task after the other.
        """
        return np.concatenate([state.ids for state in self._fitted().states])

    @property
    def components_(self) -> Mat:
        """Dirichlet parameters of the topics over words, (n_topics, n_words)."""
        parts = [state.counts[:, : state.n_topics].T for state in self._fitted().states]
        return np.asarray(np.concatenate(parts) + self.word_prior)

    @property
    def topic_shares_(self) -> Vec:
        """Share of all tokens that each topic has."""
        totals = np.concatenate([s.totals[: s.n_topics] for s in self._fitted().states])
        return np.asarray(totals / max(totals.sum(), 1.0))

    @property
    def vocabulary_(self) -> NDArray[Any]:
        """The word of each column, or its number if words have no names."""
        return word_names(self, self._fitted().words)

    @property
    def n_documents_seen_(self) -> int:
        """Documents learned from, each counted as often as it was visited."""
        return self._fitted().n_documents

    @property
    def n_tokens_seen_(self) -> int:
        """Tokens learned from, each counted as often as it was visited."""
        return self._fitted().n_tokens

    @property
    def n_rounds_(self) -> int:
        """Rounds of the last batch; where tasks have topics of their own, the most of any."""
        return self._fitted().n_rounds

    def top_words(self, n: int = 10) -> list[list[Any]]:
        """The likeliest words of each topic.

        Parameters
        ----------
        n : int, default=10
            How many.

        Returns
        -------
        words : list of lists
            One list a topic, the likeliest word first; numbers of columns if words have no names.
        """
        vocabulary = self.vocabulary_
        return [vocabulary[row].tolist() for row in self._top(n)]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "topic" and the permanent number.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One name for each topic.
        """
        states = self._fitted().states
        if len(states) == 1:
            return np.array([f"topic{i}" for i in states[0].ids], dtype=object)
        names = [f"task{q}_topic{i}" for q, state in enumerate(states) for i in state.ids]
        return np.array(names, dtype=object)

    def _top(self, n: int) -> IntVec:
        check_params(f"{type(self).__name__}.top_words", {"n": n}, COUNT)
        states, prior = self._fitted().states, self.word_prior
        topics = ((state, k) for state in states for k in range(state.n_topics))
        return np.array([_largest(state.counts[:, k] + prior, n) for state, k in topics])


def _largest(values: Vec, n: int) -> IntVec:
    """Places of the `n` largest values in descending order, equal ones in order of place."""
    if n < len(values):
        places = np.flatnonzero(values >= np.partition(values, -n)[-n])
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")[:n]]
