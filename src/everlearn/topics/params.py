"""Parameters of topic estimators: `SamplerOptions`, constraints and defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np

from everlearn.estimator.base import COMMON_CONSTRAINTS
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.text.inputs import DOCUMENT_CONSTRAINTS
from everlearn.topics.settings import Loss, LossKind

_MOST: Final = 10_000
"""Most passes, rounds and sweeps, so that a forged file cannot keep a machine busy."""
_BOOLEAN: Final = Instance((bool, np.bool_), "True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerOptions(ExpertOptions):
    """Rarely used parameters of topic models: priors, sampling, and variants of the papers.

    The defaults were chosen for many corpora. An estimator refuses a parameter that means nothing
    to it.

    Parameters
    ----------
    doc_topic_prior : float or None, default=None
        Dirichlet parameter of a document's topic proportions, for each topic. None is
        1 / n_topics. Larger values expect more topics in a document. Not for `MedHDPClassifier`.
    topic_word_prior : float or None, default=None
        Dirichlet parameter of a topic over words. None is 0.02 for `TopicModel` and 0.1 for
        others. Smaller values make topics of fewer words.
    variance : float or None, default=None
        For models with labels: prior variance of a weight, for scores with a margin of 1, or for
        numbers in standard deviations of `y`. None chooses it by the loss and the kind of labels.
        Smaller values learn more slowly.
    start_topics : int or None, default=None
        For models that find the number of topics: topics to start with. None is 20 for
        `TopicModel` (`max_topics` if that is less), and one for each class for
        `MedHDPClassifier`. A `TopicModel` starts with one topic for every 3 documents of the first
        batch, at most 100, if that is more.
    concentration : float, default=5.0
        For models that find the number of topics. Larger values expect more topics in a document.
    stick_prior : float, default=1.0
        For models that find the number of topics. Larger values expect more topics in the corpus.
    word_factor : {"ratio", "digamma", "collapsed"}, default="ratio"
        How the weight of a word in a topic follows from counts: "ratio" of expected counts, the
        "digamma" of mean-field LDA, or "collapsed", where counts follow every draw. `TopicModel`
        with `n_topics="infer"` is always "collapsed".
    init : {"predictive", "uniform"}, default="predictive"
        How the tokens of a batch get their first topics: drawn from what the model knows, or
        uniformly. The very first batch is always "uniform".
    shuffle : bool, default=True
        Whether `fit` visits documents in random order. Labelled documents come first, and the
        first batch has no others, unless it has all documents. `partial_fit` never shuffles.
    n_sweeps : int or None, default=None
        Sweeps over the tokens of a batch in each round. None is 3, or 2 for a `MedHDPClassifier`
        with anchors. More sweeps take longer and help small batches.
    burn_in : int, default=0
        Sweeps of each round that do not count; less than `n_sweeps`.
    n_rounds : int or None, default=None
        Rounds in a batch. After each, topics and weights use what was drawn. None is 1. Without
        anchors it is 3 for classes that share topics, and 2 for other averaging losses.
    tol : float or None, default=None
        For models with labels and `batch_size="all"`. Rounds end, after 20 at the least, when the
        mean objective of ten rounds falls by no more than this share of it a round. At most
        `n_rounds` are made, 500 if that is None. With None, the model makes all rounds.
    ghosts : int, default=1
        Copies that each document stands for. More help with little data and many topics.
    warmup_sweeps : int, default=50
        For `TopicModel`: sweeps over the first `warmup_documents`.
    augmentation : {"drawn", "mean", "all"}, default="drawn"
        For `loss="gibbs"`: whether augmentation variables are drawn or take their means. "all"
        draws the weights in every round, too, where topics otherwise see their posterior.
    inference : {"expected", "sampled"}, default="expected"
        Whether the topics of a new document are expected ones, or drawn as in the paper. Draws
        depend on the seed and on what the document contains.
    inference_passes : int or None, default=None
        Passes over a new document. None is 2 for several classes and 5 otherwise. With
        `inference="sampled"`, this many sweeps are dropped and as many count; None is 50.
    decision : {"mean", "drawn"}, default="mean"
        For classifiers: whether scores use the mean weights or, for `loss="gibbs"` only, one draw
        of them. The draw stays the same until the model learns again.

    Examples
    --------
    >>> from everlearn import MedLDAClassifier, SamplerOptions
    >>> batch_sampler = SamplerOptions(word_factor="collapsed", n_sweeps=1, n_rounds=40, tol=1e-4)
    >>> model = MedLDAClassifier(batch_size="all", options=batch_sampler)
    """

    doc_topic_prior: float | None = None
    topic_word_prior: float | None = None
    variance: float | None = None
    start_topics: int | None = None
    concentration: float = 5.0
    stick_prior: float = 1.0
    word_factor: Literal["ratio", "digamma", "collapsed"] = "ratio"
    init: Literal["predictive", "uniform"] = "predictive"
    shuffle: bool = True
    n_sweeps: int | None = None
    burn_in: int = 0
    n_rounds: int | None = None
    tol: float | None = None
    ghosts: int = 1
    warmup_sweeps: int = 50
    augmentation: Literal["drawn", "mean", "all"] = "drawn"
    inference: Literal["expected", "sampled"] = "expected"
    inference_passes: int | None = None
    decision: Literal["mean", "drawn"] = "mean"
    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "doc_topic_prior": (Options((None,)), Interval(0, 1e6, low_open=True)),
        "topic_word_prior": (Options((None,)), Interval(0, 1e6, low_open=True)),
        "variance": (Options((None,)), Interval(0, 1e12, low_open=True)),
        "start_topics": (Options((None,)), Interval(1, 2**15, integer=True)),
        "concentration": (Interval(0, 1e6, low_open=True),),
        "stick_prior": (Interval(0, 1e6, low_open=True),),
        "word_factor": (Options(("ratio", "digamma", "collapsed")),),
        "init": (Options(("predictive", "uniform")),),
        "shuffle": (_BOOLEAN,),
        "n_sweeps": (Options((None,)), Interval(1, _MOST, integer=True)),
        "burn_in": (Interval(0, _MOST, integer=True),),
        "n_rounds": (Options((None,)), Interval(1, _MOST, integer=True)),
        "tol": (Options((None,)), Interval(0, 1)),
        "ghosts": (Interval(1, _MOST, integer=True),),
        "warmup_sweeps": (Interval(1, _MOST, integer=True),),
        "augmentation": (Options(("drawn", "mean", "all")),),
        "inference": (Options(("expected", "sampled")),),
        "inference_passes": (Options((None,)), Interval(1, _MOST, integer=True)),
        "decision": (Options(("mean", "drawn")),),
    }


TOPIC_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "batch_size": (Interval(1, integer=True), Options(("all",))),
    "n_passes": (Interval(1, _MOST, integer=True),),
    "retention": (Interval(0, 1, low_open=True),),
    **DOCUMENT_CONSTRAINTS,
    **COMMON_CONSTRAINTS,
}
MARGIN_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "loss": (Options(("averaging", "gibbs")),),
    "C": (Options((None,)), Interval(0, 1e12, low_open=True)),
    **TOPIC_CONSTRAINTS,
}
"""Constraints of the parameters that every max-margin estimator has."""
CLASSIFIER_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "anchors": (_BOOLEAN,),
    "word_weights": (_BOOLEAN,),
    **MARGIN_CONSTRAINTS,
    "batch_size": (Options((None,)), *TOPIC_CONSTRAINTS["batch_size"]),
}
Setting: TypeAlias = Literal["shared", "own", "multilabel", "hdp"]
"""Classes that share topics, classes with topics of their own, an indicator matrix, or an HDP."""
_ANCHORED: Final[Mapping[tuple[Setting, str], tuple[float, float]]] = {
    ("shared", "averaging"): (1600.0, 4e-4 / 16**2),
    ("shared", "gibbs"): (328.0, 10.0 / 164**2),
    ("own", "averaging"): (640.0, 1e-3 / 16**2),
    ("own", "gibbs"): (328.0, 1.0 / 164**2),
    ("multilabel", "averaging"): (1600.0, 0.05 / 16**2),
    ("multilabel", "gibbs"): (328.0, 100.0 / 164**2),
    ("hdp", "averaging"): (16_000.0, 1e-3 / 16**2),
    ("hdp", "gibbs"): (328.0, 10.0 / 164**2),
}
"""C and variance of classifiers with anchors, chosen on training documents that were held out.

The paper has margins of 164 and more. Scores are in units of the margin, so that C is larger by
the margin, and the variance smaller by its square.
"""
_PLAIN: Final[Mapping[tuple[Setting, str], tuple[float, float]]] = {
    ("shared", "averaging"): (16_000.0, 1e-3 / 16**2),
    ("shared", "gibbs"): (160.0, 10.0 / 16**2),
    ("hdp", "averaging"): (16_000.0, 4e-3 / 16**2),
    ("hdp", "gibbs"): (160.0, 10.0 / 16**2),
}
"""Defaults without anchors: margins must be met early, or classes collapse into one topic."""
MOST_ROUNDS: Final = 500
"""Rounds of a batch with a tolerance, where the user gives no number."""
COUNT: Final = {"n": (Interval(1, integer=True),)}
"""Constraint of `n`, a number of things to show."""
PAIRS: Final = {"n": (Interval(2, integer=True),)}
"""Constraint of `n`, a number of things that are compared in pairs."""


def max_margin_loss(
    kind: LossKind,
    options: SamplerOptions,
    *,
    C: float,
    variance: float,
    anchored: bool = False,
    epsilon: float | None = None,
) -> Loss:
    """The loss of a classifier, or of a regression if there is an `epsilon`.

    Scores have a margin of 1. Learners count a hinge twice, so that they have c = C / 2.
    """
    return Loss(
        kind,
        1.0 if epsilon is None else epsilon,
        0.5 * C,
        variance,
        anchored,
        epsilon is not None,
        mean_only=options.augmentation == "mean",
        draws_weights=options.augmentation == "all",
    )


def default_strength(setting: Setting, kind: LossKind, *, anchors: bool) -> tuple[float, float]:
    """C and variance of a classifier, where the user gives none."""
    case = setting, kind
    return _ANCHORED[case] if anchors else _PLAIN.get(case, _ANCHORED[case])


def default_rounds(setting: Setting, kind: LossKind, *, anchors: bool) -> int:
    """Rounds in a batch of a classifier, where the user gives no number.

    Without anchors the averaging loss does not see labels in the first round. Classes that share
    topics get a third round, because they may still collapse into one topic before it.
    """
    if anchors:
        return 1
    if (setting, kind) in _PLAIN:
        return 3
    return 2 if kind == "averaging" else 1


def check_options(
    owner: str,
    options: SamplerOptions,
    unused: Collection[str],
    *,
    n_sweeps: int,
    loss: LossKind | None,
    max_topics: int | None,
) -> None:
    """Refuse options that mean nothing to the estimator `owner`, or contradict its parameters.

    `max_topics` is None for a given number of topics, `loss` without labels.
    """
    plain, place = SamplerOptions(), f"SamplerOptions of {owner}"
    for name in unused:
        if (value := getattr(options, name)) != getattr(plain, name):
            raise ValueError(
                f"the {name!r} parameter of {place} must be left out: it means nothing to "
                f"this model. Got {value!r}."
            )
    if options.burn_in >= n_sweeps:
        raise ValueError(
            f"the 'burn_in' parameter of {place} must be less than n_sweeps, which is "
            f"{n_sweeps}. Got {options.burn_in} instead."
        )
    if loss is not None and loss != "gibbs" and options.decision == "drawn":
        raise ValueError(
            f"the 'decision' parameter of {place} can be 'drawn' only if loss is 'gibbs': other "
            f"weights have no posterior. Got loss={loss!r}."
        )
    start = options.start_topics
    if max_topics is not None and start is not None and start > max_topics:
        raise ValueError(
            f"the 'start_topics' parameter of {place} must be at most max_topics, which is "
            f"{max_topics}. Got {start} instead."
        )
