"""The report on a mixture: which parts it has, and what each of them shows."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from everlearn.app.report import charts
from everlearn.app.report.components import component_cards, component_table
from everlearn.app.report.html import details, escape, minus, paragraph, section, table
from everlearn.app.report.page import NO_SCRIPT, page, save_page
from everlearn.app.study import (
    Agreement,
    Component,
    Study,
    agreement,
    assigned,
    components,
    move_tallies,
    move_text,
)
from everlearn.core.words import megabytes
from everlearn.estimators.mixture import DPMixture


def write_report(study: Study, path: Path, more: Sequence[str] = ()) -> None:
    """Write the report to one file, with more sections before the last ones."""
    save_page(render(study, more), path)


def render(study: Study, more: Sequence[str] = ()) -> str:
    """The report as one HTML page that needs nothing from elsewhere."""
    rows = assigned(study)
    classes = None
    if study.truth is not None:
        classes = agreement(rows.labels, study.truth, study.model.n_components_)
    found = components(study, rows, classes)
    sections = (
        _growth(study),
        section(
            "components",
            "What it found",
            paragraph(
                f"Each component with its permanent id, the {study.noun}s nearest its mean, and "
                f"those whose place is least certain."
            )
            if study.gallery is not None
            else "",
            component_cards(study, rows, found),
            component_table(study, found),
        ),
        _comparison(study, classes, found),
        _moves(study),
        _memory(study.model),
        *more,
        _making(study),
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
        (f"{study.noun}s seen", f"{model.n_rows_seen_:,}"),
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
        f"Curves over {model.n_rows_seen_:,} {study.noun}s: the number of components ends at "
        f"{model.n_components_}, the bound at {model.bound_:,.0f} nats. "
        f"{len(model.history_.moves)} moves are marked below."
    )
    return section(
        "growth",
        "How it grew",
        paragraph(
            "The bound is a lower bound of the log evidence of everything seen. A birth, merge or "
            "deletion happens only if it raises the bound; point at a mark to see which "
            "components took part."
        ),
        charts.chart("chart-growth", charts.growth(study), label),
    )


def _comparison(study: Study, classes: Agreement | None, found: Sequence[Component]) -> str:
    if study.truth is None or classes is None:
        return ""
    noun = study.truth.noun
    label = (
        f"Table of components against true {noun}s: {classes.purity:.1%} of the {study.noun}s are "
        f"in a component where their {noun} is the most frequent."
    )
    return section(
        "comparison",
        f"Compared with the true {noun}s",
        paragraph(
            f"How many {study.noun}s of each {noun} every component holds. Purity counts the "
            f"{study.noun}s whose {noun} is the main one of their component; NMI and AMI measure "
            "the information shared by both divisions, over the geometric mean of their entropies "
            "and, corrected for chance, over the larger one."
        ),
        charts.chart("chart-comparison", charts.confusion(study.truth, classes, found), label),
    )


def _moves(study: Study) -> str:
    history = study.model.history_
    tallies = [
        (
            f"{t.kind}s",
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
    head = ("kind", "accepted", "refused", "gain", "largest")
    return section(
        "moves",
        "Moves accepted and refused",
        table("Moves judged, by kind; gains of the bound in nats", head, tallies),
        details(
            title,
            table(
                "Accepted moves, first to last",
                ("what happened", "kind", f"{study.noun}s seen", "lap", "gain, nats"),
                listed,
                text_columns=2,
            ),
        )
        if listed
        else "",
    )


def _memory(model: DPMixture) -> str:
    report = model.memory_report()
    budget = report["budget"]
    held = [
        ("statistics of components", megabytes(report["statistics"] or 0)),
        ("overlap of pairs", megabytes(report["pair_entropies"] or 0)),
        ("rows still open to new components", megabytes(report["open_rows"] or 0)),
        ("in all", megabytes(report["total"] or 0)),
        ("budget", "none set" if budget is None else megabytes(budget)),
        ("one component, in one set of statistics", megabytes(report["bytes_per_component"] or 0)),
        ("most components allowed", f"{report['max_components']:,}"),
        ("most rows kept open", f"{report['window_rows']:,}"),
    ]
    return section(
        "memory",
        "Memory",
        paragraph(
            f"The latest {report['window_rows']:,} rows stay open to new components; of earlier "
            "ones only sums remain, so memory does not grow with the length of the stream."
        ),
        table("Memory held by the model", ("what", "size"), held),
    )


def _making(study: Study) -> str:
    defaults = DPMixture().get_params(deep=False)
    changed = [
        (name, repr(value))
        for name, value in study.model.get_params(deep=False).items()
        if _canonical(value) != _canonical(defaults[name])
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in study.notes)
    machine = f"Python {platform.python_version()} on {platform.machine()}"
    return section(
        "making",
        "How this was made",
        f'<ul class="notes">{notes}<li>{escape(machine)}.</li></ul>',
        table("Parameters of DPMixture that are not the default", ("parameter", "value"), changed)
        if changed
        else "",
    )


def _canonical(value: object) -> object:
    """Collections in one order and of one type: moves may be given in any."""
    return tuple(sorted(value)) if isinstance(value, (list, set, tuple)) else value
