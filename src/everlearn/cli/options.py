"""Places to write to, looked at before any work is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer


def check_output(output: Path) -> None:
    """Refuse a place that cannot be written to."""
    folder = output.parent
    if output.is_dir():
        problem = f"'{output}' is a folder; name a file in it, such as '{output / 'report.html'}'."
    elif not folder.is_dir():
        problem = f"there is no folder '{folder}'; create it first or choose another place."
    elif not os.access(output if output.exists() else folder, os.W_OK):
        problem = f"'{output}' cannot be written to; choose another place."
    else:
        return
    raise typer.BadParameter(problem, param_hint="'--output'")


KindName: TypeAlias = Literal[
    "mixture", "topics", "tree", "classifier", "regressor", "clumped", "components", "ppca"
]
LineFormat: TypeAlias = Literal["jsonl", "csv", "tsv", "text"]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The model file, such as news.evl.")
]
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Files (.jsonl .csv .tsv .txt, also .gz; .parquet .npy .npz), folders of texts, "
        "images or such files, or - for standard input.",
    ),
]
KindOption = Annotated[
    KindName | None, typer.Option("--kind", help="What to learn; needed to begin a model.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter of the estimator."),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch", min=1, help="Records that are learned together (default: 256)."),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Bytes that a mixture or a clumped model may hold, such as 256MB.",
    ),
]
Every = Annotated[
    str,
    typer.Option(
        "--every", metavar="TIME", help="A checkpoint every 30s, every 5m, or every 100 (batches)."
    ),
]
LabelField = Annotated[
    str | None,
    typer.Option("--label", metavar="FIELD", help="The field with the label (default: label)."),
]
TextField = Annotated[
    str | None,
    typer.Option("--text", metavar="FIELD", help="The field with the text (default: text)."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        help="Names of the columns to learn from, with commas between.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="NAMES",
        help="All labels, with commas between; else files are searched.",
    ),
]
ImageSide = Annotated[
    int | None,
    typer.Option(
        "--image-side", min=1, help="Images are shrunk to this many pixels (default: 64)."
    ),
]
StdinFormat = Annotated[
    LineFormat, typer.Option("--format", help="What comes through standard input.")
]
Idle = Annotated[
    float,
    typer.Option("--idle", min=0, help="Seconds until the records of a silent pipe are learned."),
]
ScoreEvery = Annotated[
    int,
    typer.Option(
        "--score-every", min=0, help="Score every so many batches, for log and audit; 0 is never."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at a bad record instead of setting it aside.")
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Where to compute: serial, threads (default), dask for worker processes, or the "
        "address of a Dask scheduler such as tcp://host:8786.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Of all random choices (default: 0)."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors, and what --json asks for.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of tables.")]
