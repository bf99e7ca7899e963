"""The report on a model learned from a stream: what it found, how it grew, what it read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.core.text import counted
from everlearn.estimator.tree_view import FittedTree
from everlearn.io.folders import files_below, mark
from everlearn.io.formats import IMAGES, ending_of
from everlearn.report import charts
from everlearn.report import charts as timeline
from everlearn.report.charts import growth_chart
from everlearn.report.class_topics import topics_by_class
from everlearn.report.page import (
    NO_SCRIPT,
    details,
    making_section,
    memory_section,
    minus,
    page,
    paragraph,
    save_page,
    section,
    table,
)
from everlearn.report.tree import outline, treemap
from everlearn.stream.events import events, learned_up_to
from everlearn.stream.session import Session
from everlearn.stream.summary import Part, facts_of, has_permanent_ids, parts_of, tree_of

_MOST = 200


@dataclass(frozen=True, slots=True)
class StreamStory:
    """All that the page tells of.

    Attributes
    ----------
    title : headline
    session : the model and its sources
    log : lines of the run log, first to last
    reasons : how often each reason for setting a record aside occurred
    """

    title: str
    session: Session
    log: Sequence[dict[str, Any]]
    reasons: Counter[str]


def write_stream_report(story: StreamStory, path: Path) -> None:
    """Write the report to one file."""
    save_page(render_stream(story), path)


def render_stream(story: StreamStory) -> str:
    """The report as one HTML page that needs nothing from elsewhere."""
    session = story.session
    found = parts_of(session.model, session.layout.columns)
    lead = (
        f"{type(session.model).__name__}, learned from "
        f"{counted(session.ledger.records, 'record')}, each of them "
        "read once."
    )
    sections = (
        NO_SCRIPT,
        _images(session),
        _found(story, found),
        topics_by_class(session.model, story.log),
        _growth(story),
        _happenings(story),
        memory_section(session.model),
        _reading(story),
        making_section(session.model),
    )
    return page(
        story.title,
        lead,
        _numbers(story),
        sections,
        scripts=charts.scripts(),
    )


def _images(session: Session) -> str:
    """Images that the model learned from, by topic; nothing if there are none to be found."""
    paths = list(_learned_images(session))
    if not paths or not isinstance(session.model, ClumpedTopicModel):
        return ""
    from everlearn.report.images import images_by_topic  # needs the extra `images`

    return images_by_topic(session, paths)


def _learned_images(session: Session) -> Iterator[str]:
    """Paths of the images learned from that are still where they were."""
    for source in session.ledger.sources.values():
        if not len(source.done) or not os.path.isdir(source.name):
            continue
        done = set(source.done.tolist())
        for name in files_below(source.name):
            if ending_of(name) in IMAGES and mark(name) in done:
                yield os.path.join(source.name, name)


def _numbers(story: StreamStory) -> list[tuple[str, str]]:
    ledger = story.session.ledger
    facts = facts_of(story.session.model)
    return [
        ("records", f"{ledger.records:,}"),
        ("batches", f"{ledger.batches:,}"),
        ("bad records", f"{ledger.bad:,}"),
        *((name, minus(f"{value:,.0f}")) for name, value in facts.items()),
    ]


def _found(story: StreamStory, found: Sequence[Part]) -> str:
    model = story.session.model
    tree = tree_of(model, story.session.layout.columns)
    permanent = has_permanent_ids(model)
    promise = (
        "Numbers with a # are permanent: they mean the same in every report, log and file of this "
        "model."
    )
    noun = "row" if hasattr(model, "n_samples_seen_") else "document"
    return section(
        "found",
        "What it found",
        paragraph(promise) if permanent else "",
        *(_parts(found, "#" if permanent else "") if tree is None else _tree(tree, noun)),
    )


def _tree(tree: FittedTree, noun: str) -> tuple[str, ...]:
    label = f"A map of a tree of {len(tree)} nodes; the outline below lists them all."
    return charts.chart("chart-tree", treemap(tree, noun), label), outline(tree)


def _parts(found: Sequence[Part], mark: str) -> tuple[str, ...]:
    """A picture of the shares, and a table with those of share and class that parts have."""
    shared = [part for part in found if part.share is not None]
    picture = ""
    if shared:
        label = f"Shares of the {len(shared)} parts of the model; the table below lists them all."
        picture = charts.chart("chart-shares", timeline.shares(shared, mark), label)
    classes = any(part.speaks_for for part in found)
    words = ("id", *(("speaks for",) if classes else ()), "about")
    rows = []
    for part in found[:_MOST]:
        share = ["" if part.share is None else f"{part.share:.2%}"] if shared else []
        told = [part.speaks_for or ""] if classes else []
        rows.append((f"{mark}{part.id}", *told, " ".join(part.about), *share))
    more = len(found) - len(rows)
    heads = (*words, *(("share",) if shared else ()))
    return (
        picture,
        table("What was found", heads, rows, text_columns=len(words)),
        paragraph(f"and {more} smaller ones.") if more > 0 else "",
    )


def _growth(story: StreamStory) -> str:
    classes = story.session.layout.kind_of_model.target == "class"
    figure = growth_chart(story.log, accuracy=classes)
    if figure is None:
        return ""
    return section(
        "growth",
        "How it grew",
        paragraph(
            "Over the records learned. Scores are those of batches before they were learned (how "
            "well the model predicted them) and right after."
        ),
        charts.chart("chart-growth", figure, "Curves over the records learned."),
    )


def _happenings(story: StreamStory) -> str:
    rows = [
        (what, str(line.get("time", "")), f"{line.get('records', 0):,}")
        for line in story.log
        for what in events(line)
    ]
    if not rows:
        return ""
    listed = table(
        "Births, merges and deletions, the latest last",
        ("what", "when", "records"),
        rows[-_MOST:],
        text_columns=2,
    )
    return section("happenings", "What happened", details(counted(len(rows), "event"), listed))


def _reading(story: StreamStory) -> str:
    sources = list(story.session.ledger.sources.values())[-_MOST:]
    reasons = story.reasons.most_common(20)
    return section(
        "reading",
        "What it read",
        table(
            "Sources", ("source", "learned up to"), [(p.name, learned_up_to(p)) for p in sources]
        ),
        table("Records set aside", ("reason", "times"), [(r, f"{n:,}") for r, n in reasons])
        if reasons
        else "",
    )
