"""Max-margin topic classifiers: `MedLDAClassifier`, `MedHDPClassifier`, and what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from everlearn.core.arrays import Mat
from everlearn.core.documents import Documents
from everlearn.engine.opening import EngineChoice, local_engine, open_engine
from everlearn.estimator.base import named_errors
from everlearn.estimator.labels import (
    LabelSpace,
    Signs,
    checked_signs,
    label_space,
    next_label_space,
)
from everlearn.estimator.params import Constraint, Interval, Options, check_params
from everlearn.store.schema import Schema
from everlearn.text.inputs import TextOptions, WordSpace
from everlearn.topics.batches import Targets
from everlearn.topics.checkpoint import CLASSIFIER_FIT
from everlearn.topics.estimator import TopicEstimator
from everlearn.topics.explain import Explanation, explain_label
from everlearn.topics.fit import TopicFit, check_unchanged, fit_corpus, learn_documents, start_fit
from everlearn.topics.params import (
    CLASSIFIER_CONSTRAINTS,
    COUNT,
    SamplerOptions,
    Setting,
    default_rounds,
    default_strength,
    max_margin_loss,
)
from everlearn.topics.predict import scores, topic_proportions
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import LossKind, TopicSettings
from everlearn.topics.state import Gaussians, label_order, n_anchors

_PASSES: Final = {"multiclass": 2, "binary": 5, "multilabel": 5}
"""Passes over a new document: few for the largest score, more for a threshold."""
_BATCH, _SMALLER_BATCH = 512, 256
"""Documents of a batch: fewer where it takes several batches to learn what labels mean."""


def _has_variances(estimator: MaxMarginClassifier) -> bool:
    return estimator.loss == "gibbs" and not estimator.word_weights


class MaxMarginClassifier(ClassifierMixin, TopicEstimator[LabelSpace]):
    """A classifier by scores that are linear in topic proportions, with topics learned for it."""

    _schema: ClassVar[Schema] = CLASSIFIER_FIT
    loss: LossKind
    C: float | None
    anchors: bool
    word_weights: bool

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, or the names of the columns of an indicator matrix."""
        return self._fitted().outputs.classes

    @property
    def coef_(self) -> Mat:
        """Mean weights of the topics in units of the margin, (n_tasks, n_topics).

        If each task has its own topics, its weights for those of others are zero.
        """
        states = self._fitted().states
        means = [state.weights.mean for state in states if state.weights is not None]
        if len(means) == 1:
            return means[0].copy()
        widths = [mean.shape[1] for mean in means]
        coef, ends = np.zeros((len(means), sum(widths))), np.cumsum(widths)
        for q, (mean, end) in enumerate(zip(means, ends, strict=True)):
            coef[q, end - mean.shape[1] : end] = mean[0]
        return coef

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labelled documents, and forget anything learned before.

        Parameters
        ----------
        X : documents
            Counts of shape (n_documents, n_words), dense or sparse; or a list of arrays of word
            numbers, of lists of words, or of texts. Dask arrays of counts and Dask bags stay on
            their workers in a `MedLDAClassifier` without `word_weights` and collapsed counts.
            Other models bring them into this process, as all do with a collection `y`.
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
                settings = self._settings(space)
                start = self._begin(settings, corpus.words, space, signs)
                self._learned = fit_corpus(settings, start, corpus, _targets(signs))
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
            All classes that will ever come. The first call needs them, unless `y` is an indicator
            matrix; then they are the names of its columns, if given.

        Returns
        -------
        self
            The estimator, which has learned the documents.
        """
        with self._unchanged_on_error() as undos:
            self._check_params()
            known = self._known()
            documents, words = self._read_new(X)
            space = next_label_space(self, None if known is None else known.outputs, y, classes)
            signs = checked_signs(self, space, y, len(documents))
            settings = self._settings(space)
            if known is None:
                start = self._begin(settings, words, space, signs)
            else:
                check_unchanged(settings, known)
                start = replace(known, words=words)
            with open_engine(self.engine) as engine:
                self._learned = learn_documents(
                    settings, start, documents, _targets(signs), engine, undos
                )
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
        """Share of the votes for each class, if weights drawn from their posterior vote.

        There with `loss="gibbs"` and without `word_weights`. It is the probability that the score
        is positive, given the topic proportions. So it says how sure the model is of its weights,
        not how often such a document has the label. For several classes it is the probability that
        the drawn classifiers say yes to this class alone, given that they say yes to exactly one.

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
        """Why a document has a label or not: what its topics, and words in them, add to the score.

        Parameters
        ----------
        x : document
            One text, list of words, array of word numbers or row of counts.
        n : int, default=5
            Number of topics, and of words of each, to show.
        label : class or name of a column, default=None
            The label to explain. None is the predicted class or, for an indicator matrix, the
            label with the largest score, which need not be predicted.

        Returns
        -------
        explanation : Explanation
            Print it, or read its attributes. With all topics and words the parts add up to the
            score.
        """
        fit = self._fitted()
        check_params(f"{type(self).__name__}.explain", {"n": n}, COUNT)
        document, settings = self._read_one(x), self._current_settings()
        found, words = self._scores(document)[0], self.vocabulary_
        with named_errors(self, "label"):
            return explain_label(
                settings, fit.states, fit.outputs, document, words, found, label, n
            )

    # ------------------------------------------------------------------ inner

    @abstractmethod
    def _check_start(self, space: LabelSpace) -> None:
        """Refuse to begin if parameters do not fit the labels."""

    def _classifier_settings(
        self,
        options: SamplerOptions,
        space: LabelSpace,
        setting: Setting,
        prior: FixedTopics | SharedSticks,
        *,
        start_topics: int,
        n_models: int = 1,
    ) -> TopicSettings:
        """All parameters, for the time of one call."""
        anchors = bool(self.anchors)
        C, variance = default_strength(setting, self.loss, anchors=anchors)
        common = self._common_settings(
            options,
            prior,
            n_rounds=default_rounds(setting, self.loss, anchors=anchors),
            inference_passes=_PASSES[space.kind],
        )
        batch_size = common.batch_size
        if self.batch_size is None:
            large = anchors and space.kind != "multilabel"
            batch_size = _BATCH if large else _SMALLER_BATCH
        return replace(
            common,
            loss=max_margin_loss(
                self.loss,
                options,
                C=float(C if self.C is None else self.C),
                variance=float(options.variance or variance),
                anchored=anchors,
            ),
            max_word_multiplier=float(self.word_weights),
            start_topics=start_topics,
            n_models=n_models,
            classes=tuple(map(str, space.classes)),
            batch_size=batch_size,
        )

    def _begin(
        self, settings: TopicSettings, words: WordSpace, space: LabelSpace, signs: Signs
    ) -> TopicFit[LabelSpace]:
        """The fit of a new model."""
        self._check_start(space)
        order, n_rest = np.arange(space.n_tasks), 1
        if space.kind == "multilabel" and settings.start_topics < space.n_tasks:
            order = label_order(signs)
        if settings.n_models > 1:
            # Each model has one task, but its topics stand for all classes.
            order, n_rest = np.zeros(1, np.int64), space.n_tasks - 1
        return start_fit(settings, words, space, order, self._new_seed(), n_rest)

    def _check_a_topic_for_each_class(self, parameter: str, space: LabelSpace) -> None:
        """Refuse a parameter that leaves a class without a topic to be anchored to."""
        needed, most = n_anchors(space.n_tasks), int(getattr(self, parameter))
        if self.anchors and needed > most:
            raise ValueError(
                f"the {parameter!r} parameter of {type(self).__name__} must allow a topic for each "
                f"of {needed} classes unless anchors is False. Got {most} instead."
            )

    def _scores(self, documents: Documents) -> Mat:
        """Scores of the tasks in units of the margin."""
        fit, settings = self._fitted(), self._current_settings()
        with open_engine(local_engine(self.engine)) as engine:
            return np.hstack([scores(settings, s, documents, engine) for s in fit.states])

    def _standard_scores(self, documents: Documents) -> Mat:
        """Scores in posterior standard deviations."""
        fit, settings = self._fitted(), self._current_settings()
        columns = []
        with open_engine(local_engine(self.engine)) as engine:
            for state in fit.states:
                z = topic_proportions(settings, state, documents, engine)
                assert isinstance(state.weights, Gaussians)
                mean, covariance = state.weights.moments()
                columns.append((z @ mean.T, np.einsum("bk,qkl,bl->bq", z, covariance, z)))
        mean_scores, variances = (np.hstack(part) for part in zip(*columns, strict=True))
        if fit.outputs.kind == "multiclass":
            variances = variances.mean(axis=1, keepdims=True)
        return np.asarray(mean_scores / np.sqrt(variances))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.poor_score = True  # on points of two features, that is, two words
        return tags


class MedHDPClassifier(MaxMarginClassifier):
    """Online classifier of documents by their topics that finds the number of topics (MedHDP).

    As `MedLDAClassifier` with shared topics. Every batch gets a few empty topics: for classes that
    have none, and for others in turn. The model keeps those that its documents use. It merges
    topics of a class when one topic explains their words and documents better.

    Parameters
    ----------
    max_topics : int, default=1000
        Most topics. With anchors, each class needs a topic, and fewer topics than classes are an
        error. Of the labels of an indicator matrix, those that come first get one.
    loss, C, anchors, word_weights, batch_size, n_passes, retention
        As in `MedLDAClassifier`.
    vocabulary, stop_words, text
        As in `MedLDAClassifier`.
    options : SamplerOptions, dict or None, default=None
        As in `MedLDAClassifier`. `stick_prior` says how many topics to expect in the corpus,
        `concentration` how many in a document.
    engine, random_state, verbose
        As in `MedLDAClassifier`.

    Attributes
    ----------
    n_topics_, n_components_ : int
        Number of topics in use.
    classes_, coef_, component_ids_, components_, topic_shares_, vocabulary_
        As in `MedLDAClassifier`.
    n_samples_seen_, n_tokens_seen_, n_rounds_ : int
        Documents and tokens learned from, and rounds of the last batch.

    Examples
    --------
    >>> from everlearn import MedHDPClassifier
    >>> texts = ["cats purr", "dogs bark", "stocks fall", "bonds and stocks rise"] * 30
    >>> model = MedHDPClassifier(random_state=0).fit(texts, ["pets", "pets", "money", "money"] * 30)
    >>> model.predict(["cats bark", "bonds fall"]).tolist()
    ['pets', 'money']
    """

    checkpoint_key: ClassVar[str] = "medhdp-classifier"
    _unused_options = ("doc_topic_prior", "warmup_sweeps")
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "max_topics": (Interval(1, 2**15, integer=True),),
        **CLASSIFIER_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        max_topics: int = 1000,
        loss: LossKind = "averaging",
        C: float | None = None,
        anchors: bool = True,
        word_weights: bool = False,
        batch_size: int | str | None = None,
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
        self.max_topics = max_topics
        self.loss = loss
        self.C = C
        self.anchors = anchors
        self.word_weights = word_weights
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.retention = retention
        self.vocabulary = vocabulary
        self.stop_words = stop_words
        self.text = text
        self.options = options
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def _settings(self, outputs: LabelSpace) -> TopicSettings:
        options, most = self._sampler(), int(self.max_topics)
        prior = SharedSticks(float(options.concentration), float(options.stick_prior))
        start = options.start_topics
        if start is None:
            start = min(n_anchors(outputs.n_tasks), most)
        settings = self._classifier_settings(
            options, outputs, "hdp", prior, start_topics=int(start)
        )
        return replace(settings, max_topics=most)

    def _sweeps(self, options: SamplerOptions) -> int:
        return int(options.n_sweeps or (2 if self.anchors else 3))

    def _check_start(self, space: LabelSpace) -> None:
        if space.kind != "multilabel":
            self._check_a_topic_for_each_class("max_topics", space)


_OWN_TOPICS = 10
"""Topics of a task, if each has its own."""
_FEWEST_TOPICS, _MOST_FOR_LABELS = 10, 100
"""Topics where the user gives no number: at least, and at most for an indicator matrix."""


class MedLDAClassifier(MaxMarginClassifier):
    """Online classifier of documents by their topics, with a fixed number of topics (MedLDA).

    The model learns topics that separate the labels by a margin. Every batch of documents updates
    topics and weights once (BayesPA), so a single pass is usually enough.

    Parameters
    ----------
    n_topics : int or None, default=None
        Number of topics. None is one for each class, 10 at least; without anchors, two for each
        class. For an indicator matrix it is two for each column, from 10 to 100. With
        `strategy="ovr"` each class has 10.
    loss : {"averaging", "gibbs"}, default="averaging"
        "averaging" asks the mean weights to meet the margins, and is quick. "gibbs" asks weights
        drawn from their posterior to meet them on average, and gives `predict_proba`. It keeps
        n_topics squared numbers for each task.
    strategy : {"shared", "ovr"}, default="shared"
        "shared" has the same topics for all classes. "ovr" has a model for each class against the
        rest. Two classes and an indicator matrix are always "shared".
    C : float or None, default=None
        Weight of the hinge loss of missing a margin of 1. Larger values fit the labels harder.
        None chooses by the loss, the kind of labels and `anchors`.
    anchors : bool, default=True
        Whether each topic expects documents of one class from the start. False is the model as
        published, which is less accurate: with more than a few classes its topics may collapse
        into one.
    word_weights : bool, default=False
        Whether words have weights of their own beside the topics, learned on what these miss.
        Often more accurate, in more memory.
    batch_size : int, "all" or None, default=None
        Documents of a batch. None is 512, or 256 for an indicator matrix and without anchors.
        "all" makes one batch of each call; with many `n_rounds` (see `options`) it is batch
        MedLDA.
    n_passes : int, default=1
        Passes over the documents in `fit`. Each pass counts them once more.
    retention : float, default=1.0
        Share of the evidence of earlier batches that is left at each batch. 1 forgets nothing.
        Smaller values follow a stream that drifts. Weights of the averaging loss follow it anyway.
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
    classes_ : ndarray of shape (n_classes,)
        The classes, or the names of the columns of an indicator matrix.
    coef_ : ndarray of shape (n_tasks, n_topics)
        Mean weights of the topics, in units of the margin.
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
    n_rounds_ : int
        Rounds of the last batch; with `strategy="ovr"` the most of any class's.

    Examples
    --------
    >>> from everlearn import MedLDAClassifier
    >>> texts = ["cats purr", "dogs bark", "stocks fall", "bonds and stocks rise"] * 30
    >>> model = MedLDAClassifier(random_state=0).fit(texts, ["pets", "pets", "money", "money"] * 30)
    >>> model.predict(["cats bark", "bonds fall"]).tolist()
    ['pets', 'money']
    """

    checkpoint_key: ClassVar[str] = "medlda-classifier"
    _unused_options = ("start_topics", "concentration", "stick_prior", "warmup_sweeps")
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_topics": (Options((None,)), Interval(1, 2**15, integer=True)),
        "strategy": (Options(("shared", "ovr")),),
        **CLASSIFIER_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        n_topics: int | None = None,
        loss: LossKind = "averaging",
        strategy: str = "shared",
        C: float | None = None,
        anchors: bool = True,
        word_weights: bool = False,
        batch_size: int | str | None = None,
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
        self.loss = loss
        self.strategy = strategy
        self.C = C
        self.anchors = anchors
        self.word_weights = word_weights
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.retention = retention
        self.vocabulary = vocabulary
        self.stop_words = stop_words
        self.text = text
        self.options = options
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def _settings(self, outputs: LabelSpace) -> TopicSettings:
        options = self._sampler()
        alpha, own = options.doc_topic_prior, self._has_own_topics(outputs)
        setting: Setting = "shared"
        if outputs.kind == "multilabel":
            setting = "multilabel"
        elif own or outputs.kind == "binary":
            setting = "own"
        settings = self._classifier_settings(
            options,
            outputs,
            setting,
            FixedTopics(None if alpha is None else float(alpha)),
            start_topics=self._start_topics(outputs),
            n_models=outputs.n_tasks if own else 1,
        )
        return replace(settings, n_topics=self.n_topics)

    def _has_own_topics(self, space: LabelSpace) -> bool:
        """Whether each class has a model of its own."""
        return self.strategy == "ovr" and space.kind == "multiclass"

    def _start_topics(self, space: LabelSpace) -> int:
        if self.n_topics is not None:
            return int(self.n_topics)
        if self._has_own_topics(space):
            return _OWN_TOPICS
        if space.kind == "multilabel":
            return min(max(_FEWEST_TOPICS, 2 * space.n_tasks), _MOST_FOR_LABELS)
        return max(_FEWEST_TOPICS, (1 if self.anchors else 2) * space.n_tasks)

    def _check_start(self, space: LabelSpace) -> None:
        shared = space.kind == "multiclass" and not self._has_own_topics(space)
        # Words with weights of their own can separate classes that share a topic.
        if self.n_topics is not None and shared and not self.word_weights:
            self._check_a_topic_for_each_class("n_topics", space)


def _targets(signs: Signs) -> Targets:
    """Labels as targets with a margin of 1."""
    return Targets(signs, np.ones(signs.shape))
