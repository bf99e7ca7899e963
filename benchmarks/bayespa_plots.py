"""Figures 3 to 9 and table 3 of the BayesPA paper, drawn from the rows of the tables."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from benchmarks.figures import Panel, panels
from benchmarks.table import Table

Lines: TypeAlias = dict[str, tuple[list[float], list[float]]]
Curve: TypeAlias = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Passes, CPU seconds and accuracies of a model."""


def link(name: str, text: str) -> str:
    """Markdown for a picture in a page below docs/papers/."""
    return f"![{text}](../images/{name}.png)"


def lines(
    table: Table,
    label: str,
    x: str,
    y: str,
    where: Mapping[str, str] | None = None,
) -> Lines:
    """One line for each value of the column `label`; only rows that match `where` count."""
    place = {name: i for i, name in enumerate(table.columns)}
    found: Lines = {}
    for row in table.rows:
        if any(row[place[name]] != wanted for name, wanted in (where or {}).items()):
            continue
        xs, ys = found.setdefault(row[place[label]], ([], []))
        xs.append(float(row[place[x]]))
        ys.append(float(row[place[y]]))
    return found


def _both(
    table: Table, label: str, x: str, across: str, *, accuracy: str = "accuracy",
    where: Mapping[str, str] | None = None, log: bool = False,
) -> list[Panel]:  # fmt: skip
    """Two panels over the same column: accuracy, and CPU seconds."""
    good, slow = (lines(table, label, x, y, where) for y in (accuracy, "CPU s"))
    return [
        Panel("accuracy", across, "", good, log),
        Panel("training", across, "CPU s", slow, log, zero=True),
    ]


def convergence(curves: Mapping[str, Curve]) -> None:
    by_passes = {name: (passes, accuracy) for name, (passes, _, accuracy) in curves.items()}
    by_time = {name: (cpu, accuracy) for name, (_, cpu, accuracy) in curves.items()}
    panels(
        "bayespa_convergence",
        [
            Panel("passes", "passes over the documents", "accuracy", by_passes, True, ticks=False),
            Panel("time", "CPU s", "", by_time, True, ticks=False),
        ],
    )


def numbers_of_topics(table: Table) -> None:
    panels("bayespa_topics", _both(table, "model", "topics", "topics"))


def burn_ins(table: Table) -> None:
    found = []
    for loss in dict.fromkeys(row[0] for row in table.rows):
        ours, theirs = (
            lines(table, "burn-in sweeps", "sweeps J", column, {"loss": loss})
            for column in ("accuracy, mean of 3 seeds", "accuracy, paper")
        )
        each = {f"{b} dropped": line for b, line in ours.items()}
        each |= {f"{b} dropped, the paper": line for b, line in theirs.items()}
        found.append(Panel(loss, "sweeps J", "accuracy", each))
    panels("bayespa_burn_ins", found)


def training_times(table: Table) -> None:
    found = [
        Panel(
            varied,
            varied,
            "CPU s",
            lines(table, "loss", "value", "CPU s", {"varied": varied}),
            zero=True,
        )
        for varied in dict.fromkeys(row[1] for row in table.rows)
    ]
    panels("bayespa_times", found)


def batch_sizes(table: Table) -> None:
    panels("bayespa_batches", _both(table, "model", "batch size", "documents of a batch", log=True))


def rounds_and_sweeps(table: Table) -> None:
    named = Table(table.title, ["model", *table.columns])
    for loss, anchors, *rest in table.rows:
        model = loss if anchors == "yes" else f"{loss}, no anchors"
        named.rows.append([model, loss, anchors, *rest])
    panels(
        "bayespa_rounds",
        [
            *_both(named, "model", "sweeps J", "sweeps J, one round", where={"rounds I": "1"}),
            *_both(named, "model", "rounds I", "rounds I, three sweeps", where={"sweeps J": "3"}),
        ],
    )


def remedies(table: Table) -> None:
    ways = [name for name in table.columns if name not in ("loss", "topics")]
    found = []
    for loss in dict.fromkeys(row[0] for row in table.rows):
        each = {way: lines(table, "loss", "topics", way, {"loss": loss})[loss] for way in ways}
        found.append(Panel(loss, "topics", "accuracy", each, True))
    panels("bayespa_remedies", found)
