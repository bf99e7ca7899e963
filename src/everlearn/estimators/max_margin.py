"""What max-margin topic classifiers share: tasks, scores, explanations."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from everlearn.core.arrays import Mat
from everlearn.core.codes import label_order, n_codes
from everlearn.core.documents import Documents
from everlearn.core.errors import TopicCollapseWarning
from everlearn.core.params import check_params
from everlearn.core.random import stream
from everlearn.estimators.base import named_errors
from everlearn.estimators.collapse import Watch
from everlearn.estimators.documents import WordSpace
from everlearn.estimators.explanations import Explanation, explain_label
from everlearn.estimators.label_arrays import Signs
from everlearn.estimators.persistence import Arrays, section
from everlearn.estimators.targets import (
    LABEL_KEYS,
    LabelSpace,
    checked_signs,
    label_space,
    next_label_space,
)
from everlearn.estimators.topic_attributes import Learned
from everlearn.estimators.topic_checkpoint import TopicCheckpoint
from everlearn.estimators.topic_params import COUNT
from everlearn.inference.learners.bayespa import scores
from everlearn.inference.topic_model import Loss, RoundInfo, Targets, first_state
from everlearn.inference.topic_state import Gaussians
from everlearn.runtime.engine import nearby, open_engine

_FOR_DECISIONS = {"multiclass": 2, "binary": 5, "multilabel": 5}
"""Passes over a document: few for the largest score, more for a threshold."""
_BATCH, _SMALLER_BATCH = 512, 256
"""Documents of a batch: fewer where it takes several to learn what labels mean."""


def _has_variances(estimator: Any) -> bool:
    return bool(estimator.loss == "gibbs" and not estimator.word_weights)


class MaxMarginClassifier(ClassifierMixin, TopicCheckpoint[LabelSpace]):
    """A classifier whose scores are linear in topic proportions, and topics know the labels."""

    _learned: Learned[LabelSpace]

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, or the names of the columns of an indicator matrix."""
        return self._fitted().outputs.classes

    @property
    def coef_(self) -> Mat:
        """Mean weights of the topics in units of the margin, (n_tasks, n_topics).

        If each task has its own topics, its weights for those of others are zero.
        """
        learned = self._fitted()
        loss = self._loss(learned.outputs)
        means = [state.weights.mean for state in learned.states if state.weights is not None]
        if len(means) == 1:
            return np.asarray(means[0] / loss.margin)
        widths = [mean.shape[1] for mean in means]
        coef, ends = np.zeros((len(means), sum(widths))), np.cumsum(widths)
        for q, (mean, end) in enumerate(zip(means, ends, strict=True)):
            coef[q, end - mean.shape[1] : end] = mean[0] / loss.margin
        return coef

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labelled documents, forgetting anything learned before.

        Parameters
        ----------
        X : documents
            Counts of shape (n_documents, n_words), dense or sparse; or a list of arrays of word
            numbers, of lists of words, or of texts. Dask arrays of counts and Dask bags stay on
            their workers in a `MedLDAClassifier` without `word_weights` and collapsed counts, and
            are brought here otherwise. `y` may be a Dask collection too, and is brought here.
        y : array-like of shape (n_documents,), or array-like or sparse (n_documents, n_labels)
            A class for each document, or an indicator matrix of 0 and 1 in which NaN is a missing
            label. Masked entries are missing labels too. A document without any label still
            teaches the topics.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            with self._corpus(X, y) as corpus:
                space = label_space(self, corpus.y)
                signs = checked_signs(self, space, corpus.y, len(corpus.documents))
                learned = self._begin(corpus.words, space, signs)
                self._learned = self._fit_passes(learned, corpus, self._targets(space, signs))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from documents that need not come again, in the order in which they come.

        Parameters
        ----------
        X : documents
            As in `fit`. Words may be new if documents are not given as counts.
        y : array-like of shape (n_documents,), or array-like or sparse (n_documents, n_labels)
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes that will ever come; needed at the first call unless `y` is an indicator
            matrix, for which they are the names of its columns.

        Returns
        -------
        self
            The estimator, which has learned the documents.
        """
        with self._unchanged_on_error() as undos:
            self._check_params()
            known = self._known()
            documents, words = self._documents(X, None if known is None else known.words, grow=True)
            space = next_label_space(self, None if known is None else known.outputs, y, classes)
            signs = checked_signs(self, space, y, len(documents))
            if known is None:
                learned = self._begin(words, space, signs)
            else:
                self._check_same_form(known)
                learned = self._with_words(known, words)
            self._learned = self._go_on(learned, documents, self._targets(space, signs), undos)
        return self

    # ------------------------------------------------------------------ predicting

    def decision_function(self, X: Any) -> Mat:
        """Scores of the tasks in units of the margin: topics, and words if they have weights.

        Parameters
        ----------
        X : documents
            As in `fit`; words that the model does not know are left out.

        Returns
        -------
        scores : ndarray of shape (n_documents,), or (n_documents, n_classes) unless two classes
            Positive for yes; with two classes, for the second one.
        """
        return self._fitted().outputs.shaped(self._scores(self._read(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each document, or an indicator matrix of its labels.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        y : ndarray of shape (n_documents,) or (n_documents, n_labels)
            Classes, or 0 and 1.
        """
        return self._fitted().outputs.decide(self._scores(self._read(X)))

    @available_if(_has_variances)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Mat:
        """How weights drawn from their posterior would vote; for `loss="gibbs"` without words.

        The probability that the score is positive, topic proportions being taken as they are. It
        says how sure the model is of its weights, not how often such a document has the label.
        For several classes it is the probability that the drawn classifiers say yes to this class
        alone, given that they say yes to exactly one.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        votes : ndarray of shape (n_documents, n_classes)
            Rows sum to 1, except for an indicator matrix, of which each column is a task.
        """
        standard = self._standard_scores(self._read(X))
        return self._fitted().outputs.votes(standard)

    def explain(self, x: Any, n: int = 5, label: Any = None) -> Explanation:
        """Why a document has or has not a label: label, then topics, then words, with margins.

        Parameters
        ----------
        x : document
            One text, list of words, array of word numbers or row of counts.
        n : int, default=5
            Topics, and words of each, that are told.
        label : class or name of a column, default=None
            What to ask about; None is the predicted class or, of an indicator matrix, the label
            with the largest score, which need not be predicted.

        Returns
        -------
        explanation : Explanation
            Prints as text; see its attributes. The parts of all topics and words are the score.
        """
        learned = self._fitted()
        check_params(f"{type(self).__name__}.explain", {"n": n}, COUNT)
        document, learner = self._read_one(x), self._current(learned)
        found, words = self._scores(document)[0], self.vocabulary_
        with named_errors(self, "label"):
            return explain_label(
                learner, learned.states, learned.outputs, document, words, found, label, n
            )

    # ------------------------------------------------------------------ inner

    def _size(self, n_documents: int, outputs: LabelSpace) -> int:
        if self.batch_size is None:
            return _BATCH if self.anchors and outputs.kind != "multilabel" else _SMALLER_BATCH
        return super()._size(n_documents, outputs)

    def _check_params(self) -> None:
        super()._check_params()
        if self.decision == "drawn" and self.loss != "gibbs":
            raise ValueError(
                f"the 'decision' parameter of {type(self).__name__} can be 'drawn' only if loss "
                f"is 'gibbs': other weights have no posterior. Got loss={self.loss!r}."
            )

    @abstractmethod
    def _loss(self, space: LabelSpace) -> Loss:
        """The loss, with defaults for what the parameters leave open."""

    @abstractmethod
    def _start_topics(self, space: LabelSpace) -> int:
        """Topics to start with, for each state."""

    @abstractmethod
    def _n_states(self, space: LabelSpace) -> int:
        """1, or the number of tasks if each has its own topics."""

    def _check_a_topic_for_each_class(self, parameter: str, space: LabelSpace) -> None:
        """Refuse a parameter that leaves a class without a topic to be anchored to."""
        needed, most = n_codes(space.n_tasks), int(getattr(self, parameter))
        if self.anchors and needed > most:
            raise ValueError(
                f"the {parameter!r} parameter of {type(self).__name__} must allow a topic for each "
                f"of {needed} classes unless anchors is False. Got {most} instead."
            )

    def _begin(self, words: WordSpace, space: LabelSpace, signs: Signs) -> Learned[LabelSpace]:
        """What is known before the first document."""
        seed, n_states = self._new_seed(), self._n_states(space)
        n_topics = self._start_topics(space)
        learner = self._learner(space, n_topics)
        order, rest = np.arange(space.n_tasks), 1
        if space.kind == "multilabel" and n_topics < space.n_tasks:
            order = label_order(signs)
        if n_states > 1:  # topics stand for classes here too, though only one is told apart
            order, rest = np.zeros(1, np.int64), space.n_tasks - 1
        seeds = [seed, *(int(stream(seed, "start", q).integers(2**31)) for q in range(1, n_states))]
        states = tuple(
            first_state(learner, words.n_words, n_topics, order, s, n_rest=rest) for s in seeds
        )
        return Learned(states, words, space, learner.loss)

    def _targets(self, space: LabelSpace, signs: Signs) -> Targets:
        return Targets(signs, np.full(signs.shape, self._loss(space).margin))

    def _scores(self, documents: Documents) -> Mat:
        learned = self._fitted()
        self._check_same_form(learned)
        learner = self._current(learned)
        with open_engine(nearby(self.engine)) as engine:
            return np.hstack([scores(learner, s, documents, engine) for s in learned.states])

    def _standard_scores(self, documents: Documents) -> Mat:
        """Scores in posterior standard deviations."""
        learned = self._fitted()
        self._check_same_form(learned)
        columns = []
        with open_engine(nearby(self.engine)) as engine:
            z = self._proportions(documents, engine)
        start = 0
        for state in learned.states:
            own = z[:, start : start + state.n_topics]
            start += state.n_topics
            assert isinstance(state.weights, Gaussians)
            mean, covariance = state.weights.moments()
            variances = np.einsum("bk,qkl,bl->bq", own, covariance, own)
            columns.append((own @ mean.T, variances))
        mean_scores, spread = (np.hstack(part) for part in zip(*columns, strict=True))
        if learned.outputs.kind == "multiclass":
            spread = spread.mean(axis=1, keepdims=True)
        return np.asarray(mean_scores / np.sqrt(spread))

    def _look_at(self, watch: Watch, infos: Sequence[RoundInfo], outputs: LabelSpace) -> Watch:
        watch, collapse = watch.after(infos)
        if collapse is not None:
            remedy = "other values of 'c' and 'variance'" if self.anchors else "anchors=True"
            model = f" for class {outputs.classes[collapse.model]!s}"
            warnings.warn(
                f"{type(self).__name__} has put {collapse.share:.0%} of its documents' words into "
                f"one of {collapse.n_topics} topics{model if len(infos) > 1 else ''}. "
                f"Try {remedy}.",
                TopicCollapseWarning,
                stacklevel=5,
            )
        return watch

    def _check_same_form(self, learned: Learned[LabelSpace]) -> None:
        """Refuse to go on with another form of weights than learning began with."""
        state = learned.states[0]
        loss = "gibbs" if isinstance(state.weights, Gaussians) else "averaging"
        self._check_unchanged({"loss": loss, "word_weights": state.words is not None})
        if len(learned.states) != self._n_states(learned.outputs):
            name = type(self).__name__
            raise ValueError(f"the 'strategy' parameter of {name} cannot change without a new fit.")

    def _passes(self, space: LabelSpace) -> int:
        return _FOR_DECISIONS[space.kind]

    def _n_tasks(self, outputs: LabelSpace) -> int:
        return outputs.n_tasks

    def _pack_outputs(self, outputs: LabelSpace) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, classes = outputs.pack()
        return header, {"classes": classes}

    @classmethod
    def _unpack_outputs(cls, header: Any, arrays: Arrays) -> LabelSpace:
        return LabelSpace.unpack(section(header, "outputs", LABEL_KEYS), arrays)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.poor_score = True  # on points of two features, that is, two words
        return tags
