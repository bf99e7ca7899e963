"""What a learner of mixtures is, and the tools that a call gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from everlearn.core.moves import LapInfo
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.rows import Rows
from everlearn.mixture.local import LocalRunner
from everlearn.mixture.memoized import MoveSettings
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import State

SAMPLE_ROWS: Final = 10_000
"""Rows of the sample that learning large data sets starts with."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How to learn a data set.

    Attributes
    ----------
    batch_rows : rows of a batch
    max_laps : most passes over the data
    tol : relative change of the bound below which learning has converged
    start_components : components at the beginning
    n_init : number of starts
    sample_rows : rows of the sample that learning large data sets starts with
    """

    batch_rows: int
    max_laps: int
    tol: float
    start_components: int = 1
    n_init: int = 1
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
class LearnedLaps:
    """The state after learning a data set, whether it converged, and its laps."""

    state: State
    converged: bool
    laps: tuple[LapInfo, ...]


class Learner(Protocol):
    """An algorithm that learns data sets and streams."""

    def fit(
        self, model: Mixture, rows: Rows | ChunkedRows, seed: int, tools: LearningTools
    ) -> LearnedLaps:
        """Learn rows that can be visited many times."""

    def absorb(
        self, state: State, rows: Rows, tools: LearningTools, name: int | str | None = None
    ) -> State:
        """Learn rows of a stream. Those with a name can be forgotten later."""
