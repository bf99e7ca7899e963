"""Charts of reports as HTML and inline SVG: they need no script and follow the width of the page.

Lines are drawn in a box of 1000 x 100 units that is stretched to the place they have. Their labels
are HTML, so letters keep their size on a phone. Colours are CSS variables of the page, which has a
light and a dark set. What a browser shows when the reader points at a spot stands in `title`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.report.page import Html, minus, paragraph

Spot: TypeAlias = tuple[float, float]
"""x and y of a point of a line."""
_WIDTH, _HEIGHT = 1000, 100
_MAX_POINTS: Final = 400
_MAX_HINTS: Final = 60
_TICKS: Final = 5


def number(value: float) -> str:
    """A number for people: "1,200", "−3.14", "0.00012"."""
    if value == int(value) and abs(value) < 1e15:
        return minus(f"{value:,.0f}")
    return minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")


def percent(share: float) -> str:
    """A share for people: "12.3%"; what is there but tiny is "<0.1%"."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


class Line(NamedTuple):
    """A line of a chart.

    Attributes
    ----------
    name : what it shows; empty if the title of its panel says it
    spots : its points, x ascending
    colour : name of a CSS variable
    steps : whether it keeps each value until the next point
    dashed : whether it is drawn as dots
    """

    name: str
    spots: Sequence[Spot]
    colour: str = "--accent"
    steps: bool = False
    dashed: bool = False


class Panel(NamedTuple):
    """Lines over the same axes, below a title.

    Attributes
    ----------
    title : what the lines show, with its unit
    lines : the lines
    low, high : ends of the y axis; None means by the lines
    form : how a value is written
    """

    title: str
    lines: Sequence[Line]
    low: float | None = None
    high: float | None = None
    form: Callable[[float], str] = number


class Mark(NamedTuple):
    """An event: where on the x axis it was, and what it was."""

    x: float
    text: str


class Stack(NamedTuple):
    """One kind of events: its name, its colour, and (x, text) of each event."""

    name: str
    colour: str
    events: Sequence[tuple[float, str]]


def line_chart(
    panels: Sequence[Panel],
    x_title: str,
    label: str,
    *,
    x_from: float = 0.0,
    marks: Sequence[Mark] = (),
    x_names: Sequence[tuple[float, str]] | None = None,
    stacks: Sequence[Stack] = (),
) -> Html:
    """Panels below each other with one x axis. Empty if no line has two points beside each other.

    Parameters
    ----------
    panels : what to draw; lines of one point are left out
    x_title : what the x axis shows
    label : the content in words, for readers who do not see it
    x_from : where the x axis begins
    marks : events that vertical lines show
    x_names : places and names of ticks of the x axis; None makes round numbers
    stacks : kinds of events, which a last panel counts as bars
    """
    drawn = [
        panel._replace(
            lines=[k._replace(spots=thinned(k.spots)) for k in panel.lines if _has_width(k)]
        )
        for panel in panels
    ]
    drawn = [panel for panel in drawn if panel.lines]
    if not drawn:
        return Html("")
    x_to = max(line.spots[-1][0] for panel in drawn for line in panel.lines)
    inside = [mark for mark in marks if x_from < mark.x <= x_to]
    names = x_names
    if names is None:
        names = [(x, number(x)) for x in ticks(x_from, x_to, whole=True)]
    content = [_panel(panel, x_from, x_to, inside, x_title) for panel in drawn]
    if any(kind.events for kind in stacks):
        content.append(_bars([kind for kind in stacks if kind.events], x_from, x_to))
    places = "".join(
        f'<span style="left:{_part(x, x_from, x_to):.4g}%">{escape(name)}</span>'
        for x, name in names
    )
    content.append(f'<div class="xs">{places}</div><p class="x-title">{escape(x_title)}</p>')
    if inside:
        told = "; ".join(f"{number(mark.x)}: {mark.text}" for mark in inside)
        content.append(paragraph(f"Dotted lines: {told}.", "hint"))
    return Html(
        f'<div class="chart" role="group" aria-label="{escape(label)}">{"".join(content)}</div>'
    )


def _has_width(line: Line) -> bool:
    return len(line.spots) > 1 and line.spots[0][0] < line.spots[-1][0]


def ticks(low: float, high: float, *, whole: bool = False, most: int = _TICKS) -> list[float]:
    """Round numbers from `low` to `high`: steps of 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> ticks(0, 11), ticks(0, 3, whole=True)
    ([0.0, 5.0, 10.0], [0.0, 1.0, 2.0, 3.0])
    """
    least = (high - low) / most
    if not least > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= least * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _part(value: float, low: float, high: float) -> float:
    """Where a value lies between two others, in percent."""
    return 100.0 * (value - low) / (high - low)


def _panel(panel: Panel, x_from: float, x_to: float, marks: Sequence[Mark], x_title: str) -> str:
    values = [y for line in panel.lines for _, y in line.spots]
    low = min(values) if panel.low is None else panel.low
    high = max(values) if panel.high is None else panel.high
    room = 0.06 * (high - low) or abs(high) or 1.0
    low = low - room if panel.low is None else low
    high = high + room if panel.high is None else high
    whole = panel.form is number and all(float(value).is_integer() for value in values)
    places = ticks(low, high, whole=whole)

    def y_of(value: float) -> float:
        return _HEIGHT - _part(value, low, high)

    grid = "".join(f"M0 {y_of(y):.4g}H{_WIDTH}" for y in places)
    upright = "".join(f"M{10 * _part(m.x, x_from, x_to):.4g} 0V{_HEIGHT}" for m in marks)
    drawn = "".join(
        f'<path class="line{" dashed" if line.dashed else ""}" style="stroke:var({line.colour})" '
        f'd="{_path(line, x_from, x_to, y_of)}"/>'
        for line in panel.lines
    )
    names = [panel.form(y).replace(".0%", "%") for y in places]
    labels = "".join(
        f'<span style="bottom:{_part(y, low, high):.4g}%">{escape(name)}</span>'
        for y, name in zip(places, names, strict=True)
    )
    return (
        f'<div class="panel">{_title(panel.title, [(k.name, k.colour) for k in panel.lines])}'
        f'<div class="plot"><div class="ys" aria-hidden="true">{labels}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
        f'<path class="grid" d="{grid}"/><path class="upright" d="{upright}"/>{drawn}'
        f"{_hints(panel, x_from, x_to, x_title)}</svg></div></div>"
    )


def _title(title: str, keys: Iterable[tuple[str, str]]) -> str:
    """The title of a panel, and the names of its colours."""
    named = "".join(
        f'<span class="key" style="--key:var({colour})">{escape(name)}</span>'
        for name, colour in keys
        if name
    )
    return f'<p class="panel-title">{escape(title)}{named}</p>'


def thinned(spots: Sequence[Spot], most: int = _MAX_POINTS) -> Sequence[Spot]:
    """About `most` points at most. The last point is always kept."""
    step = -(-len(spots) // most)
    return spots[::-step][::-1] if step > 1 else spots


def _path(line: Line, x_from: float, x_to: float, y_of: Callable[[float], float]) -> str:
    parts: list[str] = []
    for x, y in line.spots:
        across, down = f"{10 * _part(x, x_from, x_to):.5g}", f"{y_of(y):.4g}"
        if not parts:
            parts.append(f"M{across} {down}")
        else:
            parts.append(f"H{across}V{down}" if line.steps else f"L{across} {down}")
    return "".join(parts)


def _hints(panel: Panel, x_from: float, x_to: float, x_title: str) -> str:
    """Invisible bands, each of which tells the values of the lines below it."""
    first = thinned(max((line.spots for line in panel.lines), key=len), _MAX_HINTS)
    edges = [(a[0] + b[0]) / 2 for a, b in pairwise(first)]
    found = []
    for (x, _), low, high in zip(first, [x_from, *edges], [*edges, x_to], strict=True):
        told = []
        for line in panel.lines:
            near = min(line.spots, key=lambda spot: abs(spot[0] - x))
            told.append(f"{line.name or panel.title}: {panel.form(near[1])}")
        text = escape("\n".join([f"{x_title}: {number(x)}", *told]))
        left, right = 10 * _part(low, x_from, x_to), 10 * _part(high, x_from, x_to)
        found.append(
            f'<rect x="{left:.5g}" width="{max(right - left, 0):.5g}" height="{_HEIGHT}">'
            f"<title>{text}</title></rect>"
        )
    return f'<g class="hints">{"".join(found)}</g>'


_BINS: Final = 40
_LISTED: Final = 8


def _bars(kinds: Sequence[Stack], x_from: float, x_to: float) -> str:
    """Events counted in equal parts of the x axis, one kind on top of the other."""
    bins: list[list[list[str]]] = [[[] for _ in kinds] for _ in range(_BINS)]
    for k, kind in enumerate(kinds):
        for x, text in kind.events:
            place = int(_part(x, x_from, x_to) / 100 * _BINS)
            bins[min(max(place, 0), _BINS - 1)][k].append(text)
    most = max(sum(map(len, one)) for one in bins)
    width, drawn = _WIDTH / _BINS, []
    for i, one in enumerate(bins):
        below = 0
        for kind, texts in zip(kinds, one, strict=True):
            if not texts:
                continue
            below += len(texts)
            more = [f"and {len(texts) - _LISTED} more"] if len(texts) > _LISTED else []
            told = escape("\n".join([f"{len(texts)} {kind.name}", *texts[:_LISTED], *more]))
            height = _HEIGHT * len(texts) / most
            drawn.append(
                f'<rect style="fill:var({kind.colour})" x="{i * width + 2:g}" '
                f'y="{_HEIGHT - _HEIGHT * below / most:.4g}" width="{width - 4:g}" '
                f'height="{height:.4g}"><title>{told}</title></rect>'
            )
    labels = f'<span style="bottom:100%">{most}</span><span style="bottom:0%">0</span>'
    keys = [(f"{kind.name} {len(kind.events):,}", kind.colour) for kind in kinds]
    return (
        f'<div class="panel">{_title("accepted moves", keys)}'
        f'<div class="plot low"><div class="ys" aria-hidden="true">{labels}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">{"".join(drawn)}</svg>'
        "</div></div>"
    )


def share_bar(share: float, most: float) -> Html:
    """A share as a bar and a number. A share of `most` fills the place."""
    width = 100 * share / most if most > 0 else 0.0
    return Html(
        f'<span class="share"><span class="bar"><i style="width:{width:.3g}%"></i></span>'
        f"<span>{escape(percent(share))}</span></span>"
    )


_STRIP: Final = (32, 16)
"""Points across a strip, and units of its height."""


def density_strip(overall: Vec, own: Vec, texts: tuple[str, str], hint: str) -> Html:
    """Two densities on the same axis, each scaled to fill the height: of all rows and of a part.

    The two lines of `texts` stand below, `hint` shows on pointing.
    """
    return Html(
        f'<span class="strip" title="{escape(hint)}"><svg viewBox="0 0 {_STRIP[0] - 1} {_STRIP[1]}"'
        f' preserveAspectRatio="none" aria-hidden="true"><path class="all" d="{_area(overall)}"/>'
        f'<path class="own" d="{_area(own)}"/></svg><span>{escape(texts[0])}</span>'
        f"<span>{escape(texts[1])}</span></span>"
    )


def strip_points(low: float, high: float) -> Vec:
    """Where `density_strip` wants densities."""
    return np.linspace(low, high, _STRIP[0])


def _area(density: Vec) -> str:
    top = float(density.max(initial=0.0)) or 1.0
    heights = _STRIP[1] * (1.0 - density / top)
    line = "".join(f"L{x} {y:.3g}" for x, y in enumerate(heights.tolist()))
    return f"M0 {_STRIP[1]}{line}V{_STRIP[1]}Z"


_MANY_COLUMNS: Final = 16


def heat_table(
    shades: Mat,
    text: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    hints: Sequence[Sequence[str]],
    titles: tuple[str, str],
    label: str,
) -> Html:
    """A table of cells on a shade from 0 (light) to 1 (dark).

    `titles` name the rows and the columns. Many columns are narrow and have their names in hints.
    """
    many = len(columns) > _MANY_COLUMNS
    heads = "".join(
        f'<th scope="col" title="{escape(name)}">{"" if many else escape(name)}</th>'
        for name in columns
    )
    lines = []
    for name, shade, cells, told in zip(rows, shades.tolist(), text, hints, strict=True):
        inner = "".join(
            f'<td{" class=deep" if s > 0.5 else ""} style="--shade:{100 * s:.0f}%" '
            f'title="{escape(hint)}">{escape(cell)}</td>'
            for s, cell, hint in zip(shade, cells, told, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{inner}</tr>')
    corner = f'<th scope="col">{escape(titles[0])}</th>'
    caption = f"<caption>{escape(titles[1])}</caption>" if titles[1] else ""
    blank = " blank" if not any(cell for cells in text for cell in cells) else ""
    return Html(
        f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">'
        f'<table class="heat{blank}">{caption}<thead><tr>{corner}{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
