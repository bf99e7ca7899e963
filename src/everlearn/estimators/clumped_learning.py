"""How `ClumpedTopicModel` puts the parts together: parameters and documents in, a state out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.errors import ForcedJoinWarning, MemoryBudgetError
from everlearn.core.params import parse_bytes
from everlearn.core.words import counted
from everlearn.estimators.clumped_beginning import RELATIVE_PRICE, Asked, fresh_state
from everlearn.estimators.history import History
from everlearn.inference.clumped_state import ClumpedState, Epoch, KeepLimits
from everlearn.inference.engine import Engine
from everlearn.inference.epoch_work import EpochWork
from everlearn.inference.learners.clumped import (
    BuildSettings,
    ClumpedLearner,
    EpochInfo,
)
from everlearn.inference.learners.memoized import LapInfo
from everlearn.runtime.engine import open_engine
from everlearn.runtime.progress import DocumentProgress

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
