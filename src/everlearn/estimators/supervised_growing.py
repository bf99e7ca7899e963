"""The max-margin topic model that finds its number of topics, `MedHDPClassifier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from everlearn.core.codes import n_codes
from everlearn.core.params import Constraint, Interval, Options
from everlearn.core.priors import SharedSticks
from everlearn.estimators.max_margin import MaxMarginClassifier
from everlearn.estimators.targets import LabelSpace
from everlearn.estimators.topic_params import (
    CLASSIFIER_CONSTRAINTS,
    TOKEN_PATTERN,
    check_start,
    default_rounds,
    margin_loss,
)
from everlearn.inference.topic_model import Loss, TopicLearner


class MedHDPClassifier(MaxMarginClassifier):
    """Online maximum-margin topic model that finds its number of topics (MedHDP, BayesPA).

    As `MedLDAClassifier` with shared topics, but topics are born when documents ask for more: at
    every batch an empty topic is offered to classes that have none, and to others in turn, and
    dropped if it stays empty. Topics of a class are joined when its words and documents are more
    probable with one.

    Parameters
    ----------
    start_topics : int or None, default=None
        Topics to start with; None is one for each class.
    max_topics : int, default=1000
        There are never more. With anchors each class needs a topic, so fewer topics than classes
        are an error. Of the labels of an indicator matrix those that come first get one.
    loss, margin, c, variance, anchors, word_weights, augmentation, decision
        As in `MedLDAClassifier`.
    concentration : float, default=5.0
        Larger values expect more topics in a document.
    stick_prior : float, default=1.0
        Larger values expect more topics in the corpus.
    word_prior, word_factor, init, batch_size, n_rounds, tol
        As in `MedLDAClassifier`; "collapsed" is what the paper has.
    n_sweeps : int or None, default=None
        Sweeps over the tokens in each round; None is 2, or 3 without anchors.
    burn_in, ghosts, n_passes, shuffle
        As in `MedLDAClassifier`.
    retention, inference, inference_passes, vocabulary, max_words, stop_words, token_pattern
        As in `MedLDAClassifier`.
    engine, random_state, verbose
        As in `MedLDAClassifier`.

    Attributes
    ----------
    n_topics_, n_components_ : int
        Topics in use.
    classes_, coef_, component_ids_, components_, topic_shares_, vocabulary_
        As in `MedLDAClassifier`.
    n_documents_seen_, n_tokens_seen_, n_rounds_ : int
        What was learned from, and rounds of the last batch.

    Examples
    --------
    >>> from everlearn import MedHDPClassifier
    >>> texts = ["cats purr", "dogs bark", "stocks fall", "bonds and stocks rise"] * 30
    >>> model = MedHDPClassifier(random_state=0).fit(texts, ["pets", "pets", "money", "money"] * 30)
    >>> model.predict(["cats bark", "bonds fall"]).tolist()
    ['pets', 'money']
    """

    checkpoint_key: ClassVar[str] = "medhdp-classifier"

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "start_topics": (Options((None,)), Interval(1, 2**15, integer=True)),
        "max_topics": (Interval(1, 2**15, integer=True),),
        "concentration": (Interval(0, 1e6, low_open=True),),
        "stick_prior": (Interval(0, 1e6, low_open=True),),
        **CLASSIFIER_CONSTRAINTS,
        "n_sweeps": (Options((None,)), *CLASSIFIER_CONSTRAINTS["n_sweeps"]),
    }

    def __init__(
        self,
        *,
        start_topics: int | None = None,
        max_topics: int = 1000,
        loss: str = "averaging",
        margin: float | None = None,
        c: float | None = None,
        variance: float | None = None,
        anchors: bool = True,
        word_weights: bool = False,
        augmentation: str = "drawn",
        decision: str = "mean",
        concentration: float = 5.0,
        stick_prior: float = 1.0,
        word_prior: float = 0.1,
        word_factor: str = "ratio",
        init: str = "predictive",
        batch_size: int | str | None = None,
        n_rounds: int | None = None,
        tol: float | None = None,
        n_sweeps: int | None = None,
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
        self.start_topics = start_topics
        self.max_topics = max_topics
        self.loss = loss
        self.margin = margin
        self.c = c
        self.variance = variance
        self.anchors = anchors
        self.word_weights = word_weights
        self.augmentation = augmentation
        self.decision = decision
        self.concentration = concentration
        self.stick_prior = stick_prior
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

    def _check_params(self) -> None:
        super()._check_params()
        check_start(self)

    def _sweeps(self) -> int:
        return int(self.n_sweeps or (2 if self.anchors else 3))

    def _n_states(self, space: LabelSpace) -> int:
        return 1

    def _start_topics(self, space: LabelSpace) -> int:
        if space.kind != "multilabel":
            self._check_a_topic_for_each_class("max_topics", space)
        needed, most = n_codes(space.n_tasks), int(self.max_topics)
        return min(needed, most) if self.start_topics is None else int(self.start_topics)

    def _loss(self, space: LabelSpace) -> Loss:
        return margin_loss(self, "hdp")

    def _learner(self, outputs: LabelSpace, n_topics: int) -> TopicLearner:
        learner = TopicLearner(
            SharedSticks(float(self.concentration), float(self.stick_prior)),
            float(self.word_prior),
            self._loss(outputs),
            n_rounds=default_rounds(self, "hdp"),
            word_box=float(self.word_weights),
            max_topics=int(self.max_topics),
        )
        return self._with_schedule(learner, self._passes(outputs))
