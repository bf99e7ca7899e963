"""`TopicModel`: topics of a stream of documents, without labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.opening import EngineChoice, local_engine, open_engine
from everlearn.estimator.params import RATE_CONSTRAINTS, Constraint, Interval, Options, check_params
from everlearn.store.schema import Schema
from everlearn.text.inputs import TextOptions, WordSpace
from everlearn.topics.batches import Targets
from everlearn.topics.checkpoint import TOPIC_MODEL_FIT
from everlearn.topics.estimator import TopicEstimator
from everlearn.topics.fit import TopicFit, check_unchanged, fit_corpus, learn_documents, start_fit
from everlearn.topics.params import TOPIC_CONSTRAINTS, SamplerOptions
from everlearn.topics.predict import topic_proportions
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import TopicSettings
from everlearn.topics.uncertainty import share_intervals

_START_TOPICS = 20
"""Topics that "infer" starts with, where the options give no number."""
_NO_TASKS = np.empty(0, np.int64)


class TopicModel(TopicEstimator[None]):
    """Online topic model: LDA, or an HDP that finds the number of topics.

    `fit` learns from a corpus, `partial_fit` from documents that need not come again. Memory
    depends on the numbers of words and topics, not on that of documents.

    Parameters
    ----------
    n_topics : int or "infer", default=50
        Number of topics of LDA, or "infer" for a hierarchical Dirichlet process. "infer" starts
        with many topics. Later batches of at least 50 documents merge those that predict words
        better as one.
    max_topics : int, default=1000
        Most topics that "infer" may have.
    batch_size : int or "all", default=256
        Documents of a batch. "all" makes one batch of each call.
    warmup_documents : int, default=2000
        The first documents get 50 sweeps, because early topics are still random. `fit` learns
        them in one batch, but for a quarter that "infer" keeps to decide about merges. 0 learns
        them like all others, as do `batch_size="all"` and Dask collections.
    n_passes : int, default=1
        Passes over the documents in `fit`. Each pass counts them once more.
    retention : float, default=1.0
        Share of the evidence of earlier batches that is left at each batch. 1 forgets nothing.
        Smaller values follow a stream that drifts.
    vocabulary : sequence or mapping of words, default=None
        The words, in the order of the columns. None takes them from the documents.
    stop_words : "auto", name of a language, collection of words or None, default=None
        Words of texts to leave out; "english" has a list. "auto" finds them in the first 100 texts
        or more, in any language: frequent words that occur in all texts at much the same rate. What
        it found, `stop_words_`, stays.
    text : TextOptions, dict or None, default=None
        How texts become words, see `TextOptions`.
    options : SamplerOptions, dict or None, default=None
        Rarely used parameters, see `SamplerOptions`.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where to compute. None uses all cores of this machine; "dask", a `distributed.Client` or
        an address ("tcp://...") a cluster. All engines give the same bits.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_topics_, n_components_ : int
        Number of topics in use.
    component_ids_ : ndarray of shape (n_topics,)
        Permanent ids of the topics.
    components_ : ndarray of shape (n_topics, n_words)
        Dirichlet parameters of the topics.
    topic_shares_ : ndarray of shape (n_topics,)
        Share of all tokens that each topic has.
    vocabulary_ : ndarray of shape (n_words,)
        The word of each column.
    n_samples_seen_, n_tokens_seen_ : int
        Documents and tokens learned from, each counted as often as it was visited.

    Examples
    --------
    >>> from everlearn import TopicModel
    >>> texts = ["cats purr and sleep", "dogs bark", "stocks fall", "stocks and bonds rise"] * 30
    >>> model = TopicModel(n_topics=2, random_state=0).fit(texts)
    >>> model.transform(["dogs sleep"]).shape
    (1, 2)
    """

    checkpoint_key: ClassVar[str] = "topic-model"
    _schema: ClassVar[Schema] = TOPIC_MODEL_FIT
    _unused_options = ("variance", "tol", "augmentation", "decision")
    _topic_word_prior = 0.02
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_topics": (Interval(1, 2**16 - 1, integer=True), Options(("infer",))),
        "max_topics": (Interval(1, 2**15, integer=True),),
        "warmup_documents": (Interval(0, integer=True),),
        **TOPIC_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        n_topics: int | str = 50,
        max_topics: int = 1000,
        batch_size: int | str = 256,
        warmup_documents: int = 2000,
        n_passes: int = 1,
        retention: float = 1.0,
        vocabulary: Any = None,
        stop_words: Any = None,
        text: TextOptions | Mapping[str, Any] | None = None,
        options: SamplerOptions | Mapping[str, Any] | None = None,
        engine: EngineChoice = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.max_topics = max_topics
        self.batch_size = batch_size
        self.warmup_documents = warmup_documents
        self.n_passes = n_passes
        self.retention = retention
        self.vocabulary = vocabulary
        self.stop_words = stop_words
        self.text = text
        self.options = options
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a corpus, and forget anything learned before.

        Parameters
        ----------
        X : documents
            Counts of shape (n_documents, n_words), dense or sparse; or a list of arrays of word
            numbers, of lists of words, or of texts. Dask arrays of counts and Dask bags of
            documents stay on their workers if the number of topics is given and counts are not
            collapsed. Otherwise the model brings them into this process.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            with self._corpus(X) as corpus:
                settings = self._settings(None)
                start = self._begin(settings, corpus.words)
                targets = Targets.none(len(corpus.documents))
                self._learned = fit_corpus(settings, start, corpus, targets)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from documents that need not come again, in the order in which they come.

        Parameters
        ----------
        X : documents
            As in `fit`. Words may be new if documents are not given as counts.
        y : None
            Ignored.

        Returns
        -------
        self
            The estimator, which has learned the documents.
        """
        with self._unchanged_on_error() as undos:
            self._check_params()
            known = self._known()
            documents, words = self._read_new(X)
            settings = self._settings(None)
            if known is None:
                start = self._begin(settings, words)
            else:
                check_unchanged(settings, known)
                start = replace(known, words=words)
            targets = Targets.none(len(documents))
            with open_engine(self.engine) as engine:
                self._learned = learn_documents(settings, start, documents, targets, engine, undos)
        return self

    def score_samples(self, X: Any) -> Vec:
        """Log-likelihood of the held-out half of each document, per word.

        The model infers topics from one half of the tokens and predicts the other half (document
        completion). The halves depend on the document alone.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        log_likelihood : ndarray of shape (n_documents,)
            Nats per word; 0 for a document with fewer than two words.
        """
        log_likelihood, n_tokens = self._completion(X)
        return np.asarray(log_likelihood / np.maximum(n_tokens, 1))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of held-out words by document completion; see `score_samples`.

        Parameters
        ----------
        X : documents
            As in `fit`.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Nats per word; larger is better.
        """
        log_likelihood, n_tokens = self._completion(X)
        return float(log_likelihood.sum() / max(1, n_tokens.sum()))

    def credible_intervals(self, X: Any, rate: float = 0.95) -> Mat:
        """Intervals that hold the share of each topic with a probability of `rate`.

        The shares are those of all words in documents like the ones in X. Topics are taken as
        known: what is uncertain is which documents come (Bayesian bootstrap).

        Parameters
        ----------
        X : documents
            As in `fit`. At least two must have words that the model knows.
        rate : float, default=0.95
            Probability that a share is inside its interval.

        Returns
        -------
        intervals : ndarray of shape (n_topics, 2)
            The lower and the upper end for each topic.
        """
        name = f"{type(self).__name__}.credible_intervals"
        check_params(name, {"rate": rate}, RATE_CONSTRAINTS)
        documents = self._read(X)
        lengths = documents.lengths
        if (lengths > 0).sum() < 2:
            raise ValueError(
                f"X of {name} must have at least two documents with words that the model knows, "
                f"because the interval comes from how they differ. Got {(lengths > 0).sum()}."
            )
        fit, settings = self._fitted(), self._current_settings()
        with open_engine(local_engine(self.engine)) as engine:
            proportions = topic_proportions(settings, fit.states[0], documents, engine)
        return share_intervals(proportions, lengths, rate, fit.states[0].seed)

    # ------------------------------------------------------------------ inner

    def _settings(self, outputs: None) -> TopicSettings:
        options = self._sampler()
        if self.n_topics == "infer":
            prior = SharedSticks(float(options.concentration), float(options.stick_prior))
            start = options.start_topics or min(_START_TOPICS, int(self.max_topics))
            common = self._common_settings(options, prior)
        else:
            alpha, start = options.doc_topic_prior, int(self.n_topics)
            fixed = FixedTopics(None if alpha is None else float(alpha))
            common = self._common_settings(options, fixed)
        return replace(
            common,
            n_topics=self.n_topics,
            start_topics=int(start),
            max_topics=int(self.max_topics),
            warmup_documents=0 if self.batch_size == "all" else int(self.warmup_documents),
            warmup_sweeps=int(options.warmup_sweeps),
        )

    def _begin(self, settings: TopicSettings, words: WordSpace) -> TopicFit[None]:
        """The fit of a new model."""
        return start_fit(settings, words, None, _NO_TASKS, self._new_seed())
