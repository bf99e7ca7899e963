"""The report on a `DPMixture`: components as cards and a table, learning curves, and moves.

`everlearn report` writes the page of `stream.py` instead; this one is for programs, which can add
known classes and pictures of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from everlearn.core.text import megabytes
from everlearn.estimator.history import AcceptedMove
from everlearn.report.charts import (
    Line,
    Mark,
    Panel,
    Stack,
    heat_table,
    line_chart,
    number,
    percent,
    share_bar,
)
from everlearn.report.page import (
    Html,
    details,
    memory_section,
    page,
    paragraph,
    save_page,
    section,
    settings_section,
    table,
)
from everlearn.report.pictures import ink_image
from everlearn.report.spread import density_strips
from everlearn.report.study import (
    MOVE_NAMES,
    Agreement,
    Assigned,
    Component,
    Study,
    Truth,
    agreement,
    assigned,
    components,
    curve,
    move_tallies,
    move_text,
)
from everlearn.stream.summary import column_names

_EXAMPLES = 3


def component_table(study: Study, rows: Assigned, found: Sequence[Component]) -> str:
    """The table of the components in a report of `write_report`.

    It has pictures of the means, ids, main classes, densities, shares and typical rows, as far as
    there are such.
    """
    gallery, truth = study.gallery, study.truth
    strips = {} if gallery else density_strips(study.model, _names(study))
    most = max((c.share for c in found), default=0.0)
    columns: list[tuple[str, Callable[[Component], str]]] = [("component", lambda c: f"#{c.id}")]
    if gallery is not None:
        means = gallery.means
        columns.append(
            ("mean", lambda c: Html(ink_image(means[c.position], f"Mean of #{c.id}", "mean")))
        )
    if truth is not None:
        columns.append((f"main {truth.noun}", lambda c: "–" if c.top is None else c.top))
        columns.append(("purity", lambda c: "–" if c.purity is None else percent(c.purity)))
    if strips:
        columns.append(("mean ± spread", lambda c: strips.get(c.id, "")))
    columns.append(("share", lambda c: share_bar(c.share, most)))
    columns.append((f"{study.noun}s", lambda c: f"{c.n_rows:,}"))
    if gallery is not None:
        nearest = {c.id: examples(study, rows, c, _EXAMPLES) for c in found}
        columns.append(("nearest", lambda c: _strip(study, rows, nearest[c.id][0])))
        columns.append(("least certain", lambda c: _strip(study, rows, nearest[c.id][1])))
    return table(
        "Components, largest first",
        [head for head, _ in columns],
        [[cell(c) for _, cell in columns] for c in found],
        text_columns=len(columns),
        kind="parts",
    )


def _names(study: Study) -> Sequence[str]:
    return column_names(study.model, None, study.rows.shape[1])


def examples(study: Study, rows: Assigned, one: Component, n: int) -> tuple[list[int], list[int]]:
    """Rows of a component: the `n` nearest its mean, and the `n` least certain ones."""
    members = np.flatnonzero(rows.labels == one.position)
    distance = np.linalg.norm(study.rows[members] - study.model.means_[one.position], axis=1)
    nearest = members[np.argsort(distance, kind="stable")[:n]]
    doubtful = members[np.argsort(rows.certainty[members], kind="stable")[:n]]
    return nearest.tolist(), doubtful.tolist()


def _strip(study: Study, rows: Assigned, chosen: Sequence[int]) -> Html:
    """Pictures of rows, side by side."""
    if study.gallery is None or not chosen:
        return Html("–")
    images = []
    for row in chosen:
        what = study.noun
        if study.truth is not None:
            what = f"{study.truth.noun} {study.truth.classes[study.truth.labels[row]]}"
        hint = f"{what}, certainty {rows.certainty[row]:.2f}"
        images.append(ink_image(study.gallery.rows[row], what, "example", hint))
    return Html(f'<span class="pictures">{"".join(images)}</span>')


def write_report(study: Study, path: Path, more: Sequence[str] = ()) -> None:
    """Write the report to one file. `more` are further sections, as HTML, before the settings."""
    save_page(render(study, more), path)


def render(study: Study, more: Sequence[str] = ()) -> str:
    """The report as one HTML page that needs no other file; see `write_report`."""
    rows = assigned(study)
    classes = None
    if study.truth is not None:
        classes = agreement(rows.labels, study.truth, study.model.n_components_)
    found = components(study, rows, classes)
    sections = (
        section(
            "components",
            "What it found",
            component_table(study, rows, found),
            paragraph(_explained(study), "hint"),
        ),
        _comparison(study, classes, found),
        growth_section(study),
        _moves(study),
        memory_section(study.model),
        *more,
        settings_section(study.model, study.notes),
    )
    return page(
        study.title,
        study.lead,
        _key_numbers(study, classes),
        sections,
    )


def _explained(study: Study) -> str:
    words = "Numbers with a # are permanent ids."
    if study.gallery is not None:
        return (
            f"{words} Beside each component are the {study.noun}s nearest its mean, and those "
            "whose assignment is least certain."
        )
    return (
        f"{words} Strips show where the values of a component lie (blue) among those of all "
        f"{study.noun}s (grey), in the columns that set it apart."
    )


def _key_numbers(study: Study, classes: Agreement | None) -> list[tuple[str, str]]:
    model = study.model
    pairs = [
        (f"{study.noun}s seen", f"{model.n_samples_seen_:,}"),
        ("components", f"{model.n_components_}"),
        ("mean log density, nats", number(model.score(study.rows))),
    ]
    if classes is not None:
        pairs += [
            ("purity", f"{classes.purity:.1%}"),
            ("NMI", f"{classes.nmi:.3f}"),
            ("AMI", f"{classes.ami:.3f}"),
        ]
    pairs.append(("memory held", megabytes(model.memory_report()["total"] or 0)))
    if study.seconds is not None:
        pairs.append(("learning time", f"{study.seconds:.1f} s"))
    return pairs


def growth_section(study: Study) -> str:
    """Components, evidence and moves over the rows seen; empty without two points."""
    model, noun = study.model, study.noun
    points = [p for p in curve(study) if p.rows]
    panels = [
        Panel("components in use", [Line("", [(p.rows, p.n_components) for p in points],
                                         steps=True)], low=0.0),
        Panel(f"mean log density of the {noun}s so far, nats (a lower bound)",
              [Line("", [(p.rows, p.bound / p.rows) for p in points], "--accent-2")]),
    ]  # fmt: skip
    stacks = [
        Stack(name, f"--{kind}", [(m.rows, _told(m, noun)) for m in model.history_.moves
                                  if m.kind == kind])
        for kind, name in MOVE_NAMES.items()
    ]  # fmt: skip
    label = (
        f"Curves over {model.n_samples_seen_:,} {noun}s: the number of components ends at "
        f"{model.n_components_}. Bars below count {len(model.history_.moves)} accepted moves."
    )
    chart = line_chart(
        panels,
        f"{noun}s seen",
        label,
        marks=[Mark(m.rows, m.text) for m in study.marks],
        stacks=stacks,
    )
    if not chart:
        return ""
    told = (
        "A birth, merge or deletion is accepted only if it raises the evidence lower bound. Point "
        "at a bar to see its components."
    )
    return section("growth", "Learning curves", paragraph(told), chart)


def _told(move: AcceptedMove, noun: str) -> str:
    gain = f"+{move.gain:,.1f} nats"
    return f"{move.rows:,} {noun}s, lap {move.lap}: {move_text(move)} ({gain})"


def _comparison(study: Study, classes: Agreement | None, found: Sequence[Component]) -> str:
    if study.truth is None or classes is None:
        return ""
    noun = study.truth.noun
    label = (
        f"Table of components against true {noun}s: {classes.purity:.1%} of the {study.noun}s have "
        f"the main {noun} of their component."
    )
    return section(
        "comparison",
        f"Compared with the true {noun}s",
        paragraph(
            f"The number of {study.noun}s by component and {noun}. Purity is the share of "
            f"{study.noun}s with the main {noun} of their component. NMI is the mutual information "
            "over the geometric mean of both entropies. AMI is corrected for chance, over the "
            "larger entropy. For all three, 1 is perfect."
        ),
        confusion(study.truth, classes, found, label),
    )


def confusion(truth: Truth, classes: Agreement, found: Sequence[Component], label: str) -> Html:
    """Counts of rows by component and class, shaded by their share of the component."""
    order = sorted(found, key=lambda c: (int(classes.table[c.position].argmax()), -c.share))
    counts = classes.table[[c.position for c in order]]
    shares = counts / counts.sum(axis=1, keepdims=True).clip(min=1)
    hints = [
        [
            f"component #{c.id}, {truth.noun} {name}: {n:,} rows, {s:.1%} of the component"
            for name, n, s in zip(truth.classes, line, part, strict=True)
        ]
        for c, line, part in zip(order, counts.tolist(), shares.tolist(), strict=True)
    ]
    text = [[f"{n:,}" if n else "" for n in line] for line in counts.tolist()]
    names = [f"#{c.id}" for c in order]
    titles = ("component", f"true {truth.noun}")
    return heat_table(shares, text, names, truth.classes, hints, titles, label)


def _moves(study: Study) -> str:
    history = study.model.history_
    tallies = [
        (
            MOVE_NAMES[t.kind],
            f"{t.accepted:,}",
            f"{t.refused:,}",
            f"{t.gain:,.1f}" if t.accepted else "–",
            f"{t.largest:,.1f}" if t.accepted else "–",
        )
        for t in move_tallies(history)
    ]
    listed = [
        (move_text(m), m.kind, f"{m.rows:,}", f"{m.lap:,}", f"{m.gain:,.1f}") for m in history.moves
    ]
    complete = len(listed) == sum(t.accepted for t in move_tallies(history))
    title = f"{'All' if complete else 'The latest'} {len(listed)} accepted moves"
    head = ("kind", "accepted", "refused", "total gain", "largest gain")
    return section(
        "moves",
        "Births, merges and deletions",
        table("Moves by kind. A gain is how much a move raised the bound, in nats.", head, tallies),
        details(
            title,
            table(
                "Accepted moves, first to last",
                ("change", "kind", f"{study.noun}s seen", "lap", "gain, nats"),
                listed,
                text_columns=2,
            ),
        )
        if listed
        else "",
    )
