"""How `ClumpedTopicModel` puts the parts together: parameters and documents in, a state out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.errors import ForcedJoinWarning
from everlearn.core.params import parse_bytes
from everlearn.core.words import counted
from everlearn.estimators.clumped_beginning import Asked, fresh_state
from everlearn.estimators.history import History
from everlearn.inference.clumped_state import ClumpedState, Epoch, KeepLimits
from everlearn.inference.engine import Engine
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


def learn(params: Any, learned: Learned | None, parts: Sequence[Mat]) -> Learned:
    """Learn from documents in epochs; the first epoch decides on prior and price."""
    size = params.batch_size or len(parts)
    with (
        open_engine(params.engine) as engine,
        DocumentProgress(params.verbose, len(parts)) as progress,
    ):
        learner = learner_of(params, engine)
        for start in range(0, len(parts), size):
            epoch = Epoch(parts[start : start + size])
            if learned is None:
                learned = Learned(
                    fresh_state(params, epoch), History(), Asked.of(params), learner.limits
                )
            state, info = learner.learn(learned.state, epoch)
            _warn_of_joins(params, info)
            learned = learned.after(state, learner.limits)
            progress.show(start + epoch.n_documents, len(state.topics))
    assert learned is not None
    return learned


def compress(params: Any, learned: Learned) -> Learned:
    """The same within the present limits; nothing changes if it is within them already."""
    limits = limits_of(params)
    if limits.met_by(learned.state, learned.limits):
        return learned
    with open_engine(params.engine) as engine:
        state, info = learner_of(params, engine).recompress(learned.state)
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
    )
    return ClumpedLearner(
        engine,
        settings,
        limits_of(params),
        params.expected_points,
        params.group_merge,
        params.on_budget,
    )
