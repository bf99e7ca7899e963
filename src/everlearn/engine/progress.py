"""Progress lines on the terminal while a model learns."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

Trace: TypeAlias = list[tuple[float, int]]
"""CPU seconds and number of components, lap by lap."""
_WATCHED: Final[ContextVar[tuple[float, Trace] | None]] = ContextVar("watched", default=None)


@contextmanager
def watched_growth() -> Iterator[Trace]:
    """Record the number of components over time of models that are fitted in the block.

    Seconds are CPU seconds of this process since the block began. Models do not keep them. Only
    models that this thread fits are recorded.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import DPMixture
    >>> with watched_growth() as trace:
    ...     model = DPMixture(random_state=0).fit(np.random.default_rng(0).normal(size=(50, 2)))
    >>> trace[-1][1] == model.n_components_
    True
    """
    trace: Trace = []
    token = _WATCHED.set((time.process_time(), trace))
    try:
        yield trace
    finally:
        _WATCHED.reset(token)


class ProgressLine(ABC):
    """A progress line that is updated in place. With `verbose=0` it does nothing."""

    def __init__(
        self, verbose: int, total: int | None, console: Console | None = None, **fields: Any
    ) -> None:
        self._progress: Progress | None = None
        if verbose:
            self._progress = Progress(*self._columns(), TimeElapsedColumn(), console=console)
            self._progress.add_task("", start=True, total=total, visible=False, **fields)

    @staticmethod
    @abstractmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        """What the line shows before the time."""

    @property
    def shown(self) -> bool:
        """Whether the line is printed."""
        return self._progress is not None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _update(self, **changes: Any) -> None:
        if self._progress is not None:
            (task,) = self._progress.task_ids
            self._progress.update(task, visible=True, **changes)


class LapProgress(ProgressLine):
    """Shows lap, bound and number of components."""

    def __init__(self, verbose: int, max_laps: int | None, console: Console | None = None) -> None:
        super().__init__(verbose, max_laps, console, bound=0, components=0)

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (
            TextColumn("lap {task.completed:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("bound {task.fields[bound]:,.1f}"),
            TextColumn("{task.fields[components]} components"),
        )

    def show(self, bound: float, n_components: int) -> None:
        """Count a lap, and show its bound and number of components."""
        if (watched := _WATCHED.get()) is not None:
            start, trace = watched
            trace.append((time.process_time() - start, n_components))
        self._update(advance=1, bound=bound, components=n_components)


class DocumentProgress(ProgressLine):
    """Shows how many documents are learned, and the number of topics."""

    def __init__(
        self, verbose: int, n_documents: int | None, console: Console | None = None
    ) -> None:
        super().__init__(verbose, n_documents, console, topics=0)

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (
            TextColumn("{task.completed:,.0f} documents"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[topics]} topics"),
        )

    def show(self, n_documents: int, n_topics: int) -> None:
        """Show how many documents are done."""
        self._update(completed=n_documents, topics=n_topics)


class RowProgress(ProgressLine):
    """Shows how many rows are learned, and their mean log-likelihood where it is known."""

    def __init__(self, verbose: int, n_rows: int | None, console: Console | None = None) -> None:
        super().__init__(verbose, n_rows, console, likelihood="")

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (
            TextColumn("{task.completed:,.0f} rows"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[likelihood]}"),
        )

    def show(self, n_rows: int, log_likelihood: float | None) -> None:
        """Show how many rows are done."""
        if self.shown:
            said = "" if log_likelihood is None else f"{log_likelihood:,.3f} nats per row"
            self._update(completed=n_rows, likelihood=said)


class ImageProgress(ProgressLine):
    """Shows how many images are described."""

    def __init__(self, verbose: int, n_images: int | None, console: Console | None = None) -> None:
        super().__init__(verbose, n_images, console)

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (TextColumn("{task.completed:,.0f} images"), BarColumn(bar_width=24))

    def show(self, n_images: int) -> None:
        """Count further images."""
        self._update(advance=n_images)
