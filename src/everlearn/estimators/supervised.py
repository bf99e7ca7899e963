"""The max-margin topic model with a fixed number of topics, `MedLDAClassifier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from everlearn.core.params import Constraint, Interval, Options
from everlearn.core.priors import FixedTopics
from everlearn.estimators.max_margin import MaxMarginClassifier
from everlearn.estimators.targets import LabelSpace
from everlearn.estimators.topic_params import (
    CLASSIFIER_CONSTRAINTS,
    TOKEN_PATTERN,
    default_rounds,
    margin_loss,
)
from everlearn.inference.topic_model import Loss, TopicLearner

_OWN_TOPICS = 10
_FEWEST_TOPICS = 10
_MOST_FOR_LABELS = 100


class MedLDAClassifier(MaxMarginClassifier):
    """Online maximum-margin topic model with a fixed number of topics (MedLDA, BayesPA).

    Topics are learned so that documents of different labels lie apart in them by a margin, and
    every batch of documents updates topics and weights once: a single pass is usually enough.

    Parameters
    ----------
    n_topics : int or None, default=None
        None is one topic a class, or two without anchors (10 at least); two a column of an
        indicator matrix (100 at most); and 10 for each task if `strategy="ovr"`.
    loss : {"averaging", "gibbs"}, default="averaging"
        "averaging": the mean weights shall meet the margins; quick. "gibbs": weights drawn from
        their posterior shall meet them on average; covariances of the weights are learned, which
        takes n_topics squared numbers for each task.
    strategy : {"shared", "ovr"}, default="shared"
        Whether all tasks share their topics, or several classes have a model each, one against
        the rest. Two classes, and an indicator matrix, are always "shared".
    margin, c, variance : float or None, default=None
        Margin that scores should have, weight of the loss, and prior variance of a weight; None
        is a default for the loss, the kind of labels and `anchors`. Multiplying `margin` by a,
        `c` by 1 / a and `variance` by a^2 changes nothing.
    anchors : bool, default=True
        Whether each topic expects documents of one class from the start. False is the plain paper,
        which is less accurate: with more than a few classes its topics collapse into one unless
        margins are met soon, as they are by its own defaults.
    word_weights : bool, default=False
        Whether words have weights of their own beside the topics, learned on what these miss.
    augmentation : {"drawn", "mean", "all"}, default="drawn"
        For `loss="gibbs"`: whether augmentation variables are drawn, or take their means; "all"
        draws the weights, too, in every round, where topics otherwise see their posterior.
    decision : {"mean", "drawn"}, default="mean"
        Whether scores are those of the mean weights or, for `loss="gibbs"` alone, of one draw of
        them, which stays the same until the model learns again.
    topic_prior : float or None, default=None
        Dirichlet parameter of a document's proportions, for each topic; None is 1 / n_topics.
    word_prior : float, default=0.1
        Dirichlet parameter of a topic over words.
    word_factor : {"ratio", "digamma", "collapsed"}, default="ratio"
        How a word's weight in a topic follows from counts.
    init : {"predictive", "uniform"}, default="predictive"
        Where topics of a batch's tokens come from before the first sweep; those of the very
        first batch are always uniform.
    batch_size : int, "all" or None, default=None
        Documents that are learned together; None is 512, or 256 for an indicator matrix and without
        anchors. "all" of a call, with many rounds, is batch MedLDA.
    n_rounds : int or None, default=None
        Rounds within a batch, after each of which topics and weights take in what was drawn; None
        is 1. Without anchors it is 3 for classes that share topics, else 2 for the averaging loss.
    tol : float or None, default=None
        Rounds end, after 20 at the least, when the objective of the batch, averaged over ten of
        them, rises or falls by no more than this share of it a round; `n_rounds` is the most then,
        None being 500. None makes all rounds. For `batch_size="all"`.
    n_sweeps, burn_in : int, default=3 and 0
        Sweeps over the tokens in each round, and how many of them do not count.
    ghosts : int, default=1
        Copies that each document stands for: a remedy for small data and many topics.
    n_passes : int, default=1
        Passes over the documents in `fit`, each of which counts them once more.
    shuffle : bool, default=True
        Whether `fit` visits documents in random order, those without any label after the others
        and not in the first batch, unless this is "all". `partial_fit` takes them as they come.
    retention : float, default=1.0
        Share of the evidence of earlier batches that is left at each batch; 1 forgets nothing.
        Less follows a stream that drifts. Weights of the averaging loss follow it anyway.
    inference : {"expected", "sampled"}, default="expected"
        Whether the topics of a document to be classified are expected ones, or drawn as in the
        paper; the draws depend on the seed and on what the document contains.
    inference_passes : int or None, default=None
        Passes over a document to be classified; None is 2 for several classes and 5 otherwise.
        Of a sampler, sweeps that are dropped, and as many that count; None is 50.
    vocabulary : sequence or mapping of words, default=None
        The words, in the order of the columns; None lets tokens and texts bring them.
    max_words : int, default=100000
        No more words are learned from tokens and texts.
    stop_words : "english", collection of words or None, default=None
        Words of texts to leave out.
    token_pattern : str
        What a word of a text is, as a regular expression.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where documents are worked on; all engines give the same bits. None uses all cores;
        "dask", a `distributed.Client` or an address ("tcp://...") a cluster.
    random_state : int, RandomState instance or None, default=None
        Determines all draws.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, or the names of the columns of an indicator matrix.
    coef_ : ndarray of shape (n_tasks, n_topics)
        Mean weights of the topics, in units of the margin.
    n_topics_, n_components_ : int
        Topics in use.
    component_ids_ : ndarray of shape (n_topics,)
        Permanent numbers of the topics.
    components_ : ndarray of shape (n_topics, n_words)
        Dirichlet parameters of the topics.
    topic_shares_ : ndarray of shape (n_topics,)
        Share of all tokens that each topic has.
    vocabulary_ : ndarray of shape (n_words,)
        The word of each column.
    n_documents_seen_, n_tokens_seen_ : int
        What was learned from.
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

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_topics": (Options((None,)), Interval(1, 2**15, integer=True)),
        "strategy": (Options(("shared", "ovr")),),
        "topic_prior": (Options((None,)), Interval(0, 1e6, low_open=True)),
        **CLASSIFIER_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        n_topics: int | None = None,
        loss: str = "averaging",
        strategy: str = "shared",
        margin: float | None = None,
        c: float | None = None,
        variance: float | None = None,
        anchors: bool = True,
        word_weights: bool = False,
        augmentation: str = "drawn",
        decision: str = "mean",
        topic_prior: float | None = None,
        word_prior: float = 0.1,
        word_factor: str = "ratio",
        init: str = "predictive",
        batch_size: int | str | None = None,
        n_rounds: int | None = None,
        tol: float | None = None,
        n_sweeps: int = 3,
        burn_in: int = 0,
        ghosts: int = 1,
        n_passes: int = 1,
        shuffle: bool = True,
        retention: float = 1.0,
        inference: str = "expected",
        inference_passes: int | None = None,
        vocabulary: Any = None,
        max_words: int = 100_000,
        stop_words: Any = None,
        token_pattern: str = TOKEN_PATTERN,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.loss = loss
        self.strategy = strategy
        self.margin = margin
        self.c = c
        self.variance = variance
        self.anchors = anchors
        self.word_weights = word_weights
        self.augmentation = augmentation
        self.decision = decision
        self.topic_prior = topic_prior
        self.word_prior = word_prior
        self.word_factor = word_factor
        self.init = init
        self.batch_size = batch_size
        self.n_rounds = n_rounds
        self.tol = tol
        self.n_sweeps = n_sweeps
        self.burn_in = burn_in
        self.ghosts = ghosts
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.retention = retention
        self.inference = inference
        self.inference_passes = inference_passes
        self.vocabulary = vocabulary
        self.max_words = max_words
        self.stop_words = stop_words
        self.token_pattern = token_pattern
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def _n_states(self, space: LabelSpace) -> int:
        own = self.strategy == "ovr" and space.kind == "multiclass"
        return space.n_tasks if own else 1

    def _start_topics(self, space: LabelSpace) -> int:
        if self.n_topics is not None:
            shared = space.kind == "multiclass" and self._n_states(space) == 1
            if shared and not self.word_weights:  # words tell apart what topics cannot
                self._check_a_topic_for_each_class("n_topics", space)
            return int(self.n_topics)
        if self._n_states(space) > 1:
            return _OWN_TOPICS
        if space.kind == "multilabel":
            return min(max(_FEWEST_TOPICS, 2 * space.n_tasks), _MOST_FOR_LABELS)
        return max(_FEWEST_TOPICS, (1 if self.anchors else 2) * space.n_tasks)

    def _loss(self, space: LabelSpace) -> Loss:
        return margin_loss(self, self._setting(space))

    def _setting(self, space: LabelSpace) -> str:
        """Which defaults fit the labels."""
        if space.kind == "multilabel":
            return "multilabel"
        own = self._n_states(space) > 1 or space.kind == "binary"
        return "own" if own else "shared"

    def _learner(self, outputs: LabelSpace, n_topics: int) -> TopicLearner:
        learner = TopicLearner(
            FixedTopics(float(self.topic_prior or 1.0 / n_topics)),
            float(self.word_prior),
            self._loss(outputs),
            n_rounds=default_rounds(self, self._setting(outputs)),
            word_box=float(self.word_weights),
        )
        return self._with_schedule(learner, self._passes(outputs))
