"""One call of `everlearn learn`: from its options to a run that can be interrupted."""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.progress import ProgressColumn, SpinnerColumn, TextColumn

from everlearn.cli.views import OutputConsole
from everlearn.core.text import counted
from everlearn.engine.opening import keep_engine
from everlearn.engine.progress import ProgressLine
from everlearn.errors import UsageError
from everlearn.io.formats import LineFormat
from everlearn.io.lock import only_writer
from everlearn.io.opening import open_sources, standard_input
from everlearn.store.archive import remove_leftovers
from everlearn.stream.kinds import OPTIONS, parse_settings
from everlearn.stream.learn import Learning, Pace
from everlearn.stream.session import Session, opened

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for on the command line.

    Attributes
    ----------
    model : the model file
    sources : names of files and folders, or "-"
    layout : what is said about how records shall be read, by names of `Layout`
    params : parameters of the estimator
    pace : when to write and to score
    stdin_format : what comes through standard input
    strict : whether a bad record ends the run
    """

    model: Path
    sources: tuple[str, ...]
    layout: Mapping[str, Any]
    params: Mapping[str, Any]
    pace: Pace
    stdin_format: LineFormat = "jsonl"
    strict: bool = False


def carry_out(request: Request, *, quiet: bool = False, as_json: bool = False) -> int:
    """Learn, showing how it goes; the exit code.

    With `as_json` there is a line of JSON for each batch, and nothing else on standard output;
    `quiet` leaves that as it is and silences everything on standard error but errors.
    """
    if not request.model.parent.is_dir():
        raise UsageError(f"there is no folder {str(request.model.parent)!r}")
    with (
        _silenced() if quiet else nullcontext(),
        only_writer(request.model),
        _stopping() as (stop, caught),
        keep_engine(request.params.get("engine")) as engine,
    ):
        remove_leftovers(request.model)
        if engine is not None:
            request = replace(request, params={**request.params, "engine": engine})
        learning = _prepared(request, stop)
        with LearnProgress(quiet=quiet or as_json) as progress:
            learning.on_batch = _print_line if as_json else progress.show
            session = learning.run()
            if request.params and session.model is not None:
                session.save(request.model)  # parameters may have changed without a new record
    if not quiet and not as_json:
        OutputConsole(stderr=True).print(
            _summary(request.model, session, bool(caught)), markup=False
        )
    return 128 + caught[0] if caught else 0


def _prepared(request: Request, stop: threading.Event) -> Learning:
    given = {name: value for name, value in request.layout.items() if value is not None}
    session = opened(request.model, given, request.params)
    sources = open_sources(
        request.sources,
        standard_input(request.sources),
        stdin_format=request.stdin_format,
        label=session.layout.label,
    )
    params = {"random_state": 0, **request.params}
    learning = Learning(request.model, session, sources, params, request.pace, request.strict)
    learning.stop = stop
    return learning


@contextmanager
def _silenced() -> Iterator[None]:
    """No warnings, neither those of the library's logger nor Python's."""
    logger = logging.getLogger("everlearn")
    level, shown = logger.level, warnings.showwarning
    logger.setLevel(logging.ERROR)
    warnings.showwarning = lambda *_, **__: None
    try:
        yield
    finally:
        logger.setLevel(level)
        warnings.showwarning = shown


@contextmanager
def _stopping() -> Iterator[tuple[threading.Event, list[int]]]:
    """Ctrl-C and SIGTERM set an event; when they come again they end the process."""
    stop = threading.Event()
    caught: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if caught:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        caught.append(number)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop, caught
        return
    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield stop, caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class LearnProgress(ProgressLine):
    """Records, bad records and components of a stream whose end nobody knows."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(not quiet, None, OutputConsole(stderr=True), bad="", found="")

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (
            SpinnerColumn(),
            TextColumn("{task.completed:,.0f} records"),
            TextColumn("{task.fields[bad]}"),
            TextColumn("[bold]{task.fields[found]}[/bold]"),
        )

    def show(self, line: Mapping[str, Any]) -> None:
        """One more batch is learned."""
        bad = f"{line['bad']:,} bad" if line["bad"] else ""
        found = f"K {line['components']}" if "components" in line else ""
        self._update(completed=line["records"], bad=bad, found=found)


def _print_line(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _summary(model: Path, session: Session, stopped: bool) -> str:
    ledger = session.ledger
    bad = f", {counted(ledger.bad, 'bad one')} set aside" if ledger.bad else ""
    if session.model is None:
        if stopped:
            return f"Stopped before the first batch was learned{bad}; there is no {model} yet."
        return "Nothing to learn from."
    learned = f"{counted(ledger.records, 'record')} learned"
    return f"{model}: {learned} in {counted(ledger.batches, 'batch', 'batches')}{bad}."


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Names with commas between them."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if len(set(names)) < len(names) or not all(names):
        raise UsageError(f"names must differ and not be empty, got {text!r}")
    return names


def params_of(settings: Sequence[str], **options: Any) -> dict[str, Any]:
    """Parameters of the estimator from ``--set`` and from options that are parameters too."""
    params = parse_settings(settings)
    for name, value in options.items():
        if value is not None and name in params:
            raise UsageError(f"{OPTIONS[name]} and --set {name} are the same; give one of them")
        if value is not None:
            params[name] = value
    return params


def pace_of(every: str, score_every: int, idle: float) -> Pace:
    """When to write: text such as "30s", "5m" or "100"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", every.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageError(
            f"--every must be a time such as 30s or a number of batches, got {every!r}"
        )
    pace = Pace(score_every=score_every, idle=idle)
    if match[2]:
        return replace(pace, every_seconds=float(match[1]) * _SECONDS[match[2]])
    if "." in match[1]:
        raise UsageError(f"--every must be a whole number of batches, got {every!r}")
    return replace(pace, every_batches=int(match[1]))
