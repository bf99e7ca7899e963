"""Charts of reports, as plain plotly figures: first the parts that all share, then each chart.

Colours are names of the page's CSS variables, such as "--accent". The page looks them up when it
draws, and again when the reader's system changes between light and dark.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from textwrap import wrap
from typing import Any, Final, NamedTuple, TypeAlias

from everlearn.core.arrays import Mat
from everlearn.estimator.history import AcceptedMove, History
from everlearn.report.study import MOVE_NAMES, Agreement, Component, Study, Truth, curve, move_text
from everlearn.stream.summary import Part

Figure: TypeAlias = dict[str, Any]
_HOW_TO_INSTALL: Final = "charts need plotly; install it with: pip install 'everlearn[report]'"
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def chart(anchor: str, figure: Figure, label: str) -> str:
    """The element in which a figure is drawn, and the figure as JSON. `label` describes it."""
    height = int(figure["layout"]["height"])
    data = json.dumps(figure, allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
    name = escape(anchor)
    return (
        f'<div class="chart" id="{name}" role="img" aria-label="{escape(label)}" '
        f'style="min-height:{height}px"></div>\n'
        f'<script type="application/json" data-chart="{name}">{data}</script>'
    )


def scripts() -> tuple[str, str]:
    """The scripts of a page with charts: plotly, and the code that draws the figures."""
    try:
        from plotly.offline import get_plotlyjs  # only pages with charts need plotly
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_HOW_TO_INSTALL) from error
    draw = files(__package__).joinpath("page.js").read_text("utf-8")
    return get_plotlyjs(), f"\n{draw}\n"


def base_layout(height: int) -> Figure:
    """The layout of all charts: no frame, the colours and the font of the page."""
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
        "ticks": "outside",  # invisible, and keep labels away from the axis
        "ticklen": 5,
        "tickcolor": "rgba(0,0,0,0)",
        "tickfont": {"color": "--muted"},
    }


def _count_range(most: float) -> Figure:
    """The range and ticks of an axis of whole numbers from 0."""
    ticks = {"dtick": 1} if most < 6 else {}  # else plotly repeats rounded labels
    return {"range": [0, 1.1 * most + 0.1], "tickformat": "d", **ticks}


def panel_title(y: float, text: str) -> Figure:
    """The title of a panel, above it on the left."""
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


def heat_table(
    shades: Mat,
    text: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    hover: Sequence[Sequence[str]],
    titles: tuple[str, str],
) -> Figure:
    """Cells with texts on a shade from 0 (light) to 1 (dark).

    Names of rows and columns and all texts are HTML already. `titles` are those of the axes, first
    that of the rows.
    """
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


_MOVE_BINS: Final = 40
_LISTED_MOVES: Final = 8
_MARK_WIDTH: Final = 14  # letters
_RIGHT_PART: Final = 0.7  # marks beyond this part of the curve have their text on the left


def mixture_growth(study: Study) -> Figure:
    """Components in use, bound per row, and accepted moves, over the rows seen."""
    points = [p for p in curve(study) if p.rows]
    rows, noun = [p.rows for p in points], escape(study.noun)
    last, most = max(rows, default=1), max((p.n_components for p in points), default=1)
    hover = [
        f"{p.rows:,} {noun}s, lap {p.lap}<br>{p.n_components} components"
        f"<br>bound {p.bound:,.1f} nats<br>{p.bound / p.rows:,.2f} nats per {noun}"
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
    return {"data": data, "layout": _growth_layout(study, last, most)}


def confusion(truth: Truth, classes: Agreement, found: Sequence[Component]) -> Figure:
    """Counts of rows by component and class, shaded by their share of the component."""
    order = sorted(found, key=lambda c: (int(classes.table[c.position].argmax()), -c.share))
    table = classes.table[[c.position for c in order]]
    shares = table / table.sum(axis=1, keepdims=True).clip(min=1)
    names = [escape(name) for name in truth.classes]
    noun = escape(truth.noun)
    text = [[f"{n:,}" if n else "" for n in counts] for counts in table.tolist()]
    hover = [
        [
            f"component #{c.id}, {noun} {name}<br>{n:,} rows, {s:.1%} of the component"
            for name, n, s in zip(names, counts, part, strict=True)
        ]
        for c, counts, part in zip(order, table.tolist(), shares.tolist(), strict=True)
    ]
    rows = [f"#{c.id}" for c in order]
    return heat_table(shares, text, rows, names, hover, ("component", f"true {noun}"))


def _move_lanes(history: History, noun: str) -> list[Figure]:
    """A lane of marks for each kind of move. A mark counts moves, and lists them on hover."""
    width = max([*(m.rows for m in history.moves), 1]) / _MOVE_BINS
    lanes = []
    for kind, name in MOVE_NAMES.items():
        bins: dict[int, list[AcceptedMove]] = defaultdict(list)
        for move in history.moves:
            if move.kind == kind:
                bins[int(move.rows / width)].append(move)
        groups = [moves for _, moves in sorted(bins.items())]
        lanes.append(
            {
                "x": [sum(m.rows for m in moves) / len(moves) for moves in groups],
                "y": [name] * len(groups),
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
        for m in moves[:_LISTED_MOVES]
    ]
    if len(moves) > _LISTED_MOVES:
        lines.append(f"and {len(moves) - _LISTED_MOVES} more")
    return "<br>".join(lines)


def _growth_layout(study: Study, last: int, most: int) -> Figure:
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
        "yaxis": {**axis(), "domain": [0.66, 0.97], **_count_range(most)},
        "yaxis2": {**axis(), "domain": [0.27, 0.57]},
        "yaxis3": {
            **axis(),
            "domain": [0.0, 0.17],
            "type": "category",
            "categoryorder": "array",
            "categoryarray": list(MOVE_NAMES.values())[::-1],
            "range": [-0.6, len(MOVE_NAMES) - 0.4],
        },
        "margin": {"l": 8, "r": 12, "t": 12, "b": 48},
        "shapes": [_mark_line(m.rows) for m in marks],
        "annotations": [
            *(panel_title(y, text) for y, text in titles),
            *(_mark_text(m.rows, m.text, m.rows > _RIGHT_PART * last) for m in marks),
        ],
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
    """The text beside a mark: low in the first panel, where a growing curve leaves room."""
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


_MAX_POINTS: Final = 1000
_MAX_BARS: Final = 40
_PANEL_TOP: Final = 0.9  # the rest of a panel's height is for its title


class _Series(NamedTuple):
    """A line of a chart: its name, the key of its values in the run log, colour and shape."""

    name: str
    key: str
    colour: str
    shape: str


_COMPONENTS: Final = _Series("components", "components", "--accent", "hv")
_SCORES: Final = (
    _Series("before learning the batch", "score_before", "--accent-2", "linear"),
    _Series("after", "score_after", "--accent", "linear"),
)


def stream_growth(
    log: Sequence[dict[str, Any]], score: str, *, accuracy: bool = False
) -> Figure | None:
    """Components and scores over the records learned, or None if the run log has neither.

    `score` is the title of the scores. With `accuracy`, they are drawn from 0 to 1.
    """
    panels = [
        (title, [(series, points) for series in lines if (points := _points(log, series.key))])
        for title, lines in (("components in use", (_COMPONENTS,)), (score, _SCORES))
    ]
    panels = [(title, lines) for title, lines in panels if lines]
    if not panels:
        return None
    height = 1.0 / len(panels)
    last = max(records for _, lines in panels for _, points in lines for records, _ in points)
    layout = {
        **base_layout(80 + 220 * len(panels)),
        "xaxis": {**axis("records learned"), "tickformat": ",", "range": [0, 1.03 * last]},
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
    for i, (title, lines) in enumerate(panels):
        low = 1.0 - (i + 1) * height
        number = "" if i == 0 else str(i + 1)
        y = {**axis(), "domain": [low + 0.03, low + _PANEL_TOP * height]}
        if lines[0][0] is _COMPONENTS:
            y |= _count_range(max(value for _, value in lines[0][1]))
        elif accuracy:
            y |= {"range": [0, 1.02], "tickformat": ".0%"}
        layout[f"yaxis{number}"] = y
        layout["xaxis"]["anchor"] = f"y{number}"  # below the last panel
        layout["annotations"].append(panel_title(low + 0.96 * height, title))
        data += [_line(series, points, f"y{number}") for series, points in lines]
    return {"data": data, "layout": layout}


def _points(log: Sequence[dict[str, Any]], key: str) -> list[tuple[int, float]]:
    """(records, value) of the log lines that have one, thinned to about 1,000 points."""
    points = [(line["records"], line[key]) for line in log if line.get(key) is not None]
    step = max(1, len(points) // _MAX_POINTS)
    return points[::-step][::-1]  # the last one stays


def _line(series: _Series, points: list[tuple[int, float]], y: str) -> Figure:
    return {
        "x": [records for records, _ in points],
        "y": [value for _, value in points],
        "yaxis": y,
        "name": series.name,
        "showlegend": series is not _COMPONENTS,
        "mode": "lines" if len(points) > 1 else "markers",
        "line": {"color": series.colour, "width": 2.5, "shape": series.shape},
        "hovertemplate": f"%{{x:,}} records<br>%{{y:,.4g}}<extra>{series.name}</extra>",
    }


def share_bars(parts: Sequence[Part], mark: str = "#") -> Figure:
    """A bar for each of the largest parts of a model. `mark` comes before the ids."""
    shown = parts[:_MAX_BARS]
    names = [f"{mark}{part.id}" for part in shown]
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
        "xaxis": {**axis("share"), "tickformat": ".2~%", "rangemode": "tozero"},
        "yaxis": {**axis(), "type": "category", "autorange": "reversed", "showgrid": False},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 48},
        "bargap": 0.25,
    }
    return {"data": [bars], "layout": layout}
