"""How `ClumpedTopicModel` puts the parts together: parameters and documents in, a state out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.errors import ForcedJoinWarning
from everlearn.core.families import DiagGaussian, Family, FullGaussian, Multinomial
from everlearn.core.params import parse_bytes
from everlearn.core.priors import LearnedDirichlet
from everlearn.estimators.base import named_errors
from everlearn.estimators.history import History
from everlearn.estimators.mixture_families import Measured, Moments, resolve_family
from everlearn.inference.clumped_state import ClumpedState, Epoch, KeepLimits
from everlearn.inference.clumped_topics import GroupedModel
from everlearn.inference.engine import Engine
from everlearn.inference.learners.clumped import (
    BuildSettings,
    ClumpedLearner,
    EpochInfo,
)
from everlearn.inference.learners.memoized import LapInfo
from everlearn.inference.rows import Rows
from everlearn.runtime.engine import open_engine
from everlearn.runtime.progress import DocumentProgress

_FAMILY_NAMES: dict[type, str] = {
    DiagGaussian: "diagonal",
    FullGaussian: "full",
    Multinomial: "multinomial",
}
MOST_GROUPS = 1000
"""Groups under a budget, if nothing is said of their number: merging takes their square."""
PRICE_PER_NUMBER = 0.015
"""Nats a topic must earn for each number in a typical document, if no price is given."""
_WITHIN = 0.1
"""Share of the variance of all points that a topic is expected to have."""
_MEAN_PRECISION = 0.1


@dataclass(frozen=True, slots=True)
class Learned:
    """A state, and how it came about."""

    state: ClumpedState
    history: History

    def after(self, state: ClumpedState) -> Learned:
        """After an epoch."""
        lap = LapInfo(
            state.n_epochs, state.bound, len(state.topics), float(state.n_points), (), False
        )
        return Learned(state, self.history.after(lap))


def learn(params: Any, learned: Learned | None, parts: Iterable[Mat]) -> Learned:
    """Learn from documents in epochs; the first epoch decides on prior and price."""
    n_parts = len(parts) if isinstance(parts, Sized) else None
    remaining, done = iter(parts), 0
    with (
        open_engine(params.engine) as engine,
        DocumentProgress(params.verbose, n_parts) as progress,
    ):
        learner = learner_of(params, engine)
        while epoch_parts := tuple(islice(remaining, params.batch_size)):
            epoch = Epoch(epoch_parts)
            if learned is None:
                learned = Learned(_fresh(params, epoch), History())
            state, info = learner.learn(learned.state, epoch)
            _warn_of_joins(params, info)
            learned = learned.after(state)
            done += epoch.n_documents
            progress.show(done, len(state.topics))
    if learned is None:
        raise ValueError(f"X of {type(params).__name__} must have a document. Got none.")
    return learned


def compress(params: Any, learned: Learned) -> Learned:
    """The same within the present limits; nothing changes if it is within them already."""
    if limits_of(params).met_by(learned.state):
        return learned
    with open_engine(params.engine) as engine:
        state, info = learner_of(params, engine).recompress(learned.state)
    _warn_of_joins(params, info)
    return Learned(state, learned.history)


def check_same_model(params: Any, learned: Learned) -> None:
    """Refuse to go on with another family, prior or price than learning began with."""
    state = learned.state
    family = state.model.family
    _check_unchanged(params, "family", params.family, _FAMILY_NAMES[type(family)])
    if params.topic_price != "auto":
        _check_unchanged(params, "topic_price", params.topic_price, state.price)
    if isinstance(params.prior, str):
        return
    with named_errors(params, "prior"):
        given: Any = clumped_family(params.family, params.prior, np.ones((1, family.n_features)))
    known: Any = family
    for name in params.prior:
        now, then = getattr(given.prior, name), getattr(known.prior, name)
        if not np.array_equal(now, then):
            _check_unchanged(params, "prior", f"{name}: {now}", f"{name}: {then}")


def _check_unchanged(params: Any, name: str, now: Any, then: Any) -> None:
    if now != then:
        raise ValueError(
            f"the {name!r} parameter of {type(params).__name__} was {then!r} when learning "
            f"began and cannot change without a new fit. Got {now!r} instead."
        )


def _warn_of_joins(params: Any, info: EpochInfo) -> None:
    if info.forced_joins:
        warnings.warn(
            f"{info.forced_joins} topics of {type(params).__name__} were joined with others "
            "because clumps for all of them do not fit: allow a larger 'memory_budget' or "
            "'max_clumps', or ask for fewer topics with a higher 'topic_price'.",
            ForcedJoinWarning,
            stacklevel=4,
        )


def limits_of(params: Any) -> KeepLimits:
    """The limits that the parameters say."""
    budget, clumps, groups = params.memory_budget, params.max_clumps, params.max_groups
    if groups is None:
        groups = np.inf if budget is None else MOST_GROUPS
    return KeepLimits(
        np.inf if budget is None else float(parse_bytes(budget)),
        np.inf if clumps is None else None if clumps == "auto" else float(clumps),
        float(groups),
    )


def learner_of(params: Any, engine: Engine) -> ClumpedLearner:
    """The learner that the parameters describe."""
    settings = BuildSettings(
        first_clumps=params.first_clumps,
        raw_iterations=params.raw_iterations,
        max_topics=params.max_topics,
    )
    return ClumpedLearner(
        engine,
        settings,
        limits_of(params),
        params.expected_points,
        params.group_merge,
        params.on_budget,
    )


def _fresh(params: Any, epoch: Epoch) -> ClumpedState:
    """A model that has seen nothing, with a prior and a price that suit the first epoch."""
    price = params.topic_price
    if price == "auto":
        width = 1 if params.family == "multinomial" else epoch.parts[0].shape[1]
        price = PRICE_PER_NUMBER * (epoch.n_points * width) / epoch.n_documents
    with named_errors(params, "prior"):
        family = clumped_family(params.family, params.prior, np.concatenate(epoch.parts))
    return ClumpedState.fresh(GroupedModel(family, LearnedDirichlet()), float(price))


def clumped_family(family: str, prior: str | Mapping[str, Any], X: Mat) -> Family[Any]:
    """The family; its prior expects a topic to have a tenth of the variance of the points X."""
    rows = Rows(X)
    given = {} if isinstance(prior, str) else dict(prior)
    d = X.shape[1]
    if family == "multinomial":
        return resolve_family(family, given, Measured.here(rows))
    moments = Moments.of(rows)
    within = _WITHIN * moments.variance
    defaults = {"mean": moments.mean, "mean_precision": _MEAN_PRECISION}
    if family == "full":
        defaults |= {"degrees_of_freedom": d + 2.0, "scale": np.diag(within)}
    else:
        defaults |= {"shape": 1.5, "rate": 0.5 * within}
    return resolve_family(family, defaults | given, Measured.here(rows))
