"""Run `fit`, `partial_fit` or `set_params` of a `ClumpedTopicModel`, and return what it learned."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from everlearn.clumps.budget import KeepLimits, epoch_bytes
from everlearn.clumps.epochs import ClumpedLearner, EpochInfo
from everlearn.clumps.prior import fresh_state
from everlearn.clumps.settings import ClumpSettings
from everlearn.clumps.state import ClumpedState, Epoch
from everlearn.core.arrays import Mat
from everlearn.core.moves import LapInfo
from everlearn.core.text import counted
from everlearn.engine.opening import open_engine
from everlearn.engine.progress import DocumentProgress
from everlearn.errors import ForcedJoinWarning, MemoryBudgetError
from everlearn.estimator.history import History


@dataclass(frozen=True, slots=True)
class ClumpedFit:
    """What a `ClumpedTopicModel` has learned.

    Attributes
    ----------
    state : topics and compressed points
    history : the bound after each epoch
    price_rule : the parameter `topic_price` at the beginning: "auto" or "number"
    given_prior : names of the prior's entries that were set by hand at the beginning, sorted
    limits : those within which the state was compressed last
    """

    state: ClumpedState
    history: History
    price_rule: str
    given_prior: tuple[str, ...]
    limits: KeepLimits

    @classmethod
    def fresh(cls, settings: ClumpSettings, epoch: Epoch) -> ClumpedFit:
        """Nothing learned yet. The first epoch decides on the prior and the price."""
        rule = settings.topic_price if isinstance(settings.topic_price, str) else "number"
        state = fresh_state(settings, epoch)
        return cls(state, History(), rule, given_entries(settings), settings.limits)

    @property
    def seed(self) -> int:
        """Always 0: learning draws no random numbers. All saved models have a seed."""
        return 0

    @property
    def n_features(self) -> int:
        """Width of a point."""
        return self.state.model.family.n_features

    def after_epoch(self, state: ClumpedState, limits: KeepLimits) -> ClumpedFit:
        """With the state after one more epoch."""
        bound, k, points = state.bound, len(state.topics), float(state.n_points)
        lap = LapInfo(state.n_epochs, bound, k, points, (), False)
        return replace(self, state=state, history=self.history.after(lap), limits=limits)


def given_entries(settings: ClumpSettings) -> tuple[str, ...]:
    """Names of the prior's entries that are set by hand, sorted."""
    return () if isinstance(settings.prior, str) else tuple(sorted(settings.prior))


def learn(
    settings: ClumpSettings, known: ClumpedFit | None, documents: Iterable[Mat]
) -> ClumpedFit:
    """Learn from documents in epochs. `known` is None for a new model."""
    total = len(documents) if isinstance(documents, Sized) else None
    remaining, waiting = iter(documents), list[Mat]()
    fit, done = known, 0
    with (
        open_engine(settings.engine) as engine,
        DocumentProgress(settings.verbose, total) as line,
    ):
        learner = ClumpedLearner(engine, settings)
        while waiting := _filled(waiting, remaining, settings.batch_size):
            epoch = _next_epoch(settings, fit, waiting)
            waiting = waiting[epoch.n_documents :]
            if fit is None:
                fit = ClumpedFit.fresh(settings, epoch)
            state, info = learner.learn(_tracked(settings, fit.state), epoch)
            _warn_of_joins(settings.owner, info)
            fit = fit.after_epoch(state, settings.limits)
            done += epoch.n_documents
            line.show(done, len(state.topics))
    if fit is None:
        raise ValueError(f"X of {settings.owner} must have a document. Got none.")
    return fit


def numbered(fit: ClumpedFit) -> ClumpedFit:
    """The fit with topics numbered from 0, the largest first."""
    topics = fit.state.topics
    found = topics.select(np.argsort(-topics.n, kind="stable"))
    found = replace(found, ids=np.arange(len(topics)))
    return replace(fit, state=replace(fit.state, topics=found, next_id=len(topics)))


def _filled(waiting: list[Mat], remaining: Iterator[Mat], size: int | None) -> list[Mat]:
    """The documents that wait, filled up to `size` from those that remain."""
    return [*waiting, *islice(remaining, None if size is None else size - len(waiting))]


def _next_epoch(settings: ClumpSettings, fit: ClumpedFit | None, waiting: Sequence[Mat]) -> Epoch:
    """The documents that wait, or as many of the first ones as fit into the epoch budget.

    Documents are never cut: the two halves would have two mixtures of topics.
    """
    if settings.epoch_budget is None:
        return Epoch(waiting)
    state = fresh_state(settings, Epoch(waiting[:1])) if fit is None else fit.state
    n_points = np.cumsum([len(part) for part in waiting]).tolist()
    needed = [epoch_bytes(state, settings.limits, n, j) for j, n in enumerate(n_points, 1)]
    count = sum(n <= settings.epoch_budget for n in needed)
    if count == 0:
        raise MemoryBudgetError(
            f"the 'epoch_budget' of {settings.owner} must hold the work on one document and on "
            f"what is kept of earlier ones: one of {counted(len(waiting[0]), 'point')} takes "
            f"{needed[0]:,.0f} bytes. Got {settings.epoch_budget:,} bytes; allow more, or split "
            "the document"
        )
    return Epoch(waiting[:count])


def _tracked(settings: ClumpSettings, state: ClumpedState) -> ClumpedState:
    """The state, without the group of each document unless these are tracked."""
    return state if settings.track_documents else replace(state, document_groups=None)


def compress(settings: ClumpSettings, fit: ClumpedFit) -> ClumpedFit:
    """The model compressed to the limits of the settings, unchanged if it is within them."""
    limits, state = settings.limits, _tracked(settings, fit.state)
    if limits.met_by(state, fit.limits):
        return replace(fit, state=state)
    with open_engine(settings.engine) as engine:
        state, info = ClumpedLearner(engine, settings).recompress(state)
    _warn_of_joins(settings.owner, info)
    return replace(fit, state=state, limits=limits)


def _warn_of_joins(owner: str, info: EpochInfo) -> None:
    if info.forced_joins:
        warnings.warn(
            f"{counted(info.forced_joins, 'topic')} of {owner} had to be joined with others "
            "because clumps for all of them do not fit: allow a larger 'memory_budget' or "
            "'max_clumps', or ask for fewer topics by a higher 'topic_price'.",
            ForcedJoinWarning,
            stacklevel=4,
        )
