"""`everlearn demo`: learn built-in data with the commands that users type, and write reports."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everlearn.cli.exits import exit_on_errors

if TYPE_CHECKING:
    from everlearn.cli.demo_data import Corpus


def demo(
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Write to this folder; create it if needed.")
    ] = Path("everlearn-demo"),
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Set the seed of all random choices.")
    ] = 0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the paths of the reports.")
    ] = False,
) -> None:
    """Learn built-in data and write three reports.

    The data are 1,797 handwritten digits as rows of numbers, and docstrings of
    installed packages as texts. Each command is printed before it runs, so you
    can repeat it with your own data. Models, logs and reports are written to
    one folder. Reports open without a network.

    Example: everlearn demo --seed 1 --output demo
    """
    from everlearn.cli import demo_data
    from everlearn.estimator.saving import load
    from everlearn.report import write_report

    with exit_on_errors():
        folder.mkdir(parents=True, exist_ok=True)
        for model in ("digits", "tree", "packages"):  # begin anew
            for path in folder.glob(f"{model}.evl*"):
                path.unlink()
        run = _Runner(folder, seed, quiet=quiet)

        run.say("Find clusters of digits, without their labels or the number of clusters.")
        digits = demo_data.load_digits(seed)
        first = demo_data.write_rows(digits.rows[:1000], folder / "digits-1.csv")
        run.learn("digits", first, "--kind", "mixture", "--set", "family=full", "--batch", "100")
        run.say("Learn more data. Nothing of the first file is learned twice.")
        rest = demo_data.write_rows(digits.rows[1000:], folder / "digits-2.csv")
        run.learn("digits", first, rest)

        run.say("Grow a tree of topics from docstrings.")
        corpus = demo_data.load_docstrings(seed, demo_data.PER_PACKAGE)
        texts = _write_lines(folder / "docstrings.jsonl", corpus)
        common = (texts, "--batch", "100", "--set", "stop_words=english")
        run.learn("tree", *common, "--kind", "tree")
        run.say("Learn to predict the package of a docstring, with topics that explain it.")
        classes = ",".join(sorted(set(corpus.labels)))
        packages = ("--label", "package", "--classes", classes, "--score-every", "1")
        run.learn("packages", *common, "--kind", "classifier", *packages)

        run.say("Write a report on each model.")
        for model in ("tree", "packages"):
            run.report(model)
        run.say("Write a report with pictures, from Python: everlearn.report.write_report.")
        page = folder / "digits.html"
        write_report(digits.study(load(folder / "digits.evl")), page)
    typer.echo(str(page))


def _write_lines(path: Path, corpus: Corpus) -> Path:
    """The docstrings as JSON lines with the fields text and package."""
    with open(path, "w", encoding="utf-8") as file:
        for text, label in zip(corpus.texts, corpus.labels, strict=True):
            file.write(json.dumps({"text": text, "package": label}) + "\n")
    return path


class _Runner:
    """Prints commands and runs them as the shell would."""

    def __init__(self, folder: Path, seed: int, *, quiet: bool) -> None:
        self._folder, self._seed, self._quiet = folder, seed, quiet

    def say(self, text: str) -> None:
        """Print what the next command is for."""
        if not self._quiet:
            typer.echo(f"\n{text}", err=True)

    def learn(self, model: str, *arguments: str | Path) -> None:
        """Run ``everlearn learn``."""
        path = self._folder / f"{model}.evl"
        seed = [] if path.exists() else ["--seed", str(self._seed)]
        self._run("learn", path, *arguments, *seed, *(["--quiet"] if self._quiet else []))

    def report(self, model: str) -> None:
        """Run ``everlearn report``, which prints the path of the page."""
        self._run("report", self._folder / f"{model}.evl", "-o", self._folder / f"{model}.html")

    def _run(self, *words: str | Path) -> None:
        from everlearn.cli.main import app

        arguments = [str(word) for word in words]
        if not self._quiet:
            typer.echo(f"$ everlearn {shlex.join(arguments)}", err=True)
        code = app(arguments, prog_name="everlearn", standalone_mode=False)
        if code:
            raise typer.Exit(code)
