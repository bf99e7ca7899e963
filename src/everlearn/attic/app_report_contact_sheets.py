"""Clusters of images as contact sheets: those nearest each mean, and the least certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

import numpy as np

from everlearn.attic.app_report_retrieval import Collection
from everlearn.estimator.params import Interval, check_params
from everlearn.report import charts
from everlearn.report.images import photograph
from everlearn.report.mixture import component_table, examples
from everlearn.report.page import NO_SCRIPT, details, page, paragraph, section
from everlearn.report.study import (
    Agreement,
    Assigned,
    Component,
    Study,
    agreement,
    assigned,
)
from everlearn.report.study import (
    components as components_of,
)

Trace = Sequence[tuple[float, int]]
"""Seconds of learning, and how many components there were then."""
_AT_LEAST_ONE = Interval(1, integer=True)
_THUMBNAIL: Final = 96
_COLOURS = ("--accent", "--accent-2", "--birth", "--merge", "--delete", "--muted")
_DASHES = ("solid", "dash", "dot", "dashdot")


def contact_sheets(
    study: Study,
    images: Collection,
    growth: Mapping[str, Trace] | None = None,
    *,
    max_shown: int = 60,
    n_examples: int = 8,
) -> str:
    """A page of clusters, in one file that needs no network.

    Parameters
    ----------
    study : Study
        The mixture, the rows of the images, title and lead, and classes if they are known.
    images : Collection
        The images themselves, one for each row: paths, bytes of files, arrays or a folder, of
        which only those that are shown are read.
    growth : mapping of str to sequence of (seconds, components), default=None
        How the number of components grew, for each model named; drawn as curves by plotly.
    max_shown : int, default=60
        Clusters shown, the largest first.
    n_examples : int, default=8
        Images shown of each, nearest its mean; half as many of those least certain.

    Returns
    -------
    html : str
    """
    given = {"max_shown": max_shown, "n_examples": n_examples}
    check_params("contact_sheets", given, dict.fromkeys(given, (_AT_LEAST_ONE,)))
    if len(images) != len(study.rows):
        raise ValueError(
            f"'images' of contact_sheets must be as many as the {len(study.rows)} rows of the "
            f"study, got {len(images)}"
        )
    curves = _checked_growth(growth)
    rows = assigned(study)
    classes = None
    if study.truth is not None:
        classes = agreement(rows.labels, study.truth, study.model.n_components_)
    found = [one for one in components_of(study, rows, classes) if one.n_rows]
    sheets = _clusters(study, images, rows, found, max_shown, n_examples)
    numbers = _key_numbers(study, rows, found, classes)
    if not curves:
        return page(study.title, study.lead, numbers, (sheets,))
    sections = (NO_SCRIPT, sheets, _growth(curves))
    return page(study.title, study.lead, numbers, sections, scripts=charts.scripts())


def _checked_growth(growth: Mapping[str, Trace] | None) -> dict[str, list[tuple[float, int]]]:
    """The curves as plain numbers, whatever sequences or arrays they come in."""
    if growth is not None and not isinstance(growth, Mapping):
        raise ValueError(
            "'growth' of contact_sheets must map names of models to (seconds, components), got "
            f"{type(growth).__name__}"
        )
    curves = {}
    for name, trace in (growth or {}).items():
        points = np.asarray(trace, np.float64) if len(trace) else np.zeros((0, 2))
        if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
            raise ValueError(
                "'growth' of contact_sheets must have pairs of finite numbers, (seconds, "
                f"components), got others for {name!r}"
            )
        curves[str(name)] = [(float(seconds), int(k)) for seconds, k in points]
    return curves


def growth_chart(growth: Mapping[str, Trace]) -> charts.Figure:
    """The number of components over the time spent learning, a curve for each model."""
    lines = [
        {
            "x": [round(seconds, 4) for seconds, _ in trace],
            "y": [k for _, k in trace],
            "name": escape(name),
            "mode": "lines",
            "line": {
                "color": _COLOURS[i % len(_COLOURS)],
                "dash": _DASHES[i % len(_DASHES)],
                "width": 2.5,
                "shape": "hv",
            },
            "hovertemplate": "%{x:.2f} s<br>%{y} components<extra>" + escape(name) + "</extra>",
        }
        for i, (name, trace) in enumerate(growth.items())
    ]
    layout = {
        **charts.base_layout(420),
        "xaxis": {**charts.axis("seconds of learning"), "type": "log", "dtick": "D2"},
        "yaxis": {**charts.axis("components"), "rangemode": "tozero", "tickformat": "d"},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 48},
        "legend": {"orientation": "h", "y": -0.25, "font": {"color": "--muted"}},
    }
    return {"data": lines, "layout": layout}


def _clusters(
    study: Study,
    images: Collection,
    rows: Assigned,
    found: Sequence[Component],
    max_shown: int,
    n_examples: int,
) -> str:
    return section(
        "clusters",
        "Clusters",
        paragraph(_how_to_read(study, len(found), max_shown)),
        _sheets(study, images, rows, found[:max_shown], n_examples),
        details("All clusters as a table", component_table(study, found)),
    )


def _how_to_read(study: Study, n_found: int, max_shown: int) -> str:
    shown = f"The {max_shown} largest of {n_found} clusters. " if n_found > max_shown else ""
    return (
        f"{shown}The {study.noun}s nearest the mean of each cluster come first, then those whose "
        "place is least certain. The number is the permanent id of the component."
    )


def _key_numbers(
    study: Study, rows: Assigned, found: Sequence[Component], classes: Agreement | None
) -> list[tuple[str, str]]:
    pairs = [(f"{study.noun}s", f"{len(rows.labels):,}"), ("clusters", f"{len(found)}")]
    if classes is not None and study.truth is not None:
        pairs += [
            ("known classes", f"{len(study.truth.classes)}"),
            ("purity", f"{classes.purity:.1%}"),
            ("NMI", f"{classes.nmi:.3f}"),
            ("AMI", f"{classes.ami:.3f}"),
        ]
    pairs.append(("in doubt", f"{np.mean(rows.certainty < 0.9):.1%}"))
    return pairs


def _sheets(
    study: Study, images: Collection, rows: Assigned, found: Sequence[Component], n: int
) -> str:
    cards = []
    for one in found:
        nearest, doubtful = examples(study, rows, one, n)
        doubtful = [i for i in doubtful if i not in set(nearest)][: max(1, n // 2)]
        cards.append(
            f'<li class="contact"><div class="about"><h3>#{one.id}</h3>{_about(study, one)}</div>'
            f"{_strip(images, rows, 'nearest', nearest)}"
            f"{_strip(images, rows, 'least certain', doubtful)}</li>"
        )
    return f'<ul class="contacts">\n{"".join(cards)}\n</ul>'


def _about(study: Study, one: Component) -> str:
    lines = [f"{one.n_rows:,} {study.noun}{'' if one.n_rows == 1 else 's'}"]
    if one.top is not None and one.purity is not None:
        lines.append(f"{one.purity:.0%} {one.top}")
    return "".join(f"<span>{escape(line)}</span>" for line in lines)


def _strip(images: Collection, rows: Assigned, name: str, chosen: Sequence[int]) -> str:
    if not chosen:
        return ""
    tiles = []
    for i in chosen:
        label = "" if images.labels is None else f", {images.labels[i]}"
        hint = f"{images.name(i)}{label}, certainty {rows.certainty[i]:.2f}"
        picture = photograph(images.image(i), hint, title=hint, longest=_THUMBNAIL)
        tiles.append(f'<div class="tile">{picture}</div>')
    return f'<div class="thumbs"><span>{escape(name)}</span>{"".join(tiles)}</div>'


def _growth(growth: Mapping[str, Trace]) -> str:
    ends = ", ".join(f"{name} {trace[-1][1]}" for name, trace in growth.items() if trace)
    return section(
        "growth",
        "How many components, and when",
        paragraph("The number of components after each lap, over the seconds spent learning."),
        charts.chart("chart-growth", growth_chart(growth), f"Curves of components: {ends}."),
    )
