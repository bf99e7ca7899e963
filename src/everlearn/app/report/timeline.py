"""Charts of a stream: curves over the records learned, and shares of the parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everlearn.app.report.charts import Figure, axis, base_layout, panel_title
from everlearn.app.report.html import escape
from everlearn.app.tool.portrait import Part

_POINTS = 1000
_BARS = 40
_TOP = 0.9


def growth(log: Sequence[dict[str, Any]], *, accuracy: bool = False) -> Figure | None:
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


def accuracy(curve: Sequence[tuple[int, float]]) -> Figure:
    """Held-out accuracy over the records learned."""
    line = _line(("accuracy", "accuracy", "--accent", "linear"), list(curve), 0)
    layout = {
        **base_layout(260),
        "xaxis": {**axis("learned"), "tickformat": ",", "rangemode": "tozero"},
        "yaxis": {**axis("accuracy"), "tickformat": ".0%", "range": [0, 1.02]},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 48},
        "showlegend": False,
    }
    return {"data": [line], "layout": layout}
