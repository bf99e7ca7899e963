"""The report on a `DPMixture`: components as cards and a table, learning curves, and moves.

`everlearn report` writes the page of `stream.py` instead; this one is for programs, which can add
known classes and pictures of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from everlearn.core.text import megabytes
from everlearn.report import charts
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
from everlearn.report.pictures import ink_image
from everlearn.report.study import (
    MOVE_NAMES,
    Agreement,
    Assigned,
    Component,
    Gallery,
    Study,
    agreement,
    assigned,
    components,
    move_tallies,
    move_text,
)

_EXAMPLES = 6


def component_cards(study: Study, rows: Assigned, found: Sequence[Component]) -> str:
    """One card for each component; empty if there are no pictures."""
    if study.gallery is None:
        return ""
    cards = "\n".join(_card(study, study.gallery, rows, one) for one in found)
    return f'<ul class="cards">\n{cards}\n</ul>'


def component_table(study: Study, found: Sequence[Component]) -> str:
    """Id, share and rows of each component, and its main class if classes are known."""
    head = ["component", "share", f"{study.noun}s"]
    lines = [[f"#{c.id}", f"{c.share:.1%}", f"{c.n_rows:,}"] for c in found]
    if study.truth is not None:
        head += [f"main {study.truth.noun}", "purity"]
        for line, c in zip(lines, found, strict=True):
            line += [c.top or "–", "–" if c.purity is None else f"{c.purity:.1%}"]
    content = table("Components, largest first", head, lines)
    return content if study.gallery is None else details("The same as a table", content)


def _card(study: Study, gallery: Gallery, rows: Assigned, one: Component) -> str:
    mean = ink_image(gallery.means[one.position], f"Mean of component {one.id}", "mean")
    lines = [f'<span class="share">{one.share:.1%} of all</span>']
    if one.top is not None and one.purity is not None and study.truth is not None:
        lines.append(
            f"<span>{one.purity:.0%} are {escape(study.truth.noun)} "
            f"<strong>{escape(one.top)}</strong></span>"
        )
    nearest, doubtful = examples(study, rows, one, _EXAMPLES)
    return (
        f'<li class="card"><div class="who">{mean}<div><h3>#{one.id}</h3>{"".join(lines)}</div>'
        f"</div>{_strip(study, gallery, rows, 'nearest', nearest)}"
        f"{_strip(study, gallery, rows, 'least certain', doubtful)}</li>"
    )


def examples(study: Study, rows: Assigned, one: Component, n: int) -> tuple[list[int], list[int]]:
    """Rows of a component: the `n` nearest its mean, and the `n` least certain ones."""
    members = np.flatnonzero(rows.labels == one.position)
    distance = np.linalg.norm(study.rows[members] - study.model.means_[one.position], axis=1)
    nearest = members[np.argsort(distance, kind="stable")[:n]]
    doubtful = members[np.argsort(rows.certainty[members], kind="stable")[:n]]
    return nearest.tolist(), doubtful.tolist()


def _strip(study: Study, gallery: Gallery, rows: Assigned, name: str, chosen: Sequence[int]) -> str:
    if not chosen:
        return ""
    images = []
    for row in chosen:
        what = study.noun
        if study.truth is not None:
            what = f"{study.truth.noun} {study.truth.classes[study.truth.labels[row]]}"
        hint = f"{what}, certainty {rows.certainty[row]:.2f}"
        images.append(ink_image(gallery.rows[row], what, "example", hint))
    return f'<p class="strip"><span>{escape(name)}</span>{"".join(images)}</p>'


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
            paragraph(
                f"Each component has a permanent id. Its card shows the {study.noun}s nearest its "
                f"mean, and those whose assignment is least certain."
            )
            if study.gallery is not None
            else "",
            component_cards(study, rows, found),
            component_table(study, found),
        ),
        _comparison(study, classes, found),
        _growth(study),
        _moves(study),
        memory_section(study.model),
        *more,
        settings_section(study.model, study.notes),
    )
    return page(
        study.title,
        study.lead,
        _key_numbers(study, classes),
        (NO_SCRIPT, *sections),
        scripts=charts.scripts(),
    )


def _key_numbers(study: Study, classes: Agreement | None) -> list[tuple[str, str]]:
    model = study.model
    pairs = [
        (f"{study.noun}s seen", f"{model.n_samples_seen_:,}"),
        ("components", f"{model.n_components_}"),
        ("bound, nats", minus(f"{model.bound_:,.0f}")),
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


def _growth(study: Study) -> str:
    model = study.model
    label = (
        f"Curves over {model.n_samples_seen_:,} {study.noun}s: the number of components ends at "
        f"{model.n_components_}, the bound at {model.bound_:,.0f} nats. "
        f"Marks below show {len(model.history_.moves)} accepted moves."
    )
    return section(
        "growth",
        "Learning curves",
        paragraph(
            "The bound is a lower bound of the log evidence of all rows so far. A birth, merge or "
            "deletion is accepted only if it raises the bound. Point at a mark to see its "
            "components."
        ),
        charts.chart("chart-growth", charts.mixture_growth(study), label),
    )


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
        charts.chart("chart-comparison", charts.confusion(study.truth, classes, found), label),
    )


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
