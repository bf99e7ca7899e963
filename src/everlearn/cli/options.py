"""Options and arguments of the commands: their types and help texts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from everlearn.registry import ESTIMATORS

LineFormat: TypeAlias = Literal["jsonl", "csv", "tsv", "text"]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Use this model file, such as news.evl.")
]
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Read these files (.jsonl .csv .tsv .txt, also .gz; .parquet .npy .npz), folders of "
        "texts, of images or of such files, or - for standard input.",
    ),
]
KindOption = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Begin a model: "
        f"{', '.join(dict.fromkeys(entry.kind for entry in ESTIMATORS if entry.kind))}.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Set a parameter of the estimator, such as n_topics=50.",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", min=1, help="Learn N records at a time (default: 256)."),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", metavar="SIZE", help="Limit memory of kinds mixture and clumped: 256MB."
    ),
]
Every = Annotated[
    str,
    typer.Option("--every", metavar="TIME", help="Save after each 30s, 5m, 1h, or 100 (batches)."),
]
LabelField = Annotated[
    str | None,
    typer.Option("--label", metavar="FIELD", help="Read labels from this field (default: label)."),
]
TextField = Annotated[
    str | None,
    typer.Option("--text", metavar="FIELD", help="Read texts from this field (default: text)."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="NAMES", help="Learn from these columns only, such as age,size."
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="NAMES",
        help="List all labels: spam,ham (default: scan the files first).",
    ),
]
ImageSide = Annotated[
    int | None,
    typer.Option(
        "--image-side", metavar="N", min=1, help="Shrink images to N pixels a side (default: 64)."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="Read texts in this encoding: latin-1 (default: utf-8)."
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        metavar="MARK",
        help="Read numbers with this decimal mark, . or , (default: what the first records show).",
    ),
]
StdinFormat = Annotated[
    LineFormat, typer.Option("--format", help="Read standard input as lines of this format.")
]
Idle = Annotated[
    float,
    typer.Option(
        "--idle",
        metavar="SECONDS",
        min=0,
        help="Learn an incomplete batch when a pipe is silent so long.",
    ),
]
ScoreEvery = Annotated[
    int,
    typer.Option(
        "--score-every", metavar="N", min=0, help="Score every N batches, for audit; 0 for never."
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
        help="Compute on serial, threads (default), dask or tcp://host:8786.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        max=2**32 - 1,
        help="Set the seed of a new model (default: 0).",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print errors only, and what --json prints.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of tables.")]


def check_output(output: Path) -> None:
    """Refuse an output file that cannot be written, before any work is done."""
    folder = output.parent
    if output.is_dir():
        problem = f"'{output}' is a folder. Name a file in it, such as '{output / 'report.html'}'."
    elif not folder.is_dir():
        problem = f"there is no folder '{folder}'. Create it first or choose another place."
    elif not os.access(output if output.exists() else folder, os.W_OK):
        problem = f"'{output}' cannot be written. Choose another place."
    else:
        return
    raise typer.BadParameter(problem, param_hint="'--output'")
