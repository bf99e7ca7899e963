"""Parameters that topic estimators share: what they may be, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from everlearn.estimator.base import COMMON_CONSTRAINTS
from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.text.inputs import DOCUMENT_CONSTRAINTS
from everlearn.topics.settings import Loss

TOPIC_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "word_prior": (Interval(0, 1e6, low_open=True),),
    "word_factor": (Options(("ratio", "digamma", "collapsed")),),
    "init": (Options(("predictive", "uniform")),),
    "batch_size": (Interval(1, integer=True), Options(("all",))),
    "n_sweeps": (Interval(1, integer=True),),
    "burn_in": (Interval(0, integer=True),),
    "n_passes": (Interval(1, integer=True),),
    "shuffle": (Instance((bool, np.bool_), "a truth value"),),
    "inference": (Options(("expected", "sampled")),),
    "inference_passes": (Options((None,)), Interval(1, integer=True)),
    "retention": (Interval(0, 1, low_open=True),),
    **DOCUMENT_CONSTRAINTS,
    **COMMON_CONSTRAINTS,
}
MARGIN_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "loss": (Options(("averaging", "gibbs")),),
    "margin": (Options((None,)), Interval(0, 1e12, low_open=True)),
    "c": (Options((None,)), Interval(0, 1e12, low_open=True)),
    "variance": (Options((None,)), Interval(0, 1e12, low_open=True)),
    "augmentation": (Options(("drawn", "mean", "all")),),
    "n_rounds": (Options((None,)), Interval(1, integer=True)),
    "tol": (Options((None,)), Interval(0, 1)),
    "ghosts": (Interval(1, integer=True),),
    **TOPIC_CONSTRAINTS,
}
"""Constraints of the parameters that every max-margin estimator has."""
CLASSIFIER_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "anchors": (Instance((bool, np.bool_), "a truth value"),),
    "word_weights": (Instance((bool, np.bool_), "a truth value"),),
    "decision": (Options(("mean", "drawn")),),
    **MARGIN_CONSTRAINTS,
    "batch_size": (Options((None,)), *TOPIC_CONSTRAINTS["batch_size"]),
}
_MARGINS: Final = {
    ("shared", "averaging"): (16.0, 50.0, 4e-4),
    ("shared", "gibbs"): (164.0, 1.0, 10.0),
    ("own", "averaging"): (16.0, 20.0, 1e-3),
    ("own", "gibbs"): (164.0, 1.0, 1.0),
    ("multilabel", "averaging"): (16.0, 50.0, 0.05),
    ("multilabel", "gibbs"): (164.0, 1.0, 100.0),
    ("hdp", "averaging"): (16.0, 500.0, 1e-3),
    ("hdp", "gibbs"): (164.0, 1.0, 10.0),
}
"""Margin, c and variance of classifiers, chosen on training documents that were held out."""
_PLAIN: Final = {
    ("shared", "averaging"): (16.0, 500.0, 1e-3),
    ("shared", "gibbs"): (16.0, 5.0, 10.0),
    ("hdp", "averaging"): (16.0, 500.0, 4e-3),
    ("hdp", "gibbs"): (16.0, 5.0, 10.0),
}
"""The same without anchors, where margins must be met before classes collapse into one topic."""
_MOST_ROUNDS: Final = 500
"""Rounds of a batch that ends when it falls no longer, unless the parameters say how many."""
COUNT: Final = {"n": (Interval(1, integer=True),)}
"""Constraint of how many are to be told."""
PAIRS: Final = {"n": (Interval(2, integer=True),)}
"""The same, where pairs are made of them."""


def chosen_loss(
    estimator: Any,
    defaults: tuple[float, float, float],
    *,
    anchored: bool,
    regression: bool = False,
) -> Loss:
    """The loss, with default margin, c and variance where the parameters leave them open."""
    given = (estimator.margin, estimator.c, estimator.variance)
    margin, c, variance = (
        float(default if value is None else value)
        for value, default in zip(given, defaults, strict=True)
    )
    return Loss(
        estimator.loss,
        margin,
        c,
        variance,
        anchored,
        regression,
        mean_only=estimator.augmentation == "mean",
        draws_weights=estimator.augmentation == "all",
    )


def margin_loss(estimator: Any, setting: str) -> Loss:
    """The loss of a classifier, with the defaults of a setting."""
    kind = setting, estimator.loss
    defaults = _MARGINS[kind] if estimator.anchors else _PLAIN.get(kind, _MARGINS[kind])
    return chosen_loss(estimator, defaults, anchored=bool(estimator.anchors))


def default_rounds(estimator: Any, setting: str) -> int:
    """Rounds in a batch: without anchors the averaging loss is blind in the first.

    Classes that share topics have a third, before which they may still collapse into one.
    """
    if estimator.anchors:
        return 1
    if (setting, estimator.loss) in _PLAIN:
        return 3
    return 2 if estimator.loss == "averaging" else 1


def schedule_of(estimator: Any, n_rounds: int) -> tuple[int, float | None]:
    """Rounds of a batch at most, so many unless the parameters say otherwise; what ends them."""
    tol = getattr(estimator, "tol", None)
    n_rounds = n_rounds if tol is None else _MOST_ROUNDS
    return int(estimator.n_rounds or n_rounds), None if tol is None else float(tol)


def check_start(estimator: Any) -> None:
    """Refuse more topics to start with than there may ever be."""
    start, most = estimator.start_topics, estimator.max_topics
    if start is not None and start > most:
        raise ValueError(
            f"the 'start_topics' parameter of {type(estimator).__name__} must be at most "
            f"max_topics, which is {most}. Got {start} instead."
        )
