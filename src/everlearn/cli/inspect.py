"""`everlearn report`: one page about a model."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from everlearn.cli import options as opt
from everlearn.cli.exits import fail, told_errors
from everlearn.cli.options import check_output


def report(
    model: opt.ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "everlearn-report.html"
    ),
) -> None:
    """Write one page about a model: what it found, how it grew, what it read.

    The page opens without a network, by light and by dark, and on a phone.

    Example: everlearn report news.evl -o news.html
    """
    check_output(output)
    if find_spec("plotly") is None:
        fail("the report needs plotly; install it with: pip install 'everlearn[report]'")
    with told_errors():
        from everlearn.io.log import read_log
        from everlearn.report.stream import StreamReport, write_stream_report
        from everlearn.stream.learn import log_path, quarantine_path
        from everlearn.stream.session import Session

        session = Session.load(model)
        reasons = Counter(str(line.get("reason")) for line in read_log(quarantine_path(model)))
        log = list(read_log(log_path(model)))
        write_stream_report(StreamReport(model.name, session, log, reasons), output)
    typer.echo(str(output))


def show(model: opt.ModelFile, as_json: opt.AsJson = False) -> None:
    """Show what a model has found, its memory, its history and its sources.

    Example: everlearn show news.evl
    """
    with told_errors():
        from everlearn.cli import views
        from everlearn.io.log import read_log
        from everlearn.stream.learn import log_path
        from everlearn.stream.session import Session

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
        from everlearn.cli import views
        from everlearn.io.log import read_log
        from everlearn.stream.learn import log_path
        from everlearn.stream.session import Session

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
        from everlearn.cli import views
        from everlearn.stream.diff import differences
        from everlearn.stream.session import Session

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
        from everlearn.stream.predict import predictions
        from everlearn.stream.session import Session

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
        from everlearn.cli import views
        from everlearn.stream.audit import audited
        from everlearn.stream.session import Session

        session = Session.load(model)
        card = audited(model, session, _sources(session, sources, stdin_format))
        if as_json:
            _print(views.card_summary(card))
        else:
            views.show_card(card)


def _sources(session: Any, names: list[str], stdin_format: Any) -> Any:
    from everlearn.io.opening import open_sources, standard_input

    return open_sources(
        names, standard_input(names), stdin_format=stdin_format, label=session.layout.label
    )


def _print(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    sys.stdout.flush()
