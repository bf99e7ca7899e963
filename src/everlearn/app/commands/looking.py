"""Commands that look at a model and change nothing: show, log, diff, audit, predict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from everlearn.app.commands import options as opt
from everlearn.app.commands.exits import told_errors


def show(model: opt.ModelFile, as_json: opt.AsJson = False) -> None:
    """Show what a model has found, its memory, its history and its sources.

    Example: everlearn show news.evl
    """
    with told_errors():
        from everlearn.app.tool import views
        from everlearn.app.tool.learning import log_path
        from everlearn.app.tool.session import Session
        from everlearn.runtime.stream.runlog import read_log

        session = Session.load(model)
        lines = read_log(log_path(model))
        if as_json:
            _print(views.summary(session, lines))
        else:
            views.show(model, session, lines)


def log(model: opt.ModelFile, as_json: opt.AsJson = False) -> None:
    """Tell when components were born, merged and deleted, by their permanent ids.

    Example: everlearn log news.evl
    """
    with told_errors():
        from everlearn.app.tool import views
        from everlearn.app.tool.learning import log_path
        from everlearn.app.tool.session import Session
        from everlearn.runtime.stream.runlog import read_log

        Session.load(model)  # a log without its model, or beside a foreign file, tells nothing
        lines = read_log(log_path(model))
        if as_json:
            for line in lines:
                _print(line)
        else:
            views.show_log(lines)


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A model file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A later one of the same model.")],
    as_json: opt.AsJson = False,
) -> None:
    """Compare two model files: what was born, what is gone, what grew and shrank.

    Example: everlearn diff monday.evl friday.evl
    """
    with told_errors():
        from everlearn.app.tool import views
        from everlearn.app.tool.differences import differences
        from everlearn.app.tool.session import Session

        found = differences(Session.load(old), Session.load(new))
        if as_json:
            _print(found.to_json())
        else:
            views.show_differences(found)


def predict(
    model: opt.ModelFile, sources: opt.Sources, stdin_format: opt.StdinFormat = "jsonl"
) -> None:
    """Say what a model makes of new records, one JSON object a line.

    Records that cannot be read get a line with an error.

    Example: everlearn predict spam.evl new.jsonl > answers.jsonl
    """
    with told_errors():
        from everlearn.app.tool.predicting import predictions
        from everlearn.app.tool.session import Session

        session = Session.load(model)
        for answer in predictions(session, _sources(session, sources, stdin_format)):
            _print(answer)


def audit(
    model: opt.ModelFile,
    sources: opt.Sources,
    stdin_format: opt.StdinFormat = "jsonl",
    as_json: opt.AsJson = False,
) -> None:
    """Hand out a report card: how well what was learned long ago is explained today.

    The sources are those that the model has learned from. Batches that were
    scored when they were learned are scored again.

    Example: everlearn audit news.evl articles/
    """
    with told_errors():
        from everlearn.app.tool import views
        from everlearn.app.tool.audit import audited
        from everlearn.app.tool.session import Session

        session = Session.load(model)
        card = audited(model, session, _sources(session, sources, stdin_format))
        if as_json:
            _print(views.card_summary(card))
        else:
            views.show_card(card)


def _sources(session: Any, names: list[str], stdin_format: Any) -> Any:
    from everlearn.runtime.stream.opening import open_sources, standard_input

    return open_sources(
        names, standard_input(names), stdin_format=stdin_format, label=session.layout.label
    )


def _print(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    sys.stdout.flush()
