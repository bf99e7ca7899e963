"""Numbers that documents are asked for: checked, some of them missing, on a scale of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, column_or_1d

from everlearn.core.arrays import Vec
from everlearn.core.documents import Documents
from everlearn.engine.opening import local_engine, open_engine
from everlearn.estimator.base import named_errors
from everlearn.estimator.params import Constraint, Interval, check_params
from everlearn.store.schema import Arrays, entry, section
from everlearn.text.inputs import TextOptions, WordSpace
from everlearn.topics.bayespa import scores
from everlearn.topics.checkpoint import TopicCheckpoint
from everlearn.topics.estimator import Learned
from everlearn.topics.explain import NumberExplanation, explain_score
from everlearn.topics.params import COUNT, MARGIN_CONSTRAINTS, SamplerOptions, margin_loss
from everlearn.topics.settings import FixedTopics, Loss, Targets, TopicLearner, first_state
from everlearn.topics.state import Gaussians

_LARGEST = 1e100
ENOUGH = 32
"""Targets after which a scale is settled."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Number, mean and standard deviation of the first targets, by which all are measured.

    One target says nothing about spread, and a few say little: the scale follows what comes until
    enough have come that are not all equal.
    """

    n: int
    mean: float
    spread: float

    @classmethod
    def of(cls, y: Vec) -> Scale:
        """That of these targets; a missing one is NaN."""
        known = y[~np.isnan(y)]
        if known.size == 0:
            return cls(0, 0.0, 0.0)
        if (known == known[0]).all():  # their mean, if it is rounded, would seem to differ
            return cls(known.size, float(known[0]), 0.0)
        return cls(known.size, float(known.mean()), float(known.std()))

    @property
    def unit(self) -> float:
        """What numbers are divided by."""
        return self.spread or abs(self.mean) or 1.0

    @property
    def is_settled(self) -> bool:
        """Whether it stays as it is."""
        return self.n >= ENOUGH and self.spread > 0.0

    def after(self, y: Vec) -> Scale:
        """The scale when these targets have come too."""
        new = Scale.of(y)
        if self.is_settled or new.n == 0 or self.n == 0:
            return self if self.is_settled or new.n == 0 else new
        n, apart = self.n + new.n, new.mean - self.mean
        own, other = self.n / n, new.n / n
        variance = own * self.spread**2 + other * new.spread**2 + own * other * apart**2
        return Scale(n, self.mean + other * apart, float(np.sqrt(variance)))


def checked_numbers(estimator: Any, y: Any, n_documents: int) -> Vec:
    """The numbers, NaN where they are missing; errors name the estimator."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    with named_errors(estimator, "y"):
        missing = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else False
        values = column_or_1d(np.asarray(y), dtype=np.float64, warn=True)
        missing = np.ravel(missing)
        if len(values) != n_documents:
            raise ValueError(f"expected {n_documents} numbers, got {len(values)}")
        values = np.where(missing, 0.0, values)
        if not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity; a missing one is masked")
        if np.abs(values).max(initial=0.0) > _LARGEST:
            raise ValueError(f"expected numbers of at most {_LARGEST:g} in size")
    return np.where(missing, np.nan, values)


def number_targets(scale: Scale, values: Vec) -> Targets:
    """What a learner is asked for: numbers of unit scale, and which are known."""
    known = ~np.isnan(values)
    standard = np.where(known, (values - scale.mean) / scale.unit, 0.0)
    return Targets(known.astype(np.int8)[:, None], np.ascontiguousarray(standard[:, None]))


_DEFAULTS: Final = {"averaging": (2.0, 0.1), "gibbs": (0.6, 100.0)}
"""C and variance, for targets of unit scale."""


class MedLDARegressor(RegressorMixin, TopicCheckpoint[Scale]):
    """Online maximum-margin topic model that predicts a number (MedLDA, BayesPA).

    Topics are learned so that a number is a linear function of a document's topic proportions,
    up to a tube of half-width `epsilon` that costs nothing.

    Parameters
    ----------
    n_topics : int, default=20
        The number of topics.
    loss : {"averaging", "gibbs"}, default="averaging"
        As in `MedLDAClassifier`.
    epsilon : float, default=0.1
        Half-width of the tube around a number within which an error costs nothing, in standard
        deviations of `y`. Those are estimated from the first targets, until 32 have come that are
        not all equal.
    C : float or None, default=None
        Weight of the loss. None is 2 for "averaging" and 0.6 for "gibbs". Smaller values learn
        less from outliers.
    variance : float or None, default=None
        Prior variance of a weight, in units of `y` as `epsilon`. None is 0.1 for "averaging" and
        100 for "gibbs".
    topic_word_prior : float, default=0.1
        As in `MedLDAClassifier`.
    batch_size : int or "all", default=64
        As in `MedLDAClassifier`.
    n_sweeps, n_passes, retention, vocabulary, stop_words, text
        As in `MedLDAClassifier`.
    options : SamplerOptions, mapping of its fields or None, default=None
        As in `MedLDAClassifier`. `n_rounds` is by default 2 for the averaging loss, which sees
        targets in the second round, and 1 for the Gibbs loss.
    engine, random_state, verbose
        As in `MedLDAClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_topics,)
        What a document that fills a topic is predicted to have, less `intercept_`.
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
    _options: ClassVar = {"text": TextOptions, "options": SamplerOptions}
    _no_options = ("stick_prior", "warmup_sweeps", "decision")
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_topics": (Interval(1, 2**15, integer=True),),
        "epsilon": (Interval(0, 1e12, low_open=True),),
        **MARGIN_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        n_topics: int = 20,
        loss: str = "averaging",
        epsilon: float = 0.1,
        C: float | None = None,
        variance: float | None = None,
        topic_word_prior: float = 0.1,
        batch_size: int | str = 64,
        n_sweeps: int = 3,
        n_passes: int = 1,
        retention: float = 1.0,
        vocabulary: Any = None,
        stop_words: Any = None,
        text: Any = None,
        options: Any = None,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.loss = loss
        self.epsilon = epsilon
        self.C: Any = C
        self.variance = variance
        self.topic_word_prior = topic_word_prior
        self.batch_size = batch_size
        self.n_sweeps = n_sweeps
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
        """What a document that fills a topic is predicted to have, less `intercept_`."""
        learned = self._fitted()
        weights = learned.states[0].weights
        assert weights is not None
        return np.asarray(weights.mean[0] * learned.outputs.unit)

    @property
    def intercept_(self) -> float:
        """Mean of the first targets."""
        return self._fitted().outputs.mean

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from documents with numbers, forgetting anything learned before.

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
                learned = self._begin(corpus.words, values)
                targets = number_targets(learned.outputs, values)
                self._learned = self._fit_passes(learned, corpus, targets)
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
            documents, words = self._documents(X, None if known is None else known.words, grow=True)
            values = checked_numbers(self, y, len(documents))
            if known is None:
                learned = self._begin(words, values)
            else:
                self._check_same_form(known)
                learned = _measured_by(self._with_words(known, words), known.outputs.after(values))
            self._learned = self._go_on(
                learned, documents, number_targets(learned.outputs, values), undos
            )
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
        """Why a document gets its number: topics, then words, with what each topic adds.

        Parameters
        ----------
        x : document
            One text, list of words, array of word numbers or row of counts.
        n : int, default=5
            Topics, and words of each, that are told.

        Returns
        -------
        explanation : NumberExplanation
            Prints as text; see its attributes. Intercept and the parts of all topics are the
            number.
        """
        learned = self._fitted()
        check_params(f"{type(self).__name__}.explain", {"n": n}, COUNT)
        document, learner, state = self._read_one(x), self._current(learned), learned.states[0]
        told = explain_score(learner, state, document, self.vocabulary_, self.coef_, n)
        return NumberExplanation(float(self._numbers(document)[0]), self.intercept_, told)

    # ------------------------------------------------------------------ inner

    def _numbers(self, documents: Documents) -> Vec:
        learned = self._fitted()
        learner = self._current(learned)
        with open_engine(local_engine(self.engine)) as engine:
            found = scores(learner, learned.states[0], documents, engine)[:, 0]
        return np.asarray(learned.outputs.mean + learned.outputs.unit * float(self.epsilon) * found)

    def _loss(self) -> Loss:
        defaults, epsilon = _DEFAULTS[self.loss], float(self.epsilon)
        return margin_loss(self, self._sampler(), defaults, anchored=False, epsilon=epsilon)

    def _learner(self, outputs: Scale, n_topics: int) -> TopicLearner:
        learner = TopicLearner(
            FixedTopics(float(self._sampler().doc_topic_prior or 1.0 / n_topics)),
            float(self.topic_word_prior),
            self._loss(),
            n_rounds=2 if self.loss == "averaging" else 1,
        )
        return self._with_schedule(learner, 5)

    def _begin(self, words: WordSpace, values: Vec) -> Learned[Scale]:
        scale = Scale.of(values)
        learner = self._learner(scale, int(self.n_topics))
        state = first_state(
            learner, words.n_words, int(self.n_topics), np.zeros(1, np.int64), self._new_seed()
        )
        return Learned((state,), words, scale, learner.loss)

    def _check_same_form(self, learned: Learned[Scale]) -> None:
        gibbs = isinstance(learned.states[0].weights, Gaussians)
        self._check_unchanged({"loss": "gibbs" if gibbs else "averaging"})

    def _n_tasks(self, outputs: Scale) -> int:
        return 1

    def _pack_outputs(self, outputs: Scale) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return asdict(outputs), {}

    @classmethod
    def _unpack_outputs(cls, header: Any, arrays: Arrays) -> Scale:
        outputs = section(header, "outputs", ("n", "mean", "spread"))
        n, mean = entry(outputs, "n", int, 0, 2**63), entry(outputs, "mean", float)
        return Scale(n, mean, entry(outputs, "spread", float, 0.0))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.regressor_tags.poor_score = True  # on tables of arbitrary features
        return tags


def _measured_by(learned: Learned[Scale], scale: Scale) -> Learned[Scale]:
    """The same model with its weights on another scale: it predicts the same numbers.

    Shares of topics add up to 1, so that what is added to all weights is added to the number.
    Doubts stay what they are in units of the scale, as the prior is given in these: those of the
    unit of a small first target would be too small for any other number to be learned.
    """
    old = learned.outputs
    if scale == old:
        return learned
    if old.n == 0:
        return replace(learned, outputs=scale)
    factor, shift = old.unit / scale.unit, (old.mean - scale.mean) / scale.unit
    (state,) = learned.states
    assert state.weights is not None
    moved = replace(state, weights=state.weights.rescale(factor, shift))
    return replace(learned, states=(moved,), outputs=scale)
