"""Terminals, and pipes in their place, that commands print to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from everlearn.core.text import counted
from everlearn.stream.audit import ReportCard
from everlearn.stream.diff import Differences
from everlearn.stream.events import _MOST, History, events, learned_up_to
from everlearn.stream.session import Session
from everlearn.stream.summary import (
    Part,
    facts_of,
    has_permanent_ids,
    memory_of,
    parts_of,
    told_size,
    tree_of,
)


class OutputConsole(Console):
    """A console that leaves it to the command how to end when nobody reads its output."""

    def on_broken_pipe(self) -> None:
        """Raise the error again; rich would end the process with a code of its own."""
        raise  # noqa: PLE0704  # called while the error is handled


_RECENT = 8


def show(path: Path, session: Session, log: Iterable[Mapping[str, Any]]) -> None:
    """Print what a model has found, and what its run log tells."""
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
    memory = {k: told_size(k, v) for k, v in memory_of(model).items() if v is not None}
    if memory:
        console.print(_titled("Memory", memory))
    history = history_of(log)
    if history.latest:
        console.print(_history_table(history))
    console.print(_source_table(session))


def summary(session: Session, log: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The same as plain JSON."""
    history = history_of(log)
    return {
        "model": type(session.model).__name__,
        **facts_of(session.model),
        "records": session.ledger.records,
        "batches": session.ledger.batches,
        "bad": session.ledger.bad,
        "parts": [asdict(part) for part in parts_of(session.model, session.layout.columns)],
        "memory": dict(memory_of(session.model)),
        "history": asdict(history),
        "sources": {p.name: p.position for p in session.ledger.sources.values()},
    }


def history_of(lines: Iterable[Mapping[str, Any]]) -> History:
    """What a run log tells, read once from its start to its end."""
    first = last = None
    latest: deque[tuple[str, str]] = deque(maxlen=_RECENT)
    n = 0
    for line in lines:
        last = str(line.get("time", ""))
        first = first or last
        for what in events(line):
            latest.append((last, what))
            n += 1
    return History(first, last, n, tuple(latest))


def _history_table(history: History) -> Table:
    table = _table("History", ("when",), ("what",))
    for when, what in history.latest:
        table.add_row(when, Text(what))
    if history.events > len(history.latest):
        table.caption = f"and {history.events - len(history.latest):,} before; see everlearn log"
    return table


def show_log(lines: Iterable[Mapping[str, Any]]) -> None:
    """Print births, merges and deletions with their dates."""
    table = _table("What happened", ("when", "records"), ("what",))
    n = 0
    for line in lines:
        for what in events(line):
            table.add_row(str(line.get("time", "")), f"{line.get('records', 0):,}", Text(what))
            n += 1
    console = OutputConsole(highlight=False)
    console.print(table if n else "Nothing was born, merged or deleted yet.")


def show_differences(found: Differences) -> None:
    """Print what was born, what is gone and what changed."""
    console = OutputConsole(highlight=False)
    for title, parts in (("Born", found.born), ("Gone", found.gone)):
        if parts:
            console.print(_part_table(title, parts, found.mark))
    console.print(_stayed_table(found))
    if len(found.stayed) > _MOST:
        console.print(f"and {len(found.stayed) - _MOST} that changed less")


def _stayed_table(found: Differences) -> Table:
    if any(change.moved is not None for change in found.stayed):
        table = _table("Weights that moved", ("by",), ("speaks for", "largest now"))
        for change in found.stayed[:_MOST]:
            name, now = change.new.speaks_for or "", " ".join(change.new.about)
            table.add_row(f"{change.moved or 0.0:.1%}", Text(name), Text(now))
        return table
    table = _table("Stayed", ("id", "share before", "share now", "change"), ("new in it",))
    for change in found.stayed[:_MOST]:
        table.add_row(
            f"{found.mark}{change.new.id}",
            _share(change.old.share),
            _share(change.new.share),
            f"{change.growth:+.1%}",
            Text(" ".join(change.arrived)),
        )
    return table


def show_card(card: ReportCard) -> None:
    """Print the marks of an audit."""
    table = _table("Learned then, explained now", ("batch", "records", "then", "now", "change"))
    table.add_column("when learned")
    shown = card.marks if len(card.marks) <= _MOST else card.marks[:: len(card.marks) // _MOST]
    for mark in shown:
        style = "red" if mark.change < 0 else "green"
        table.add_row(
            f"{mark.batch:,}",
            f"{mark.records:,}",
            f"{mark.then:,.4f}",
            f"{mark.now:,.4f}",
            Text(f"{mark.change:+,.4f}", style=style),
            mark.time,
        )
    console = OutputConsole(highlight=False)
    console.print(table)
    console.print(_grid({k: f"{v:+,.4f}" for k, v in _verdict(card).items()}))


def card_summary(card: ReportCard) -> dict[str, Any]:
    """The marks as plain JSON."""
    marks = [{**asdict(mark), "change": mark.change} for mark in card.marks]
    return {"batches": len(marks), **_verdict(card), "marks": marks}


def _verdict(card: ReportCard) -> dict[str, float]:
    return {
        "mean change": card.mean_change,
        "worst change": card.worst.change,
        "forgotten on average": card.forgotten,
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


def _titled(title: str, facts: Mapping[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), value)
    return table


def _part_table(title: str, parts: Sequence[Part], mark: str) -> Table:
    """Parts with those of id, share and class that they have; a permanent id has a mark."""
    shares = ("share",) if any(part.share is not None for part in parts) else ()
    classes = ("speaks for",) if any(part.speaks_for for part in parts) else ()
    table = _table(title, ("id", *shares), (*classes, "about"))
    for part in parts[:_MOST]:
        share = [_share(part.share)] if shares else []
        told = [Text(part.speaks_for or "")] if classes else []
        table.add_row(f"{mark}{part.id}", *share, *told, Text(" ".join(part.about)))
    if len(parts) > _MOST:
        table.caption = f"and {len(parts) - _MOST} smaller ones"
    return table


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _source_table(session: Session) -> Table:
    table = _table("Sources", ("learned up to",), ("source",))
    for progress in list(session.ledger.sources.values())[-_MOST:]:
        table.add_row(learned_up_to(progress), Text(progress.name))
    return table
