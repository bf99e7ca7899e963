"""Progress, warnings and signals of a run on a terminal, and consoles for pipes."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from rich.console import Console
from rich.progress import ProgressColumn, SpinnerColumn, TextColumn

from everlearn.cli.exits import as_typed
from everlearn.core.text import counted
from everlearn.engine.progress import ProgressLine

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class OutputConsole(Console):
    """A console that raises BrokenPipeError when nobody reads its output."""

    def on_broken_pipe(self) -> None:
        """Raise the error again: rich would end the process with an exit code of its own."""
        raise  # noqa: PLE0704  # called while the error is handled


class LearnProgress(ProgressLine):
    """Shows records, bad records and components of a stream of unknown length, and counts them."""

    def __init__(self, *, quiet: bool) -> None:
        console = OutputConsole(stderr=True)
        shown = console.is_terminal and not quiet  # a mail from cron must not hold progress lines
        super().__init__(shown, None, console, bad="", components="")
        self.n_new = self.n_bad = 0

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (
            SpinnerColumn(),
            TextColumn("{task.completed:,.0f} records"),
            TextColumn("{task.fields[bad]}"),
            TextColumn("[bold]{task.fields[components]}[/bold]"),
        )

    def show(self, line: Mapping[str, Any]) -> None:
        """Show a line of the run log, one for each batch."""
        self.n_new += line["new"]
        self.n_bad += line["new_bad"]
        bad = f"{line['bad']:,} bad" if line["bad"] else ""
        components = counted(line["components"], "component") if "components" in line else ""
        self._update(completed=line["records"], bad=bad, components=components)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON, and flush it for the reader of a pipe."""
    text = json.dumps(value, ensure_ascii=False)
    # File names may hold bytes that are not UTF-8, which cannot be printed.
    sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8") + "\n")
    sys.stdout.flush()


@contextmanager
def warnings_silenced() -> Iterator[None]:
    """Silence warnings in the block: those of the library's logger, and Python's."""
    logger = logging.getLogger("everlearn")
    level, show = logger.level, warnings.showwarning
    logger.setLevel(logging.ERROR)
    warnings.showwarning = lambda *_, **__: None
    try:
        yield
    finally:
        logger.setLevel(level)
        warnings.showwarning = show


class _StderrHandler(logging.Handler):
    """Prints log messages on standard error, with options as users type them."""

    def emit(self, record: logging.LogRecord) -> None:
        message = as_typed(record.getMessage()).removeprefix("everlearn: ")
        sys.stderr.write(f"everlearn: {message}\n")


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Print warnings of the library's logger on standard error in the block."""
    logger, handler = logging.getLogger("everlearn"), _StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def stop_on_signals() -> Iterator[tuple[threading.Event, list[int]]]:
    """An event that Ctrl-C or SIGTERM sets, and the signals received so far.

    A second signal ends the process at once.
    """
    stop = threading.Event()
    caught: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if caught:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        caught.append(number)
        stop.set()

    # Only the main thread may set signal handlers.
    if threading.current_thread() is not threading.main_thread():
        yield stop, caught
        return
    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield stop, caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
