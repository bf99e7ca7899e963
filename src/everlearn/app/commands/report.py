"""`everlearn report`: one page about a model."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from everlearn.app.commands import options as opt
from everlearn.app.commands.exits import fail, told_errors
from everlearn.app.commands.places import check_output


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
        from everlearn.app.report.stream import StreamStory, write_stream_report
        from everlearn.app.tool.learning import log_path, quarantine_path
        from everlearn.app.tool.session import Session
        from everlearn.runtime.stream.runlog import read_log

        session = Session.load(model)
        reasons = Counter(str(line.get("reason")) for line in read_log(quarantine_path(model)))
        log = list(read_log(log_path(model)))
        write_stream_report(StreamStory(model.name, session, log, reasons), output)
    typer.echo(str(output))
