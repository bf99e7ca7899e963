"""The command `everlearn` and its subcommands.

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
from everlearn.cli.warmup import warmup

app = typer.Typer(
    name="everlearn",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"everlearn {everlearn.__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Learn Bayesian models from a stream, and ask what they have found.

    Example: everlearn learn news.evl articles/ --kind topics

    Then: everlearn show news.evl

    Or: everlearn predict news.evl new.jsonl > answers.jsonl

    Or: everlearn report news.evl --output news.html

    Without data of your own: everlearn demo
    """


for command in (learn, show, predict, report, log, diff, audit, demo, warmup):
    app.command(epilog=EXIT_CODES)(command)
