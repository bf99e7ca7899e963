"""The report on a model that `everlearn learn` has learned from a stream."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.core.text import counted
from everlearn.io.folders import files_below, mark
from everlearn.io.formats import IMAGES, ending_of
from everlearn.report.charts import Line, Panel, Spot, line_chart, number, percent
from everlearn.report.class_topics import topics_by_class
from everlearn.report.examples import examples_of
from everlearn.report.levels import levels_section
from everlearn.report.page import (
    Html,
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
from everlearn.report.parts import MAX_LINES, Heads, described, part_table
from everlearn.report.scores import Drift, NewScores, drift_of, new_scores
from everlearn.report.spread import density_strips
from everlearn.report.tables import columns_section
from everlearn.report.tree import outline
from everlearn.stream.events import events, learned_up_to
from everlearn.stream.models import has_levels
from everlearn.stream.session import Session
from everlearn.stream.summary import (
    column_names,
    facts_of,
    has_permanent_ids,
    parts_of,
    tree_of,
)

_IMAGE_POINT: Final = ("x", "y", "L*", "a*", "b*")
"""The columns of points that `everlearn.images.pixel_points` makes of an image."""
_UNITS: Final = {"rows": "row", "documents": "word", "points": "point"}
"""What a log-likelihood is per, by the form of records."""


_TOPIC_HEADS: Final = Heads("topic", "topics", "top words", " ")
_HEADS: Final = {
    "bayesian-pa-classifier": Heads("class", "classes", "largest weights", weights=True),
    "bayesian-pa-regressor": Heads("output", "outputs", "largest weights", weights=True),
    "clusters": Heads("cluster", "clusters", "means that differ most"),
    "clumped-topic-model": Heads("topic", "topics", "means that differ most"),
    "component-tree": Heads("component", "components", "largest loadings", weights=True),
    "dp-mixture": Heads("component", "components", "means that differ most"),
    "online-ppca": Heads(
        "component", "components", "largest loadings", share="share of variance", weights=True
    ),
}
"""Headings by checkpoint key. Models that are not listed have topics of words."""


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
    score, scores = _Score.of(session), new_scores(report.log)
    drift = drift_of(report.log) if score.is_comparable else None
    sections = (
        _images(session, paths),
        _found(session, columns),
        columns_section(model),
        levels_section(model),
        topics_by_class(model, report.log),
        _growth(report, score, scores),
        _structure(report),
        memory_section(model),
        _sources(report),
        settings_section(model),
    )
    return page(
        report.title,
        f"{type(model).__name__}, learned from {records}. Each record was read once.",
        _key_numbers(session, score, scores),
        sections,
        notice="" if drift is None else score.told(drift),
    )


@dataclass(frozen=True, slots=True)
class _Score:
    """What a score of the run log is: its name, the same as a key number, and how it is written."""

    name: str
    key: str
    form: Callable[[float], str]
    unit: str = ""
    accuracy: bool = False
    is_comparable: bool = True
    """Whether it means the same at all times. That of a word falls as the vocabulary grows."""

    @classmethod
    def of(cls, session: Session) -> _Score:
        target = session.layout.kind_of_model.target
        if target == "class":
            return cls("accuracy", "accuracy on new records", percent, accuracy=True)
        if target == "number":
            return cls("R²", "R² on new records", number)
        if has_levels(session.model):  # distances are measured in units that may change
            name = "closeness to a prototype"
            return cls(name, "closeness, new rows", number, is_comparable=False)
        noun = _UNITS[session.layout.form or "rows"]
        return cls(
            f"log density of a {noun}",
            f"log density, new {noun}s",
            number,
            "nats",
            is_comparable=noun != "word",
        )

    @property
    def title(self) -> str:
        """The name and the unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def key_numbers(self, scores: NewScores) -> list[tuple[str, str]]:
        """The mean of the last batches, and its change since the first ones."""
        found = [(self.key, self.form(scores.last))]
        if scores.n_batches > 1 and self.is_comparable:
            moved = scores.last - scores.first
            told = f"{100 * moved:+.1f} points" if self.accuracy else f"{moved:+.3g}"
            found.append(("change since the start", minus(told)))
        return found

    def told(self, drift: Drift) -> str:
        """The news that new records fit worse than they did."""
        unit = f" {self.unit}" if self.unit else ""
        return (
            f"New records fit worse than before: the mean {self.name} fell from "
            f"{self.form(drift.before)} to {self.form(drift.since)}{unit} after "
            f"{drift.records:,} records."
        )

    def change(self, scores: NewScores) -> str:
        """How the scores of new batches moved."""
        many = f"{scores.n_batches} scored batches" if scores.n_batches > 1 else "scored batch"
        unit = f" {self.unit}" if self.unit else ""
        growing = "" if self.is_comparable else " It falls as the vocabulary grows."
        return (
            f"Before learning, the mean {self.name} was {self.form(scores.first)}{unit} in the "
            f"first {many} and {self.form(scores.last)}{unit} in the last.{growing}"
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


def _key_numbers(
    session: Session, score: _Score, scores: NewScores | None
) -> list[tuple[str, str]]:
    ledger, facts = session.ledger, dict(facts_of(session.model))
    facts.pop("bound, nats", None)  # no reader can judge it; scores of new records say more
    if facts.get("documents seen", facts.get("rows seen")) == ledger.records:
        facts = {k: v for k, v in facts.items() if k not in ("documents seen", "rows seen")}
    return [
        ("records", f"{ledger.records:,}"),
        *([("bad records", f"{ledger.bad:,}")] if ledger.bad else []),
        *((name, minus(f"{value:,.0f}")) for name, value in facts.items()),
        *(score.key_numbers(scores) if scores is not None else []),
        ("batches", f"{ledger.batches:,}"),
    ]


def _found(session: Session, columns: Sequence[str] | None) -> str:
    """The parts of the model, as an outline or a table, with records that are typical of them."""
    model = session.model
    permanent = has_permanent_ids(model)
    heads = _HEADS.get(model.checkpoint_key, _TOPIC_HEADS)
    tree, examples = tree_of(model, columns), examples_of(session)
    told = []
    if permanent:
        told.append(
            "Numbers with a # are permanent ids: they mean the same in every report, log and file "
            "of this model."
        )
    if tree is not None:
        noun = "row" if session.layout.form == "rows" else "document"
        told.append(
            f"Bars are shares of the {noun}s whose path passes a {heads.part}. Click on one to "
            f"see what is below it. Beside its bar are its {heads.about}."
        )
        content = outline(tree, noun, examples, lambda words: described(words, heads))
    else:
        strips = _strips(model, columns)
        if strips:
            told.append(
                "Strips show where the values of a component lie (blue) among those of all rows "
                "(grey), in the columns that set it apart."
            )
        content = part_table(
            parts_of(model, columns),
            heads,
            permanent=permanent,
            examples=examples,
            columns_of_rows=columns or (),
            strips=strips,
        )
    if examples:
        told.append("Examples are records that fit best, read again from the sources.")
    prior = getattr(getattr(model, "history_", None), "prior", None)
    if prior is not None:
        told.append(f"Prior of the components: {prior}.")
    note = paragraph(" ".join(told), "hint") if told else ""
    return section("found", "What it found", content, note)


def _strips(model: Any, columns: Sequence[str] | None) -> dict[int, Html]:
    means = getattr(model, "means_", None)
    if means is None or np.ndim(means) != 2:
        return {}
    return density_strips(model, column_names(model, columns, np.shape(means)[1]))


def _growth(report: StreamReport, score: _Score, scores: NewScores | None) -> str:
    """Curves over the records learned; a curve that says nothing is left out."""
    log = report.log
    parts = _points(log, "components")
    lines = (
        Line("after learning it", _points(log, "score_after")),
        Line("before", _points(log, "score_before"), "--accent-2"),
    )
    low, high = (0.0, 1.0) if score.accuracy else (None, None)
    panels = [Panel(f"{score.title}, by batch", lines, low, high, score.form)]
    if len({value for _, value in parts}) > 1:
        panels.insert(0, Panel("components in use", [Line("", parts, steps=True)], low=0.0))
    label = "Curves over the records learned."
    chart = line_chart(panels, "records learned", label)
    if not chart and scores is None:
        return ""
    return section(
        "growth",
        "Learning curves",
        paragraph(
            "A batch is scored before the model learns it, which shows how well the model predicts "
            "new data. Higher is better."
            + (f" {score.change(scores)}" if scores is not None else "")
        ),
        chart,
    )


def _points(log: Sequence[dict[str, Any]], key: str) -> list[Spot]:
    """(records, value) of the log lines that have one."""
    return [(line["records"], line[key]) for line in log if line.get(key) is not None]


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
        rows[-MAX_LINES:],
        text_columns=2,
    )
    title = "Births, merges, deletions, and records that fit badly"
    return section("structure", title, details(counted(len(rows), "change"), listed))


def _sources(report: StreamReport) -> str:
    sources = list(report.session.ledger.sources.values())[-MAX_LINES:]
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
