"""What a `ClumpedTopicModel` begins with and keeps for life: family, prior and price of a topic."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from everlearn.clumps.budget import EpochWork
from everlearn.clumps.epochs import BuildSettings, ClumpedLearner, EpochInfo
from everlearn.clumps.model import GroupedModel
from everlearn.clumps.state import ClumpedState, Epoch, KeepLimits
from everlearn.core.arrays import Mat
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.gaussian_full import FullGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.moves import LapInfo
from everlearn.core.priors.learned_dirichlet import LearnedDirichlet
from everlearn.core.text import counted
from everlearn.engine.opening import open_engine
from everlearn.engine.progress import DocumentProgress
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.errors import ForcedJoinWarning, MemoryBudgetError
from everlearn.estimator.base import named_errors
from everlearn.estimator.families import DataSummary, Moments, resolve_family
from everlearn.estimator.history import History
from everlearn.estimator.params import parse_bytes

_FAMILY_NAMES: dict[type, str] = {
    DiagGaussian: "diagonal",
    FullGaussian: "full",
    Multinomial: "multinomial",
}
PRICE_PER_NUMBER = 0.015
"""Nats a topic must earn for each number in a typical document, if no price is given."""
RELATIVE_PRICE = 1e-5
"""Share of the bound that a split must gain with the published rule."""
_WITHIN = 0.1
"""Share of the variance of all points that a topic is expected to have."""
_MEAN_PRECISION = 0.1


@dataclass(frozen=True, slots=True)
class Asked:
    """What the parameters were when learning began, of which the state has what came of it."""

    topic_price: float | str
    prior: str | Mapping[str, Any]

    @classmethod
    def of(cls, params: Any) -> Asked:
        """What the parameters are now; the prior's arrays may change later."""
        return cls(params.topic_price, deepcopy(params.prior))


def fresh_state(params: Any, epoch: Epoch) -> ClumpedState:
    """A model that has seen nothing, with a prior and a price that suit the first epoch."""
    price = params.topic_price
    if price == "auto":
        width = 1 if params.family == "multinomial" else epoch.parts[0].shape[1]
        price = PRICE_PER_NUMBER * (epoch.n_points * width) / epoch.n_documents
    elif price == "relative":
        price = 0.0  # beside the share of the bound
    with named_errors(params, "prior"):
        family = clumped_family(params.family, params.prior, np.concatenate(epoch.parts))
    state = ClumpedState.fresh(GroupedModel(family, LearnedDirichlet()), float(price))
    documents = np.empty(0, np.int32) if params.track_documents else None
    return replace(state, document_groups=documents)


def clumped_family(family: str, prior: str | Mapping[str, Any], X: Mat) -> Family[Any]:
    """The family; its prior expects a topic to have a tenth of the variance of the points X."""
    rows = Rows(X)
    given = {} if isinstance(prior, str) else dict(prior)
    d = X.shape[1]
    if family == "multinomial":
        return resolve_family(family, given, DataSummary.from_rows(rows))
    moments = Moments.of(rows)
    within = _WITHIN * moments.variance
    defaults = {"mean": moments.mean, "mean_precision": _MEAN_PRECISION}
    if family == "full":
        defaults |= {"degrees_of_freedom": d + 2.0, "scale": np.diag(within)}
    else:
        defaults |= {"shape": 1.5, "rate": 0.5 * within}
    return resolve_family(family, defaults | given, DataSummary.from_rows(rows))


def check_same_model(params: Any, asked: Asked, state: ClumpedState) -> None:
    """Refuse to go on with another family, prior or price than learning began with.

    What was found for "auto" or "data" may be given in so many numbers; numbers that were given
    stay.
    """
    _check_unchanged(params, "family", params.family, _FAMILY_NAMES[type(state.model.family)])
    price = params.topic_price
    if price == "relative" == asked.topic_price:
        _check_unchanged(params, "topic_price", state.price, 0.0)
    elif price != asked.topic_price or not isinstance(price, str):
        then = state.price if asked.topic_price == "auto" else asked.topic_price
        _check_unchanged(params, "topic_price", price, then)
        _check_unchanged(params, "topic_price", price, state.price)
    if params.track_documents and state.document_groups is None:
        _check_unchanged(params, "track_documents", True, False)
    _check_prior(params, asked, state.model.family)


def _check_prior(params: Any, asked: Asked, known: Any) -> None:
    now, then = _names(params.prior), _names(asked.prior)
    if then and now != then:
        given = f"a prior with {now}" if now else "data"
        _check_unchanged(params, "prior", given, f"a prior with {then}")
    if not now:
        return
    with named_errors(params, "prior"):
        ones = np.ones((1, known.n_features))
        own: Any = clumped_family(params.family, params.prior, ones)
    for name in now:
        value, old = getattr(own.prior, name), getattr(known.prior, name)
        if not np.array_equal(value, old):
            _check_unchanged(params, "prior", f"{name}: {value}", f"{name}: {old}")


def _names(prior: str | Mapping[str, Any]) -> list[str]:
    """Entries that are given by hand."""
    return [] if isinstance(prior, str) else sorted(prior)


def _check_unchanged(params: Any, name: str, now: Any, then: Any) -> None:
    if now != then:
        raise ValueError(
            f"the {name!r} parameter of {type(params).__name__} was {then!r} when learning "
            f"began and cannot change without a new fit. Got {now!r} instead."
        )


MOST_GROUPS = 1000
"""Groups under a budget, if nothing is said of their number: merging takes their square."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A state, how it came about, and the limits within which it was compressed last."""

    state: ClumpedState
    history: History
    asked: Asked
    limits: KeepLimits

    def after(self, state: ClumpedState, limits: KeepLimits) -> Learned:
        """After an epoch."""
        lap = LapInfo(
            state.n_epochs, state.bound, len(state.topics), float(state.n_points), (), False
        )
        return replace(self, state=state, history=self.history.after(lap), limits=limits)


def learn(params: Any, learned: Learned | None, parts: Iterable[Mat]) -> Learned:
    """Learn from documents in epochs; the first epoch decides on prior and price."""
    remaining, waiting, done = iter(parts), list[Mat](), 0
    with (
        open_engine(params.engine) as engine,
        DocumentProgress(params.verbose, len(parts) if isinstance(parts, Sized) else None) as line,
    ):
        learner, size = learner_of(params, engine), params.batch_size
        while waiting := [*waiting, *islice(remaining, size and size - len(waiting))]:
            epoch = _next_epoch(params, learned, waiting)
            waiting = waiting[epoch.n_documents :]
            if learned is None:
                learned = Learned(
                    fresh_state(params, epoch), History(), Asked.of(params), learner.limits
                )
            state, info = learner.learn(_tracked(params, learned.state), epoch)
            _warn_of_joins(params, info)
            learned = learned.after(state, learner.limits)
            done += epoch.n_documents
            line.show(done, len(state.topics))
    if learned is None:
        raise ValueError(f"X of {type(params).__name__} must have a document. Got none.")
    return learned


def _next_epoch(params: Any, learned: Learned | None, some: Sequence[Mat]) -> Epoch:
    """As many of the documents as the work on them has room for.

    Documents are never cut: points of one in two epochs would have two mixtures of topics.
    """
    if params.epoch_budget is None:
        return Epoch(some)
    budget = parse_bytes(params.epoch_budget)
    state = fresh_state(params, Epoch(some[:1])) if learned is None else learned.state
    work = EpochWork(state, limits_of(params))
    points = np.cumsum([len(part) for part in some])
    count = int(sum(work.bytes(int(n), j + 1) <= budget for j, n in enumerate(points)))
    if count == 0:
        raise MemoryBudgetError(
            f"the 'epoch_budget' of {type(params).__name__} must hold the work on one document, "
            f"with what is kept of those before: one of {counted(len(some[0]), 'point')} takes "
            f"{work.bytes(len(some[0]), 1):,.0f} bytes. Got {budget:,} bytes; allow more, or make "
            "several documents of it"
        )
    return Epoch(some[:count])


def _tracked(params: Any, state: ClumpedState) -> ClumpedState:
    """The state, without the groups of documents if they are not wanted any more."""
    return state if params.track_documents else replace(state, document_groups=None)


def compress(params: Any, learned: Learned) -> Learned:
    """The same within the present limits; nothing changes if it is within them already."""
    limits, state = limits_of(params), _tracked(params, learned.state)
    if limits.met_by(state, learned.limits):
        return replace(learned, state=state)
    with open_engine(params.engine) as engine:
        state, info = learner_of(params, engine).recompress(state)
    _warn_of_joins(params, info)
    return replace(learned, state=state, limits=limits)


def _warn_of_joins(params: Any, info: EpochInfo) -> None:
    if info.forced_joins:
        warnings.warn(
            f"{counted(info.forced_joins, 'topic')} of {type(params).__name__} had to be joined "
            "with others because clumps for all do not fit: allow a larger 'memory_budget' or "
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
        least_share=RELATIVE_PRICE if params.topic_price == "relative" else 0.0,
    )
    return ClumpedLearner(
        engine,
        settings,
        limits_of(params),
        params.expected_points,
        params.group_merge,
        params.on_budget,
    )
