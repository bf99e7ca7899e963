"""The command line: one module for each command, joined here.

Nothing heavy is imported before a command runs, so `--help` and `--version` answer at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

import everlearn
from everlearn.cli.demo import demo
from everlearn.cli.exits import EXIT_CODES
from everlearn.cli.inspect import audit, diff, log, predict, report, show
from everlearn.cli.learn import learn

app = typer.Typer(
    name="everlearn",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"everlearn {everlearn.__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Bayesian models that keep learning from a stream.

    Example: everlearn learn news.evl --kind topics articles/

    Then: everlearn show news.evl

    Or: everlearn predict news.evl new.jsonl > answers.jsonl

    Or: everlearn report news.evl -o news.html

    To look around without data: everlearn demo --output digits.html
    """


for command in (learn, show, predict, report, log, diff, audit, demo):
    app.command(epilog=EXIT_CODES)(command)
