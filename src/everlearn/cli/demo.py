"""`everlearn demo`: learn digits and docstrings as streams and write a report."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from everlearn.cli.exits import fail
from everlearn.cli.options import check_output

MAX_BATCH = 1000


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML report to write.")
    ] = Path("everlearn-report.html"),
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Of the order of the streams and all draws.")
    ] = 0,
    batch: Annotated[int, typer.Option(min=1, max=MAX_BATCH, help="Images in a batch.")] = 100,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the path of the report only.")
    ] = False,
) -> None:
    """Learn handwritten digits and docstrings as streams and write an HTML report.

    Each of 1,797 small images is seen once, and nobody says what it shows. Half
    way the model is saved, loaded and continued. Then docstrings of the
    installed packages pass by once: a tree of topics grows from them, and a
    classifier learns to tell their packages. The report is one file that opens
    without a network; its path is the last line printed.

    Example: everlearn demo --seed 1 --output digits.html
    """
    check_output(output)
    if find_spec("plotly") is None:
        fail("the report needs plotly; install it with: pip install 'everlearn[report]'")

    from everlearn.attic import app_console as console
    from everlearn.attic import app_digits as digits
    from everlearn.attic import app_docstrings as docstrings
    from everlearn.attic import app_packages as packages
    from everlearn.attic import app_streaming as streaming
    from everlearn.attic.app_report_packages import package_sections
    from everlearn.report.mixture import write_report

    data = digits.load()
    with console.BatchProgress(len(data.rows), quiet=quiet) as progress:
        run = streaming.learn_stream(
            digits.new_model(seed), digits.in_random_order(data.rows, seed), batch, progress.show
        )
    study = digits.study(data, run, seed=seed, batch=batch)
    corpus = docstrings.load(seed)
    with console.TreeProgress(len(corpus), quiet=quiet) as progress:
        texts = packages.learn(corpus, seed, progress.show)
    if not quiet:
        console.show_study(study, run)
        console.show_packages(texts)
    if not run.identical:
        fail("the model that was saved, loaded and continued differs from one never stopped")
    try:
        write_report(study, output, package_sections(texts))
    except OSError as error:
        fail(f"the report could not be written: {error}")
    typer.echo(str(output))
