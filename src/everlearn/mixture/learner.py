"""What a learner of mixtures is, and the tools that a call gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from everlearn.core.moves import LapInfo
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.rows import Rows
from everlearn.estimator.history import PriorChoice
from everlearn.mixture.local import LocalRunner
from everlearn.mixture.memoized import MoveSettings
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import State

SAMPLE_ROWS: Final = 6000
"""Rows of the sample that components are searched for in."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How to learn a data set.

    Attributes
    ----------
    batch_rows : rows of a batch
    max_laps : most passes over the data
    tol : relative change of the bound below which learning has converged
    sample_rows : rows of the sample that components are searched for in
    """

    batch_rows: int
    max_laps: int
    tol: float
    sample_rows: int = SAMPLE_ROWS


@dataclass(frozen=True, slots=True)
class Window:
    """Rows of a stream that stay in memory, and how many of them make a batch."""

    rows: int
    batch_rows: int


@dataclass(frozen=True, slots=True)
class LearningTools:
    """What a learner works with during one call.

    Attributes
    ----------
    runner : runs the local step on an engine
    moves : which changes of structure to try
    schedule : how to learn a data set
    window : what a stream keeps in memory
    on_lap : called after each lap
    """

    runner: LocalRunner
    moves: MoveSettings
    schedule: Schedule
    window: Window
    on_lap: Callable[[LapInfo], None]


@dataclass(frozen=True, slots=True)
class PriorCandidate:
    """A prior to search with: its name, the model, and whether to learn the spread on the way."""

    name: str
    model: Mixture
    learns: bool = False


NamedRows: TypeAlias = tuple[Rows, int | str | None]
"""Rows, and the name under which they can be forgotten, or None."""


@dataclass(frozen=True, slots=True)
class LearnedLaps:
    """The state after learning rows, its laps, whether it converged, and the prior used."""

    state: State
    converged: bool
    laps: tuple[LapInfo, ...]
    choice: PriorChoice


class Learner(Protocol):
    """An algorithm that learns data sets and streams."""

    def fit(
        self,
        candidates: Sequence[PriorCandidate],
        rows: Rows | ChunkedRows,
        seed: int,
        tools: LearningTools,
    ) -> LearnedLaps:
        """Learn rows that can be visited many times, with the prior that suits them best."""

    def begin(
        self,
        candidates: Sequence[PriorCandidate],
        empty: State,
        parts: Sequence[NamedRows],
        tools: LearningTools,
    ) -> LearnedLaps:
        """Learn the first rows of a stream. The state keeps seed, ids and clock of `empty`."""

    def absorb(
        self, state: State, rows: Rows, tools: LearningTools, name: int | str | None = None
    ) -> State:
        """Learn further rows of a stream. Those with a name can be forgotten later."""
