"""What the demo shows in a terminal: progress while it learns, then what was found."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from everlearn.attic.app_packages import PackageStudy
from everlearn.attic.app_streaming import StreamRun
from everlearn.core.text import megabytes
from everlearn.engine.progress import ProgressLine
from everlearn.estimator.history import Point
from everlearn.report.study import (
    Agreement,
    Component,
    Study,
    agreement,
    assigned,
    components,
    move_tallies,
)

_BAR = 10


class BatchProgress(ProgressLine):
    """Rows, number of components and bound of a stream; if quiet it shows nothing."""

    def __init__(self, n_rows: int, *, quiet: bool) -> None:
        super().__init__(not quiet, n_rows, Console(stderr=True), k=0, bound=0.0)

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (
            TextColumn("learning"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
            TextColumn("[bold]K {task.fields[k]}[/bold]"),
            TextColumn("bound {task.fields[bound]:,.0f}"),
        )

    def show(self, point: Point) -> None:
        """One more batch is learned."""
        self._update(completed=point.rows, k=point.n_components, bound=point.bound)


class TreeProgress(ProgressLine):
    """Docstrings learned and topics of their tree; if quiet it shows nothing."""

    def __init__(self, n_documents: int, *, quiet: bool) -> None:
        super().__init__(not quiet, n_documents, Console(stderr=True), topics=0)

    @staticmethod
    def _columns() -> tuple[ProgressColumn, ...]:
        return (
            TextColumn("reading"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} docstrings"),
            TextColumn("[bold]{task.fields[topics]} topics[/bold]"),
        )

    def show(self, n_documents: int, n_topics: int) -> None:
        """So many docstrings are learned."""
        self._update(completed=n_documents, topics=n_topics)


def show_packages(study: PackageStudy, console: Console | None = None) -> None:
    """Print the tree of topics, and how well packages are told apart."""
    console = Console(highlight=False) if console is None else console
    console.print()
    console.print(study.tree.tree_)
    console.print()
    console.print(
        f"A classifier tells the package of {study.accuracy:.0%} of {int(study.table.sum()):,} "
        "docstrings that it was not shown."
    )
    console.print("The report, to be opened in a browser:")


def show_study(study: Study, run: StreamRun, console: Console | None = None) -> None:
    """Print components, key numbers and moves."""
    console = Console(highlight=False) if console is None else console
    rows = assigned(study)
    classes = None
    if study.truth is not None:
        classes = agreement(rows.labels, study.truth, study.model.n_components_)
    console.print()
    console.print(_component_table(study, components(study, rows, classes)))
    console.print(_numbers(study, run, classes))
    console.print()
    console.print(_moves(study))
    console.print()
    verdict = "identical" if run.identical else "[bold red]different[/bold red]"
    size = megabytes(run.checkpoint_bytes)
    console.print(
        f"Stopped and resumed at {run.stopped_at:,} rows (checkpoint of {size}): {verdict}."
    )


def _component_table(study: Study, found: tuple[Component, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="What was found", title_justify="left")
    table.add_column("component", justify="right")
    table.add_column("share", justify="right")
    table.add_column(f"{study.noun}s", justify="right")
    if study.truth is not None:
        table.add_column(f"mostly {study.truth.noun}", justify="right")
        table.add_column("purity")
    for one in found:
        cells = [f"#{one.id}", f"{one.share:.1%}", f"{one.n_rows:,}"]
        if study.truth is not None:
            cells += [one.top or "-", _bar(one.purity)]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _bar(purity: float | None) -> str:
    if purity is None:
        return "-"
    full = round(purity * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {purity:4.0%}"


def _numbers(study: Study, run: StreamRun, classes: Agreement | None) -> Table:
    model = study.model
    facts = [
        ("components (K)", f"{model.n_components_}"),
        ("bound", f"{model.bound_:,.1f} nats"),
        ("rows", f"{model.n_samples_seen_:,}"),
        ("memory held", megabytes(model.memory_report()["total"] or 0)),
        ("time", f"{run.seconds:.1f} s"),
    ]
    if classes is not None:
        facts += [
            ("purity", f"{classes.purity:.3f}"),
            ("NMI, AMI", f"{classes.nmi:.3f}, {classes.ami:.3f}"),
        ]
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        grid.add_row(Text(name, style="dim"), Text(value, style="bold"))
    return grid


def _moves(study: Study) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Moves", title_justify="left")
    table.add_column("kind")
    for name in ("accepted", "refused", "gain (nats)"):
        table.add_column(name, justify="right")
    for tally in move_tallies(study.model.history_):
        gain = f"{tally.gain:,.1f}" if tally.accepted else "-"
        table.add_row(f"{tally.kind}s", str(tally.accepted), str(tally.refused), gain)
    return table
