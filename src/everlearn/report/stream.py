"""The report on a model that `everlearn learn` has learned from a stream."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.core.text import counted
from everlearn.estimator.tree_view import FittedTree
from everlearn.io.folders import files_below, mark
from everlearn.io.formats import IMAGES, ending_of
from everlearn.report import charts
from everlearn.report.class_topics import topics_by_class
from everlearn.report.page import (
    NO_SCRIPT,
    details,
    memory_section,
    minus,
    page,
    paragraph,
    save_page,
    section,
    settings_section,
    table,
)
from everlearn.report.tree import outline, treemap
from everlearn.stream.events import events, learned_up_to
from everlearn.stream.session import Session
from everlearn.stream.summary import Part, facts_of, has_permanent_ids, parts_of, tree_of

_MAX_LINES: Final = 200
"""Lines of a table; the rest is counted."""
_IMAGE_POINT: Final = ("x", "y", "L*", "a*", "b*")
"""The columns of points that `everlearn.images.pixel_points` makes of an image."""
_UNITS: Final = {"rows": "row", "documents": "word", "points": "point"}
"""What a log-likelihood is per, by the form of records."""


class _Heads(NamedTuple):
    """What the page calls the parts of a model, and the column that describes them."""

    part: str
    parts: str
    about: str
    separator: str = ", "


_TOPIC_HEADS: Final = _Heads("topic", "topics", "top words", " ")
_HEADS: Final = {
    "bayesian-pa-classifier": _Heads("class", "classes", "largest weights"),
    "bayesian-pa-regressor": _Heads("output", "outputs", "largest weights"),
    "clumped-topic-model": _Heads("topic", "topics", "means that differ most"),
    "component-tree": _Heads("component", "components", "largest loadings"),
    "dp-mixture": _Heads("component", "components", "means that differ most"),
    "online-ppca": _Heads("component", "components", "largest loadings"),
}
"""By checkpoint key; all others have topics of words."""


@dataclass(frozen=True, slots=True)
class StreamReport:
    """What the page is made of.

    Attributes
    ----------
    title : headline
    session : the model and its sources
    log : lines of the run log, first to last
    reasons : why records were set aside, with the number of records
    """

    title: str
    session: Session
    log: Sequence[dict[str, Any]]
    reasons: Counter[str]


def write_stream_report(report: StreamReport, path: Path) -> None:
    """Write the report to one file."""
    save_page(render_stream(report), path)


def render_stream(report: StreamReport) -> str:
    """The report as one HTML page that needs no other file."""
    session = report.session
    model, records = session.model, counted(session.ledger.records, "record")
    paths: list[str] = []
    if isinstance(model, ClumpedTopicModel):
        paths = list(_learned_images(session))
    columns = _IMAGE_POINT if paths else session.layout.columns
    sections = (
        NO_SCRIPT,
        _images(session, paths),
        _found(session, columns),
        topics_by_class(model, report.log),
        _growth(report),
        _structure(report),
        memory_section(model),
        _sources(report),
        settings_section(model),
    )
    return page(
        report.title,
        f"{type(model).__name__}, learned from {records}. Each record was read once.",
        _key_numbers(session),
        sections,
        scripts=charts.scripts(),
    )


def _images(session: Session, paths: Sequence[str]) -> str:
    """Some of the images, by topic; empty if there are none."""
    if not paths:
        return ""
    from everlearn.report.images import images_by_topic  # needs the extra `images`

    return images_by_topic(session, paths)


def _learned_images(session: Session) -> Iterator[str]:
    """Paths of the images learned from, as far as they still exist."""
    for source in session.ledger.sources.values():
        if not len(source.done) or not os.path.isdir(source.name):
            continue
        done = set(source.done.tolist())
        for name in files_below(source.name):
            if ending_of(name) in IMAGES and mark(name) in done:
                yield os.path.join(source.name, name)


def _key_numbers(session: Session) -> list[tuple[str, str]]:
    ledger = session.ledger
    return [
        ("records", f"{ledger.records:,}"),
        ("batches", f"{ledger.batches:,}"),
        ("bad records", f"{ledger.bad:,}"),
        *((name, minus(f"{value:,.0f}")) for name, value in facts_of(session.model).items()),
    ]


def _found(session: Session, columns: Sequence[str] | None) -> str:
    """The parts of the model as a tree, or as bars and a table."""
    model = session.model
    permanent = has_permanent_ids(model)
    promise = (
        "Numbers with a # are permanent ids: they mean the same in every report, log and file of "
        "this model."
    )
    tree = tree_of(model, columns)
    heads = _HEADS.get(model.checkpoint_key, _TOPIC_HEADS)
    return section(
        "found",
        "What it found",
        paragraph(promise) if permanent else "",
        *(
            _tree(tree, heads, "row" if session.layout.form == "rows" else "document")
            if tree is not None
            else _parts(parts_of(model, columns), heads, "#" if permanent else "")
        ),
    )


def _tree(tree: FittedTree, heads: _Heads, noun: str) -> tuple[str, ...]:
    how = (
        f"The area of a {heads.part} is the number of {noun}s whose path passes it. Click to go "
        "into a branch, and on the bar above to leave it. The list below has the id, the expected "
        f"{noun}s and the {heads.about} of each."
    )
    label = f"A map of a tree of {len(tree)} nodes; the outline below lists them all."
    return (
        paragraph(how),
        charts.chart("chart-tree", treemap(tree, noun), label),
        outline(tree, noun),
    )


def _parts(found: Sequence[Part], heads: _Heads, mark: str) -> tuple[str, ...]:
    """Bars for the shares, and a table. Both leave out what the model does not have.

    Linear models have one part for each class or output, whose name stands in place of an id.
    """
    with_classes = any(part.speaks_for for part in found)
    columns: list[tuple[str, Callable[[Part], str]]] = []
    if mark or not with_classes:
        columns.append((heads.part, lambda part: f"{mark}{part.id}"))
    if with_classes:
        head = "evidence for" if mark else heads.part
        columns.append((head, lambda part: part.speaks_for or ""))
    if any(part.about for part in found):
        columns.append((heads.about, lambda part: heads.separator.join(part.about)))
    n_texts, order, chart = len(columns), "", ""
    if any(part.share is not None for part in found):
        columns.append(("share", lambda part: "" if part.share is None else f"{part.share:.2%}"))
        order = ", largest first"
        label = f"Shares of the {len(found)} {heads.parts}; the table below lists them."
        chart = charts.chart("chart-shares", charts.share_bars(found, mark), label)
    more = len(found) - _MAX_LINES
    return (
        chart,
        table(
            f"{heads.parts.capitalize()}{order}",
            [head for head, _ in columns],
            [[cell(part) for _, cell in columns] for part in found[:_MAX_LINES]],
            text_columns=n_texts,
        ),
        paragraph(f"and {more:,} smaller ones.") if more > 0 else "",
    )


def _growth(report: StreamReport) -> str:
    layout = report.session.layout
    target = layout.kind_of_model.target
    score = {"class": "accuracy on a batch", "number": "R² on a batch"}.get(
        target or "", f"log-likelihood per {_UNITS[layout.form or 'rows']}, nats"
    )
    figure = charts.stream_growth(report.log, score, accuracy=target == "class")
    if figure is None:
        return ""
    return section(
        "growth",
        "Learning curves",
        paragraph(
            "A batch is scored before the model learns it, which shows how well the model predicts "
            "new data, and again right after. Higher is better."
        ),
        charts.chart("chart-growth", figure, "Curves over the records learned."),
    )


def _structure(report: StreamReport) -> str:
    rows = [
        (what, str(line.get("time", "")), f"{line.get('records', 0):,}")
        for line in report.log
        for what in events(line)
    ]
    if not rows:
        return ""
    listed = table(
        "Latest last, with the records learned by then",
        ("change", "time", "records"),
        rows[-_MAX_LINES:],
        text_columns=2,
    )
    title = "Births, merges, deletions, and records that fit badly"
    return section("structure", title, details(counted(len(rows), "change"), listed))


def _sources(report: StreamReport) -> str:
    sources = list(report.session.ledger.sources.values())[-_MAX_LINES:]
    reasons = report.reasons.most_common(20)
    return section(
        "sources",
        "Sources",
        table(
            "What the model has read",
            ("source", "learned up to"),
            [(p.name, learned_up_to(p)) for p in sources],
        ),
        table("Bad records, set aside", ("reason", "records"), [(r, f"{n:,}") for r, n in reasons])
        if reasons
        else "",
    )
