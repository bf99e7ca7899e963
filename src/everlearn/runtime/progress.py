"""A progress line for whoever watches a run."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class LapProgress:
    """Shows lap, bound and number of components; with `verbose=0` it shows nothing."""

    def __init__(self, verbose: int, max_laps: int | None, console: Console | None = None) -> None:
        columns = (
            TextColumn("lap {task.completed:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("bound {task.fields[bound]:,.1f}"),
            TextColumn("{task.fields[components]} components"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not verbose)
        self._max_laps = max_laps
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, bound: float, n_components: int) -> None:
        """One more lap is done."""
        if self._task is None:
            self._task = self._progress.add_task(
                "laps", total=self._max_laps, bound=0, components=0
            )
        self._progress.update(self._task, advance=1, bound=bound, components=n_components)
