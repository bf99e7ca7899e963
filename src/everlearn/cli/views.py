"""Format what show, log, diff and audit print, as tables or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from everlearn.cli.terminal import OutputConsole
from everlearn.core.text import counted
from everlearn.stream.audit import Audit
from everlearn.stream.diff import Differences
from everlearn.stream.events import History, events, history_of, learned_up_to
from everlearn.stream.models import has_levels
from everlearn.stream.session import Session
from everlearn.stream.summary import (
    Part,
    columns_of,
    facts_of,
    has_permanent_ids,
    memory_of,
    parts_of,
    told_size,
    tree_of,
)

_MAX_ROWS: Final = 40


def show(path: Path, session: Session, log: Iterable[Mapping[str, Any]]) -> None:
    """Print what a model has found, its memory, its history and its sources."""
    console = OutputConsole(highlight=False)
    model, ledger = session.model, session.ledger
    facts = {
        "model": type(model).__name__,
        **{name: f"{value:,.0f}" for name, value in facts_of(model).items()},
        "records learned": f"{ledger.records:,} in {counted(ledger.batches, 'batch', 'batches')}",
        "bad records": f"{ledger.bad:,}",
    }
    console.print(Text(str(path), style="bold"))
    console.print(_grid(facts))
    tree = tree_of(model, session.layout.columns)
    if tree is not None:
        console.print(tree)
    else:
        mark = "#" if has_permanent_ids(model) else ""
        found = parts_of(model, session.layout.columns)
        console.print(_part_table("What was found", found, mark))
    if has_levels(model):
        console.print(Text(f"\nLevels\n{model.levels_}"))
    if kinds := columns_of(model):
        console.print(_titled("Columns", kinds, justify="left"))
    memory = {k: told_size(k, v) for k, v in memory_of(model).items() if v is not None}
    if memory:
        console.print(_titled("Memory", memory))
    history = history_of(log)
    if history.latest:
        console.print(_history_table(history))
    console.print(_source_table(session))


def summary(session: Session, log: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What `show` prints, as plain JSON."""
    history = history_of(log)
    return {
        "model": type(session.model).__name__,
        **facts_of(session.model),
        "records": session.ledger.records,
        "batches": session.ledger.batches,
        "bad": session.ledger.bad,
        "parts": [asdict(part) for part in parts_of(session.model, session.layout.columns)],
        "columns": columns_of(session.model),
        "memory": dict(memory_of(session.model)),
        "history": asdict(history),
        "sources": {p.name: p.position for p in session.ledger.sources.values()},
    }


def _history_table(history: History) -> Table:
    table = _table("History", ("when",), ("what",))
    for when, what in history.latest:
        table.add_row(when, Text(what))
    if history.events > len(history.latest):
        table.caption = f"{history.events - len(history.latest):,} earlier ones: see everlearn log"
    return table


def show_log(lines: Iterable[Mapping[str, Any]]) -> None:
    """Print births, merges and deletions with their times."""
    table = _table("What happened", ("when", "records"), ("what",))
    n = 0
    for line in lines:
        for what in events(line):
            table.add_row(str(line.get("time", "")), f"{line.get('records', 0):,}", Text(what))
            n += 1
    console = OutputConsole(highlight=False)
    console.print(
        table if n else "No component was born, merged or deleted yet, and no records fit badly."
    )


def show_differences(found: Differences) -> None:
    """Print the components that were born, that are gone and that changed."""
    console = OutputConsole(highlight=False)
    for title, parts in (("Born", found.born), ("Gone", found.gone)):
        if parts:
            console.print(_part_table(title, parts, found.mark))
    console.print(_stayed_table(found))
    if len(found.stayed) > _MAX_ROWS:
        console.print(f"and {len(found.stayed) - _MAX_ROWS} that changed less")


def _stayed_table(found: Differences) -> Table:
    if any(change.moved is not None for change in found.stayed):
        table = _table("Weights that moved", ("by",), ("speaks for", "largest now"))
        for change in found.stayed[:_MAX_ROWS]:
            name, now = change.new.speaks_for or "", " ".join(change.new.about)
            table.add_row(f"{change.moved or 0.0:.1%}", Text(name), Text(now))
        return table
    table = _table("Stayed", ("id", "share before", "share now", "change"), ("new in it",))
    for change in found.stayed[:_MAX_ROWS]:
        table.add_row(
            f"{found.mark}{change.new.id}",
            _share(change.old.share),
            _share(change.new.share),
            f"{change.growth:+.1%}",
            Text(" ".join(change.arrived)),
        )
    return table


def show_audit(audit: Audit) -> None:
    """Print the scores of an audit, then and now."""
    table = _table("Scores when learned and now", ("batch", "records", "then", "now", "change"))
    table.add_column("when learned")
    table.caption = "A higher score is better; a negative change is forgetting."
    step = max(1, len(audit.batches) // _MAX_ROWS)
    for batch in audit.batches[::step]:
        style = "red" if batch.change < 0 else "green"
        table.add_row(
            f"{batch.batch:,}",
            f"{batch.records:,}",
            f"{batch.then:,.4f}",
            f"{batch.now:,.4f}",
            Text(f"{batch.change:+,.4f}", style=style),
            batch.time,
        )
    console = OutputConsole(highlight=False)
    console.print(table)
    console.print(_grid({k: f"{v:+,.4f}" for k, v in _verdict(audit).items()}))


def audit_summary(audit: Audit) -> dict[str, Any]:
    """What `show_audit` prints, as plain JSON."""
    marks = [{**asdict(batch), "change": batch.change} for batch in audit.batches]
    return {"batches": len(marks), **_verdict(audit), "marks": marks}


def _verdict(audit: Audit) -> dict[str, float]:
    return {
        "mean change": audit.mean_change,
        "worst change": audit.worst.change,
        "forgotten on average": audit.forgotten,
    }


def _table(title: str, numbers: Sequence[str], words: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for name in numbers:
        table.add_column(name, justify="right")
    for name in words:
        table.add_column(name, overflow="fold")
    return table


def _grid(facts: Mapping[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(Text(name, style="dim"), Text(value, style="bold"))
    return grid


def _titled(title: str, facts: Mapping[str, str], justify: JustifyMethod = "right") -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify=justify)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), value)
    return table


def _part_table(title: str, parts: Sequence[Part], mark: str) -> Table:
    """A table of parts, with a column for shares and one for classes if parts have them."""
    shares = ("share",) if any(part.share is not None for part in parts) else ()
    classes = ("speaks for",) if any(part.speaks_for for part in parts) else ()
    table = _table(title, ("id", *shares), (*classes, "about"))
    for part in parts[:_MAX_ROWS]:
        share = [_share(part.share)] if shares else []
        speaks_for = [Text(part.speaks_for or "")] if classes else []
        table.add_row(f"{mark}{part.id}", *share, *speaks_for, Text(" ".join(part.about)))
    if len(parts) > _MAX_ROWS:
        table.caption = f"and {len(parts) - _MAX_ROWS} smaller ones"
    return table


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _source_table(session: Session) -> Table:
    table = _table("Sources", ("records", "learned up to"), ("source", "read as"))
    for progress in list(session.ledger.sources.values())[-_MAX_ROWS:]:
        read_as = "" if progress.dialect is None else str(progress.dialect)
        table.add_row(
            f"{progress.learned:,}", learned_up_to(progress), Text(progress.name), read_as
        )
    return table
