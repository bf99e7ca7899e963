"""`everlearn learn`: start or continue a model from files, folders and pipes."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from everlearn.cli import options as opt
from everlearn.cli.exits import exit_on_errors
from everlearn.errors import UsageError

if TYPE_CHECKING:
    from everlearn.cli.terminal import LearnProgress
    from everlearn.stream.learn import LearnRequest, Schedule
    from everlearn.stream.session import Session

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_OPTION_OF: Final = {"memory_budget": "--memory", "engine": "--engine", "random_state": "--seed"}
"""Parameters of estimators that have an option of their own."""


def learn(
    model: opt.ModelFile,
    sources: opt.Sources,
    kind: opt.KindOption = None,
    settings: opt.Settings = None,
    batch: opt.BatchSize = None,
    memory: opt.Memory = None,
    every: opt.Every = "30s",
    label: opt.LabelField = None,
    text: opt.TextField = None,
    columns: opt.Columns = None,
    classes: opt.Classes = None,
    image_side: opt.ImageSide = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = None,
    stdin_format: opt.StdinFormat = "jsonl",
    idle: opt.Idle = 60.0,
    score_every: opt.ScoreEvery = 20,
    strict: opt.Strict = False,
    engine: opt.EngineName = None,
    seed: opt.Seed = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Learn from files, folders or a pipe into one model file.

    No record is learned twice. Run it again to learn what is new in the
    sources, or give others. A run that was stopped or killed goes on where it
    was, and ends with the same file, byte for byte, as one that was not.

    Bad records go to MODEL.quarantine.jsonl with the reason. The log of the
    run is in MODEL.log.jsonl; everlearn log shows it.

    Example: everlearn learn news.evl articles/ --kind topics --set n_topics=100

    Or: everlearn learn sales.evl today.csv --kind mixture --memory 64MB

    Or: tail -f app.jsonl | everlearn learn app.evl - --kind tree --text message

    Or: everlearn learn spam.evl mails.parquet --kind classifier --label folder
    """
    given = {
        "kind": kind,
        "batch": batch,
        "text": text,
        "label": label,
        "columns": columns,
        "classes": classes,
        "image_side": image_side,
        "encoding": encoding,
        "decimal": decimal,
    }
    with exit_on_errors():
        from everlearn.stream.learn import LearnRequest

        options: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        for name in {"columns", "classes"} & options.keys():
            options[name] = parse_names(f"--{name}", options[name])
        request = LearnRequest(
            model,
            tuple(sources),
            options,
            parse_params(settings or [], memory_budget=memory, engine=engine, random_state=seed),
            parse_schedule(every, score_every, idle),
            stdin_format=stdin_format,
            strict=strict,
        )
        code = learn_in_terminal(request, quiet=quiet, as_json=as_json)
    if code:
        raise typer.Exit(code)


def learn_in_terminal(request: LearnRequest, *, quiet: bool = False, as_json: bool = False) -> int:
    """Learn and show progress. Returns the exit code: 0, or 130 or 143 after a signal.

    With `as_json`, standard output gets one line of JSON for each batch. With `quiet`, standard
    error gets errors only.
    """
    from everlearn.cli.terminal import (
        LearnProgress,
        OutputConsole,
        notes_on_stderr,
        print_json,
        stop_on_signals,
        warnings_silenced,
    )
    from everlearn.stream.learn import learn_stream

    with (
        warnings_silenced() if quiet else notes_on_stderr(),
        stop_on_signals() as (stop, caught),
        LearnProgress(quiet=quiet or as_json) as progress,
    ):
        show = print_json if as_json else progress.show
        session = learn_stream(request, stop=stop, on_batch=show)
    if not quiet and not as_json:
        summary = _summary(request.model, session, progress, is_stopped=bool(caught))
        OutputConsole(stderr=True).print(summary, markup=False, soft_wrap=True)
    return 128 + caught[0] if caught else 0


def _summary(model: Path, session: Session, progress: LearnProgress, *, is_stopped: bool) -> str:
    from everlearn.core.text import counted
    from everlearn.stream.learn import quarantine_path

    if session.model_or_none is None:
        why = "Stopped before the first batch" if is_stopped else "Nothing was learned"
        return f"{why}, so {model} was not written."
    learned = f"{counted(progress.n_new, 'new record')} ({session.ledger.records:,} in all)"
    bad = f"{counted(progress.n_bad, 'bad one')} set aside in {quarantine_path(model)}"
    return f"{model}: {learned}{f', {bad}' if progress.n_bad else ''}."


def parse_names(option: str, text: str) -> tuple[str, ...]:
    """Names separated by commas; a name with a comma is in double quotes, as in CSV."""
    rows = [*csv.reader([text], skipinitialspace=True)]
    names = tuple(name.strip() for row in rows for name in row)
    if len(set(names)) < len(names) or not names or not all(names):
        raise UsageError(
            f"{option} must be different names separated by commas, such as a,b, got {text!r}"
        )
    return names


def parse_params(settings: Sequence[str], **options: Any) -> dict[str, Any]:
    """Parameters of the estimator from ``--set NAME=VALUE`` and from options of their own.

    Values of ``--set`` are JSON, or else text.

    Examples
    --------
    >>> parse_params(["n_topics=20", "family=full", "shuffle=false"], random_state=3)
    {'n_topics': 20, 'family': 'full', 'shuffle': False, 'random_state': 3}
    """
    params: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise UsageError(f"--set must be NAME=VALUE, such as n_topics=20, got {setting!r}")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    for name, value in options.items():
        if value is not None and name in params:
            raise UsageError(f"{_OPTION_OF[name]} and --set {name} are the same; give one of them")
        if value is not None:
            params[name] = value
    return params


def parse_schedule(every: str, score_every: int, idle: float) -> Schedule:
    """The schedule, where `every` is a text such as "30s", "5m" or "100" (batches)."""
    from everlearn.stream.learn import Schedule

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", every.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageError(
            f"--every must be a time such as 30s, 5m or 1h, or a number of batches, got {every!r}"
        )
    if match[2]:
        seconds = float(match[1]) * _SECONDS[match[2]]
        return Schedule(every_seconds=seconds, score_every=score_every, idle=idle)
    if "." in match[1]:
        raise UsageError(
            f"--every must be a whole number of batches, or a time such as {every}s, got {every!r}"
        )
    return Schedule(every_batches=int(match[1]), score_every=score_every, idle=idle)
