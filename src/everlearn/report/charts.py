"""Charts as plain plotly figures.

Colours are names of the page's CSS variables, such as "--accent": the page looks them up when it
draws, and again when the reader's system changes between light and dark.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from textwrap import wrap
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat
from everlearn.estimator.history import AcceptedMove, History
from everlearn.report.study import MOVE_KINDS, Agreement, Component, Study, Truth, curve, move_text
from everlearn.stream.summary import Part

Figure: TypeAlias = dict[str, Any]
IntMat: TypeAlias = NDArray[np.int64]
_HOW_TO_INSTALL: Final = "charts need plotly; install it with: pip install 'everlearn[report]'"
_BINS = 40
_LISTED = 8
_MARK_WIDTH = 14
_RIGHT_PART = 0.7
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def chart(anchor: str, figure: Figure, label: str) -> str:
    """The place where a figure is drawn, and the figure itself as JSON."""
    height = int(figure["layout"]["height"])
    data = json.dumps(figure, allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
    name = escape(anchor)
    return (
        f'<div class="chart" id="{name}" role="img" aria-label="{escape(label)}" '
        f'style="min-height:{height}px"></div>\n'
        f'<script type="application/json" data-chart="{name}">{data}</script>'
    )


def scripts() -> tuple[str, str]:
    """What a page with charts runs: plotly, and the drawing of its figures."""
    try:
        from plotly.offline import get_plotlyjs  # pages without charts do without plotly
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_HOW_TO_INSTALL) from error
    draw = files(__package__).joinpath("page.js").read_text("utf-8")
    return get_plotlyjs(), f"\n{draw}\n"


def growth(study: Study) -> Figure:
    """Number of components, bound per row, and accepted moves, over rows seen."""
    points = [p for p in curve(study) if p.rows]
    rows = [p.rows for p in points]
    hover = [
        f"{p.rows:,} {study.noun}s, lap {p.lap}<br>{p.n_components} components"
        f"<br>bound {p.bound:,.1f} nats<br>{p.bound / p.rows:,.2f} nats per {study.noun}"
        for p in points
    ]
    shared = {"x": rows, "mode": "lines", "text": hover, "hoverinfo": "text", "showlegend": False}
    data: list[Figure] = [
        {
            **shared,
            "y": [p.n_components for p in points],
            "line": {"color": "--accent", "width": 2.5, "shape": "hv"},
        },
        {
            **shared,
            "y": [p.bound / p.rows for p in points],
            "yaxis": "y2",
            "line": {"color": "--accent-2", "width": 2.5},
        },
        *_move_lanes(study.model.history_, study.noun),
    ]
    return {"data": data, "layout": _growth_layout(study, max(rows, default=1))}


def confusion(truth: Truth, classes: Agreement, found: Sequence[Component]) -> Figure:
    """Components against classes: counts, coloured by their share of the component."""
    order = sorted(found, key=lambda c: (int(classes.table[c.position].argmax()), -c.share))
    table = classes.table[[c.position for c in order]]
    shares = table / table.sum(axis=1, keepdims=True).clip(min=1)
    names = [escape(name) for name in truth.classes]
    noun = escape(truth.noun)
    hover = [
        [
            f"component #{c.id}, {noun} {name}<br>{n:,} rows, {s:.1%} of the component"
            for name, n, s in zip(names, counts, part, strict=True)
        ]
        for c, counts, part in zip(order, table.tolist(), shares.tolist(), strict=True)
    ]
    rows = [f"#{c.id}" for c in order]
    return counts_table(table, rows, names, hover, ("component", escape(f"true {truth.noun}")))


def counts_table(
    table: IntMat,
    rows: Sequence[str],
    columns: Sequence[str],
    hover: Sequence[Sequence[str]],
    titles: tuple[str, str],
) -> Figure:
    """Counts, coloured by their share of the row; names and texts are HTML already."""
    shares = table / table.sum(axis=1, keepdims=True).clip(min=1)
    text = [[f"{n:,}" if n else "" for n in line] for line in table.tolist()]
    return heat_table(shares, text, rows, columns, hover, titles)


def heat_table(
    shades: Mat,
    text: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    hover: Sequence[Sequence[str]],
    titles: tuple[str, str],
) -> Figure:
    """A table of texts on shades from 0 to 1; names and texts are HTML already."""
    heatmap = {
        "type": "heatmap",
        "z": shades.round(4).tolist(),
        "x": list(columns),
        "y": list(rows),
        "text": [list(line) for line in text],
        "texttemplate": "%{text}",
        "hovertext": [list(line) for line in hover],
        "hoverinfo": "text",
        "xgap": 2,
        "ygap": 2,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "--cell-0"], [0.5, "--cell-1"], [1, "--cell-2"]],
        "showscale": False,
    }
    layout = {
        **base_layout(92 + 30 * len(rows)),
        "xaxis": {
            **axis(titles[1]),
            "type": "category",
            "side": "top",
            "showgrid": False,
        },
        "yaxis": {
            **axis(titles[0]),
            "type": "category",
            "autorange": "reversed",
            "showgrid": False,
        },
        "margin": {"l": 8, "r": 8, "t": 62, "b": 8},
    }
    return {"data": [heatmap], "layout": layout}


def _move_lanes(history: History, noun: str) -> list[Figure]:
    """A lane for each kind of move; marks hold how many, and tell which when pointed at."""
    width = max([*(m.rows for m in history.moves), 1]) / _BINS
    lanes = []
    for kind in MOVE_KINDS:
        bins: dict[int, list[AcceptedMove]] = defaultdict(list)
        for move in history.moves:
            if move.kind == kind:
                bins[int(move.rows / width)].append(move)
        groups = [moves for _, moves in sorted(bins.items())]
        lanes.append(
            {
                "x": [sum(m.rows for m in moves) / len(moves) for moves in groups],
                "y": [f"{kind}s"] * len(groups),
                "yaxis": "y3",
                "mode": "markers+text",
                "text": [str(len(moves)) for moves in groups],
                "textfont": {"color": "--on-mark", "size": 12},
                "hovertext": [_move_list(moves, noun) for moves in groups],
                "hoverinfo": "text",
                "cliponaxis": False,
                "showlegend": False,
                "marker": {"color": f"--{kind}", "size": 21, "line": {"width": 0}},
            }
        )
    return lanes


def _move_list(moves: list[AcceptedMove], noun: str) -> str:
    lines = [
        f"{m.rows:,} {escape(noun)}s, lap {m.lap}: {move_text(m)} (+{m.gain:,.1f} nats)"
        for m in moves[:_LISTED]
    ]
    if len(moves) > _LISTED:
        lines.append(f"and {len(moves) - _LISTED} more")
    return "<br>".join(lines)


def _growth_layout(study: Study, last: int) -> Figure:
    noun = escape(study.noun)
    titles = (
        (1.0, "components in use"),
        (0.60, f"bound, nats per {noun}"),
        (0.21, "accepted moves"),
    )
    marks = [m for m in study.marks if 0 < m.rows <= last]
    return {
        **base_layout(560),
        "xaxis": {
            **axis(f"{noun}s seen"),
            "anchor": "y3",
            "range": [0, 1.03 * last],
            "tickformat": ",",
            "showgrid": False,
        },
        "yaxis": {**axis(), "domain": [0.66, 0.97], "rangemode": "tozero", "tickformat": "d"},
        "yaxis2": {**axis(), "domain": [0.27, 0.57]},
        "yaxis3": {
            **axis(),
            "domain": [0.0, 0.17],
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [f"{kind}s" for kind in reversed(MOVE_KINDS)],
            "range": [-0.6, len(MOVE_KINDS) - 0.4],
        },
        "margin": {"l": 8, "r": 12, "t": 12, "b": 48},
        "shapes": [_mark_line(m.rows) for m in marks],
        "annotations": [
            *(panel_title(y, text) for y, text in titles),
            *(_mark_text(m.rows, m.text, m.rows > _RIGHT_PART * last) for m in marks),
        ],
    }


def base_layout(height: int) -> Figure:
    """What all charts share: no frame, colours and letters of the page."""
    return {
        "height": height,
        "autosize": True,
        "dragmode": False,
        "hovermode": "closest",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 13, "color": "--ink"},
        "hoverlabel": {
            "bgcolor": "--surface",
            "bordercolor": "--line",
            "font": {"family": _FONT, "size": 13, "color": "--ink"},
            "align": "left",
        },
    }


def axis(title: str = "") -> Figure:
    """An axis in the colours of the page."""
    return {
        "title": {"text": title, "font": {"size": 13, "color": "--muted"}},
        "gridcolor": "--line",
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        "ticks": "outside",  # not seen, and keeps labels away from what they are labels of
        "ticklen": 5,
        "tickcolor": "rgba(0,0,0,0)",
        "tickfont": {"color": "--muted"},
    }


def panel_title(y: float, text: str) -> Figure:
    """The title of one of several panels, at its left."""
    return {
        "text": text,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": y,
        "xanchor": "left",
        "yanchor": "middle",
        "showarrow": False,
        "bgcolor": "--surface",
        "font": {"size": 13, "color": "--muted"},
    }


def _mark_line(rows: int) -> Figure:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": rows,
        "x1": rows,
        "y0": 0,
        "y1": 0.97,
        "line": {"color": "--muted", "width": 1, "dash": "dot"},
    }


def _mark_text(rows: int, text: str, left: bool) -> Figure:
    """Beside its line and low in the first panel, where a growing curve leaves room."""
    return {
        "text": "<br>".join(escape(line) for line in wrap(text, _MARK_WIDTH)),
        "xref": "x",
        "yref": "paper",
        "x": rows,
        "y": 0.67,
        "xanchor": "right" if left else "left",
        "yanchor": "bottom",
        "align": "right" if left else "left",
        "xshift": -4 if left else 4,
        "showarrow": False,
        "font": {"size": 12, "color": "--muted"},
    }


_POINTS = 1000
_BARS = 40
_TOP = 0.9


def growth_chart(log: Sequence[dict[str, Any]], *, accuracy: bool = False) -> Figure | None:
    """Components and scores over the records learned; None if the log has neither.

    Scores that are an accuracy go from 0 to 1.
    """
    panels = [
        ("components in use", [("components", "components", "--accent", "hv")]),
        (
            "accuracy of a batch" if accuracy else "score of a batch",
            [
                ("before", "score_before", "--accent-2", "linear"),
                ("after", "score_after", "--accent", "linear"),
            ],
        ),
    ]
    drawn = [
        (title, [(s, points) for s in series if len(points := _points(log, s[1])) > 0])
        for title, series in panels
    ]
    drawn = [(title, series) for title, series in drawn if series]
    if not drawn:
        return None
    height = 1.0 / len(drawn)
    layout = {
        **base_layout(80 + 220 * len(drawn)),
        "xaxis": {**axis("records learned"), "tickformat": ",", "rangemode": "tozero"},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 76},
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "font": {"color": "--muted"},
        },
        "annotations": [],
    }
    data: list[Figure] = []
    for i, (title, series) in enumerate(drawn):
        low = 1.0 - (i + 1) * height
        name = "yaxis" if i == 0 else f"yaxis{i + 1}"
        layout[name] = {**axis(), "domain": [low + 0.03, low + _TOP * height]}
        if series[0][0][1] == "components":
            layout[name] |= {"rangemode": "tozero", "tickformat": "d"}
        elif accuracy:
            layout[name] |= {"range": [0, 1.02], "tickformat": ".0%"}
        layout["annotations"].append(panel_title(low + 0.96 * height, title))
        data += [_line(s, points, i) for s, points in series]
    layout["xaxis"]["anchor"] = "y" if len(drawn) == 1 else f"y{len(drawn)}"
    return {"data": data, "layout": layout}


def _points(log: Sequence[dict[str, Any]], key: str) -> list[tuple[int, float]]:
    """(records, value) of the lines that have one, thinned to what a screen can show."""
    points = [(line["records"], line[key]) for line in log if line.get(key) is not None]
    step = max(1, len(points) // _POINTS)
    return points[::step]


def _line(series: tuple[str, str, str, str], points: list[tuple[int, float]], i: int) -> Figure:
    name, _, color, shape = series
    return {
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "yaxis": "y" if i == 0 else f"y{i + 1}",
        "name": name,
        "showlegend": shape != "hv",
        "mode": "lines" if len(points) > 1 else "markers",
        "line": {"color": color, "width": 2.5, "shape": shape},
        "hovertemplate": "%{x:,} records<br>%{y:,.4g}<extra>" + escape(name) + "</extra>",
    }


def shares(parts: Sequence[Part], mark: str = "#") -> Figure:
    """Bars, the largest part on top; ids that are permanent have a mark."""
    names = [f"{mark}{part.id}" for part in parts[:_BARS]]
    shown = list(parts[:_BARS])
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [part.share for part in shown],
        "y": names,
        "hovertext": [
            escape(" ".join(part.about)) or name for part, name in zip(shown, names, strict=True)
        ],
        "hoverinfo": "text+x",
        "marker": {"color": "--accent"},
        "showlegend": False,
    }
    layout = {
        **base_layout(80 + 22 * len(shown)),
        "xaxis": {**axis("share"), "tickformat": ".0%", "rangemode": "tozero"},
        "yaxis": {**axis(), "type": "category", "autorange": "reversed", "showgrid": False},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 48},
        "bargap": 0.25,
    }
    return {"data": [bars], "layout": layout}
