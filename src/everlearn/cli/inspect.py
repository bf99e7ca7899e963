"""Commands that use a model file: report, show, log, diff, predict and audit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everlearn.cli import options as opt
from everlearn.cli.exits import exit_on_errors

if TYPE_CHECKING:
    from everlearn.io.sources import Source
    from everlearn.stream.session import Session


def report(
    model: opt.ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the page to this HTML file.")
    ] = Path("everlearn-report.html"),
) -> None:
    """Write an HTML report: what the model found, how it grew, what it read.

    The page needs no network. It has a light and a dark theme.

    Example: everlearn report news.evl --output news.html
    """
    opt.check_output(output)
    with exit_on_errors():
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
    """Show what a model has found, its history and its sources.

    Example: everlearn show news.evl
    """
    with exit_on_errors():
        from everlearn.cli import views
        from everlearn.cli.terminal import print_json
        from everlearn.io.log import read_log
        from everlearn.stream.learn import log_path
        from everlearn.stream.session import Session

        session = Session.load(model)
        lines = read_log(log_path(model))
        if as_json:
            print_json(views.summary(session, lines))
        else:
            views.show(model, session, lines)


def log(model: opt.ModelFile, as_json: opt.AsJson = False) -> None:
    """List births, merges and deletions of components, and records that fit badly.

    With --json, print all lines of the log: one for each batch.

    Example: everlearn log news.evl
    """
    with exit_on_errors():
        from everlearn.cli import views
        from everlearn.cli.terminal import print_json
        from everlearn.io.log import read_log
        from everlearn.stream.learn import log_path
        from everlearn.stream.session import Session

        Session.load(model)  # raises if the log belongs to no model
        lines = read_log(log_path(model))
        if as_json:
            for line in lines:
                print_json(line)
        else:
            views.show_log(lines)


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Compare this model file.")],
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="Compare it with this later file of the model.")
    ],
    as_json: opt.AsJson = False,
) -> None:
    """Compare two files of one model: components born, gone and changed.

    Example: everlearn diff monday.evl friday.evl
    """
    with exit_on_errors():
        from everlearn.cli import views
        from everlearn.cli.terminal import print_json
        from everlearn.stream.diff import differences
        from everlearn.stream.session import Session

        found = differences(Session.load(old), Session.load(new))
        if as_json:
            print_json(found.to_json())
        else:
            views.show_differences(found)


def predict(
    model: opt.ModelFile,
    sources: opt.Sources,
    stdin_format: opt.StdinFormat = "jsonl",
    encoding: opt.Encoding = None,
) -> None:
    """Predict new records, one line of JSON for each.

    A bad record gets a line with an error.

    Example: everlearn predict spam.evl new.jsonl > answers.jsonl
    """
    with exit_on_errors():
        from everlearn.cli.terminal import print_json
        from everlearn.stream.layout import checked_options
        from everlearn.stream.predict import predictions
        from everlearn.stream.session import Session

        session = Session.load(model)
        options = {} if encoding is None else checked_options({"encoding": encoding})
        session = replace(session, layout=replace(session.layout, **options))
        files = _open(session, sources, stdin_format)
        for answer in predictions(session.reading_as(files, options), files):
            print_json(answer)


def audit(
    model: opt.ModelFile,
    sources: opt.Sources,
    stdin_format: opt.StdinFormat = "jsonl",
    as_json: opt.AsJson = False,
) -> None:
    """Check for forgetting: score old records with today's model.

    Give the sources that the model has learned from. Batches that were scored
    when they were learned (--score-every) are scored again. A negative change
    means that the model explains them worse than it did.

    Example: everlearn audit news.evl articles/
    """
    with exit_on_errors():
        from everlearn.cli import views
        from everlearn.cli.terminal import print_json
        from everlearn.stream.audit import audit_model
        from everlearn.stream.session import Session

        session = Session.load(model)
        result = audit_model(model, session, _open(session, sources, stdin_format))
        if as_json:
            print_json(views.audit_summary(result))
        else:
            views.show_audit(result)


def _open(session: Session, names: list[str], stdin_format: opt.LineFormat) -> list[Source]:
    from everlearn.io.opening import open_sources

    layout = session.layout
    return open_sources(
        names, stdin_format=stdin_format, label=layout.label, writing=layout.writing
    )
