"""Max-margin topic model of numbers: `MedLDARegressor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from everlearn.core.arrays import Vec
from everlearn.core.documents import Documents
from everlearn.engine.opening import EngineChoice, local_engine, open_engine
from everlearn.estimator.params import Constraint, Interval, check_params
from everlearn.store.schema import Schema
from everlearn.text.inputs import TextOptions, WordSpace
from everlearn.topics.checkpoint import REGRESSOR_FIT
from everlearn.topics.estimator import TopicEstimator
from everlearn.topics.explain import NumberExplanation, explain_score
from everlearn.topics.fit import TopicFit, check_unchanged, fit_corpus, learn_documents, start_fit
from everlearn.topics.params import COUNT, MARGIN_CONSTRAINTS, SamplerOptions, max_margin_loss
from everlearn.topics.predict import scores
from everlearn.topics.priors import FixedTopics
from everlearn.topics.scale import Scale, checked_numbers, number_targets
from everlearn.topics.settings import LossKind, TopicSettings

_DEFAULTS: Final[Mapping[LossKind, tuple[float, float]]] = {
    "averaging": (2.0, 0.1),
    "gibbs": (0.6, 100.0),
}
"""C and variance, for targets of unit scale."""


class MedLDARegressor(RegressorMixin, TopicEstimator[Scale]):
    """Online regression of a number on the topics of documents (MedLDA).

    The model learns topics such that the number is a linear function of a document's topic
    proportions. Errors of up to `epsilon` cost nothing.

    Parameters
    ----------
    n_topics : int, default=20
        Number of topics.
    loss : {"averaging", "gibbs"}, default="averaging"
        As in `MedLDAClassifier`.
    epsilon : float, default=0.1
        Error that costs nothing, in standard deviations of `y`. These are estimated from the first
        targets, until 32 have come that are not all equal.
    C : float or None, default=None
        Weight of the loss. None is 2 for "averaging" and 0.6 for "gibbs". Smaller values learn
        less from outliers.
    batch_size : int or "all", default=64
        As in `MedLDAClassifier`.
    n_passes, retention, vocabulary, stop_words, text
        As in `MedLDAClassifier`.
    options : SamplerOptions, dict or None, default=None
        As in `MedLDAClassifier`. None for `variance` is 0.1 for "averaging" and 100 for "gibbs".
        None for `n_rounds` is 2 for "averaging", which sees targets from the second round on, and
        1 for "gibbs".
    engine, random_state, verbose
        As in `MedLDAClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_topics,)
        Predicted number of a document with this topic alone, minus `intercept_`.
    intercept_ : float
        Mean of the first targets.
    n_topics_, component_ids_, components_, topic_shares_, vocabulary_, n_rounds_
        As in `MedLDAClassifier`.

    Examples
    --------
    >>> from everlearn import MedLDARegressor
    >>> texts = ["bad film", "good film", "bad plot and bad film", "very good plot"] * 50
    >>> model = MedLDARegressor(n_topics=4, random_state=0).fit(texts, [1.0, 4.0, 0.5, 5.0] * 50)
    >>> bad, good = model.predict(["bad bad plot", "good good plot"])
    >>> bool(bad < good)
    True
    """

    checkpoint_key: ClassVar[str] = "medlda-regressor"
    _schema: ClassVar[Schema] = REGRESSOR_FIT
    _unused_options = (
        "start_topics",
        "concentration",
        "stick_prior",
        "warmup_sweeps",
        "decision",
    )
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_topics": (Interval(1, 2**15, integer=True),),
        "epsilon": (Interval(0, 1e12, low_open=True),),
        **MARGIN_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        n_topics: int = 20,
        loss: LossKind = "averaging",
        epsilon: float = 0.1,
        C: float | None = None,
        batch_size: int | str = 64,
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
        self.epsilon = epsilon
        self.C = C
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

    @property
    def coef_(self) -> Vec:
        """Predicted number of a document with this topic alone, minus `intercept_`."""
        learned = self._fitted()
        weights = learned.states[0].weights
        assert weights is not None
        return np.asarray(weights.mean[0] * learned.outputs.unit)

    @property
    def intercept_(self) -> float:
        """Mean of the first targets."""
        return self._fitted().outputs.mean

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from documents with numbers, and forget anything learned before.

        Parameters
        ----------
        X : documents
            As in `MedLDAClassifier`.
        y : array-like of shape (n_documents,)
            The numbers. Masked entries are missing: such a document teaches the topics only.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            with self._corpus(X, y) as corpus:
                values = checked_numbers(self, corpus.y, len(corpus.documents))
                scale = Scale.of(values)
                settings = self._settings(scale)
                start = self._begin(settings, corpus.words, scale)
                targets = number_targets(scale, values)
                self._learned = fit_corpus(settings, start, corpus, targets)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from documents that need not come again, in the order in which they come.

        Parameters
        ----------
        X : documents
            As in `fit`. Words may be new if documents are not given as counts.
        y : array-like of shape (n_documents,)
            As in `fit`.

        Returns
        -------
        self
            The estimator, which has learned the documents.
        """
        with self._unchanged_on_error() as undos:
            self._check_params()
            known = self._known()
            documents, words = self._read_new(X)
            values = checked_numbers(self, y, len(documents))
            scale = Scale.of(values) if known is None else known.outputs.with_numbers(values)
            settings = self._settings(scale)
            if known is None:
                start = self._begin(settings, words, scale)
            else:
                check_unchanged(settings, known)
                start = _rescaled(replace(known, words=words), scale)
            targets = number_targets(scale, values)
            with open_engine(self.engine) as engine:
                self._learned = learn_documents(settings, start, documents, targets, engine, undos)
        return self

    def predict(self, X: Any) -> Vec:
        """The number of each document.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        y : ndarray of shape (n_documents,)
            The numbers.
        """
        return self._numbers(self._read(X))

    def explain(self, x: Any, n: int = 5) -> NumberExplanation:
        """Why a document gets its number: what its topics, and words in them, add to it.

        Parameters
        ----------
        x : document
            One text, list of words, array of word numbers or row of counts.
        n : int, default=5
            Number of topics, and of words of each, to show.

        Returns
        -------
        explanation : NumberExplanation
            Print it, or read its attributes. The intercept and the parts of all topics add up to
            the number.
        """
        state = self._fitted().states[0]
        check_params(f"{type(self).__name__}.explain", {"n": n}, COUNT)
        document, settings = self._read_one(x), self._current_settings()
        parts = explain_score(settings, state, document, self.vocabulary_, self.coef_, n)
        return NumberExplanation(float(self._numbers(document)[0]), self.intercept_, parts)

    # ------------------------------------------------------------------ inner

    def _settings(self, outputs: Scale) -> TopicSettings:
        options = self._sampler()
        alpha, (C, variance) = options.doc_topic_prior, _DEFAULTS[self.loss]
        prior = FixedTopics(None if alpha is None else float(alpha))
        n_rounds = 2 if self.loss == "averaging" else 1
        common = self._common_settings(options, prior, n_rounds=n_rounds)
        return replace(
            common,
            loss=max_margin_loss(
                self.loss,
                options,
                C=float(C if self.C is None else self.C),
                variance=float(options.variance or variance),
                epsilon=float(self.epsilon),
            ),
            n_topics=self.n_topics,
            start_topics=int(self.n_topics),
        )

    def _begin(self, settings: TopicSettings, words: WordSpace, scale: Scale) -> TopicFit[Scale]:
        """The fit of a new model."""
        return start_fit(settings, words, scale, np.zeros(1, np.int64), self._new_seed())

    def _numbers(self, documents: Documents) -> Vec:
        fit, settings = self._fitted(), self._current_settings()
        with open_engine(local_engine(self.engine)) as engine:
            found = scores(settings, fit.states[0], documents, engine)[:, 0]
        return np.asarray(fit.outputs.mean + fit.outputs.unit * float(self.epsilon) * found)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.regressor_tags.poor_score = True  # on tables of arbitrary features
        return tags


def _rescaled(fit: TopicFit[Scale], scale: Scale) -> TopicFit[Scale]:
    """The same model with weights in units of another scale: it predicts the same numbers.

    Shares of topics add up to 1, so adding a constant to all weights adds it to the number.
    Covariances stay as they are in units of the scale, as does the prior: in the unit of a small
    first target they would be too small to learn any other number.
    """
    old = fit.outputs
    if scale == old:
        return fit
    if old.n == 0:
        return replace(fit, outputs=scale)
    factor, shift = old.unit / scale.unit, (old.mean - scale.mean) / scale.unit
    (state,) = fit.states
    assert state.weights is not None
    rescaled = replace(state, weights=state.weights.rescale(factor, shift))
    return replace(fit, states=(rescaled,), outputs=scale)
