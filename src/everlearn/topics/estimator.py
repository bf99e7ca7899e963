"""What all topic estimators share: `TopicEstimator`, with fitted attributes and predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents, split_documents
from everlearn.engine.opening import EngineChoice, is_collection, local_engine, open_engine
from everlearn.estimator.base import LearnerMixin
from everlearn.estimator.collections import fetch_collections
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import check_params
from everlearn.estimator.saving import SaveMixin
from everlearn.metrics.topics import completion_log_likelihood, npmi_coherence, perplexity
from everlearn.text.inputs import (
    TextOptions,
    WordSpace,
    depends_on_earlier,
    document_tags,
    documents_of,
    is_list_of_one,
    word_names,
)
from everlearn.text.ranking import RANKING_CONSTRAINTS, TopicWords
from everlearn.text.vocabulary import Vocabulary
from everlearn.topics.corpus import Corpus, open_chunks
from everlearn.topics.fit import TopicFit, check_unchanged
from everlearn.topics.params import MOST_ROUNDS, PAIRS, SamplerOptions, check_options
from everlearn.topics.predict import topic_proportions
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import topic_words

T = TypeVar("T")
_SWEEPS = 50
"""Sweeps over a new document whose topics are drawn, dropped and kept, where none are given."""


class TopicEstimator(SaveMixin, LearnerMixin, TransformerMixin, BaseEstimator, Generic[T]):
    """A topic model whose `outputs` have type T: None, labels, or the scale of numbers.

    A subclass has `fit` and `partial_fit`, and makes its settings in `_settings`.
    """

    _options: ClassVar[Mapping[str, type[ExpertOptions]]] = {
        "text": TextOptions,
        "options": SamplerOptions,
    }
    _unused_options: ClassVar[tuple[str, ...]]
    """Fields of `SamplerOptions` that mean nothing to the model."""
    _learned: TopicFit[T]
    _topic_word_prior: ClassVar[float] = 0.1
    """Prior of words where the options give none."""
    _n_sweeps: ClassVar[int] = 3
    """Sweeps of a round where the options give none."""
    batch_size: int | str | None
    n_passes: int
    retention: float
    vocabulary: Any
    stop_words: Any
    text: TextOptions | Mapping[str, Any] | None
    options: SamplerOptions | Mapping[str, Any] | None
    engine: EngineChoice
    verbose: int

    @abstractmethod
    def _settings(self, outputs: T) -> TopicSettings:
        """All parameters, for the time of one call."""

    # --------------------------------------------------------------- predictions

    def transform(self, X: Any) -> Mat:
        """Topic proportions of documents, without their labels.

        Parameters
        ----------
        X : documents
            As in `fit`. Words that the model does not know are left out.

        Returns
        -------
        proportions : ndarray of shape (n_documents, n_topics)
            Rows sum to 1; if each task has its own topics, to the number of tasks.
        """
        documents = self._read(X)
        with open_engine(local_engine(self.engine)) as engine:
            fit, settings = self._fitted(), self._current_settings()
            parts = [topic_proportions(settings, s, documents, engine) for s in fit.states]
        return np.hstack(parts)

    def coherence(self, X: Any, n: int = 10) -> Vec:
        """Normalised pointwise mutual information of the likeliest words of each topic.

        Parameters
        ----------
        X : documents
            Documents in which to count how often words occur together.
        n : int, default=10
            Number of words of each topic, the likeliest ones.

        Returns
        -------
        npmi : ndarray of shape (n_topics,)
            From -1 to 1; larger is better.
        """
        check_params(f"{type(self).__name__}.coherence", {"n": n}, PAIRS)
        return npmi_coherence(np.array(self._top(n, "probability")), self._read(X)).topics

    def perplexity(self, X: Any) -> float:
        """How many equally likely words a held-out word is as hard to guess as.

        The model infers topics from one half of a document's tokens and predicts the other half.
        If each class has its own topics, their log-likelihoods are averaged.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        perplexity : float
            Smaller is better.
        """
        log_likelihood, n_tokens = self._completion(X)
        if not n_tokens.any():
            raise ValueError(
                f"'X' of {type(self).__name__} must have a document of two words or more that "
                "the model knows, one to infer topics from and one to predict. Got none."
            )
        return perplexity(float(log_likelihood.sum()), int(n_tokens.sum()))

    def top_words(self, n: int = 10, by: str = "distinctiveness") -> list[list[Any]]:
        """The words that describe each topic best.

        Parameters
        ----------
        n : int, default=10
            Number of words.
        by : {"distinctiveness", "probability"}, default="distinctiveness"
            "distinctiveness" puts words first that a topic has often, and more often than all
            other topics. "probability" puts the likeliest words first, which are often the same
            in most topics, such as "the".

        Returns
        -------
        words : list of lists
            One list for each topic, the best word first. Words without names are numbers of
            columns.
        """
        check_params(f"{type(self).__name__}.top_words", {"n": n, "by": by}, RANKING_CONSTRAINTS)
        vocabulary = self.vocabulary_
        return [vocabulary[places].tolist() for places in self._top(n, by)]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "topic" and the permanent id.

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

    # ---------------------------------------------------------------- attributes

    @property
    def n_components_(self) -> int:
        """Number of topics in use."""
        return sum(state.n_topics for state in self._fitted().states)

    @property
    def n_topics_(self) -> int:
        """Number of topics in use. All estimators also call it `n_components_`."""
        return self.n_components_

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the topics. No id is ever used twice.

        If each task has its own topics, those of one task follow those of the task before.
        """
        return np.concatenate([state.ids for state in self._fitted().states])

    @property
    def components_(self) -> Mat:
        """Dirichlet parameters of the topics over words, (n_topics, n_words)."""
        parts = [state.counts[:, : state.n_topics].T for state in self._fitted().states]
        return np.asarray(np.concatenate(parts) + self._word_prior(self._sampler()))

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
    def stop_words_(self) -> list[str]:
        """Words that ``stop_words="auto"`` leaves out, the most frequent first; none before."""
        found = self._fitted().words.stop_words
        return [] if found is None else found.words

    @property
    def n_samples_seen_(self) -> int:
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

    # --------------------------------------------------------------------- inner

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> TopicFit[T]:
        check_is_fitted(self)
        return self._learned

    def _known(self) -> TopicFit[T] | None:
        """What was learned, if anything."""
        known: TopicFit[T] | None = getattr(self, "_learned", None)
        return known

    def _common_settings(
        self,
        options: SamplerOptions,
        prior: FixedTopics | SharedSticks,
        *,
        n_rounds: int = 1,
        inference_passes: int = 5,
    ) -> TopicSettings:
        """The settings that follow from the parameters of all topic models.

        `n_rounds` and `inference_passes` are used where the options give none.
        """
        sampled = options.inference == "sampled"
        return TopicSettings(
            prior,
            self._word_prior(options),
            word_factor=options.word_factor,
            init=options.init,
            n_rounds=int(options.n_rounds or (n_rounds if options.tol is None else MOST_ROUNDS)),
            n_sweeps=self._sweeps(options),
            burn_in=int(options.burn_in),
            tol=None if options.tol is None else float(options.tol),
            ghosts=int(options.ghosts),
            inference_passes=int(
                options.inference_passes or (_SWEEPS if sampled else inference_passes)
            ),
            sampled_inference=sampled,
            drawn_decision=options.decision == "drawn",
            retention=float(self.retention),
            name=type(self).__name__,
            batch_size=None if self.batch_size in ("all", None) else int(self.batch_size),
            n_passes=int(self.n_passes),
            shuffle=bool(options.shuffle),
            verbose=int(self.verbose),
        )

    def _current_settings(self) -> TopicSettings:
        """The settings for what was learned, unless a parameter changed that must not."""
        fit = self._fitted()
        settings = self._settings(fit.outputs)
        check_unchanged(settings, fit)
        return settings

    def _check_learned(self, learned: TopicFit[T]) -> None:
        check_unchanged(self._settings(learned.outputs), learned)

    def _check_params(self) -> None:
        super()._check_params()
        options = self._sampler()
        check_options(
            type(self).__name__,
            options,
            self._unused_options,
            n_sweeps=self._sweeps(options),
            loss=getattr(self, "loss", None),
            max_topics=getattr(self, "max_topics", None) if self._grows() else None,
        )

    def _grows(self) -> bool:
        """Whether the model finds the number of topics."""
        return bool(getattr(self, "n_topics", "infer") == "infer")

    def _sampler(self) -> SamplerOptions:
        """What the `options` parameter stands for."""
        return SamplerOptions.of(self.options, type(self).__name__)

    def _word_prior(self, options: SamplerOptions) -> float:
        """Dirichlet parameter of a topic over words."""
        return float(options.topic_word_prior or self._topic_word_prior)

    def _sweeps(self, options: SamplerOptions) -> int:
        """Sweeps of a round."""
        return int(options.n_sweeps or self._n_sweeps)

    def _read(self, X: Any) -> Documents:
        """Documents for a prediction."""
        return documents_of(self, X, self._fitted().words, grow=False)[0]

    def _read_new(self, X: Any) -> tuple[Documents, WordSpace]:
        """Documents to learn from, and all words known then."""
        known = self._known()
        return documents_of(self, X, None if known is None else known.words, grow=True)

    def _read_one(self, x: Any) -> Documents:
        """A single document for a prediction."""
        words = self._fitted().words
        if words.kind != "counts":
            return self._read(x if is_list_of_one(x, words) else [x])
        if getattr(x, "ndim", 1) != 2:
            x = x.reshape(1, -1) if sparse.issparse(x) else np.asarray(x)[None]
        documents = self._read(x)
        if len(documents) != 1:
            raise ValueError(
                f"{type(self).__name__} explains one document at a time, got {len(documents)}"
            )
        return documents

    @contextmanager
    def _corpus(self, X: Any, y: Any = None) -> Iterator[Corpus]:
        """Documents of a new `fit`, and the engine that learns them."""
        if is_collection(X) and self._learns_in_chunks():
            with open_chunks(self, X, y) as corpus:
                yield corpus
            return
        X, y = fetch_collections(self, X=X, y=y)
        documents, words = documents_of(self, X, None, grow=True)
        with open_engine(self.engine) as engine:
            yield Corpus(documents, words, engine, y)

    def _learns_in_chunks(self) -> bool:
        """Whether chunks of documents may stay on their workers.

        They may not if one document depends on another. With collapsed counts all tokens do,
        topics that are born need documents in this process to decide about merges, words' own
        weights learn from one document after the other, and so do stop words that are found, and
        rare words.
        """
        collapsed = self._sampler().word_factor == "collapsed"
        depends = self._grows() or collapsed or depends_on_earlier(self)
        return not (depends or getattr(self, "word_weights", False))

    def _completion(self, X: Any) -> tuple[Vec, IntVec]:
        """Log-likelihood and number of the held-out words of each document."""
        fit, settings = self._fitted(), self._current_settings()
        seen, held_out = split_documents(self._read(X), 0)
        found = np.zeros(len(held_out))
        with open_engine(local_engine(self.engine)) as engine:
            for state in fit.states:
                theta = topic_proportions(settings, state, seen, engine)
                phi = state.counts[: state.n_words, : state.n_topics].T + settings.smoothing
                phi /= phi.sum(axis=1, keepdims=True)
                found += completion_log_likelihood(theta, phi, held_out) / len(fit.states)
        return found, held_out.lengths

    def _top(self, n: int, by: str) -> list[IntVec]:
        """Places of the `n` words that describe each topic best."""
        prior = self._word_prior(self._sampler())
        tables = [topic_words(state, prior) for state in self._fitted().states]
        return TopicWords.joined(tables).top(n, by)

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if self.vocabulary is not None:
            params["vocabulary"] = list(Vocabulary.fixed(self.vocabulary).words)
        return params

    def __sklearn_tags__(self) -> Tags:
        return document_tags(super().__sklearn_tags__())
