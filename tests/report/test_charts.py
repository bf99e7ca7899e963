"""Charts tell what they were given, and say nothing where there is nothing to say."""

import re

import numpy as np
import pytest

from everlearn.report.charts import (
    Line,
    Mark,
    Panel,
    Stack,
    density_strip,
    heat_table,
    line_chart,
    number,
    percent,
    share_bar,
    thinned,
    ticks,
)
from everlearn.report.page import page
from support.markup import HOSTILE, Page


def drawn(*lines, **options):
    return line_chart([Panel("title", lines)], "rows", "label", **options)


def path_of(chart):
    """The points of the first line, in units of the page."""
    (path,) = re.findall(r'class="line[^"]*"[^>]* d="([^"]*)"', chart)
    return path


def test_a_line_runs_from_corner_to_corner():
    chart = line_chart(
        [Panel("t", [Line("", [(0, 0), (5, 2), (10, 4)])], low=0, high=4)], "rows", "label"
    )
    assert path_of(chart) == "M0 100L500 50L1000 0"


def test_steps_keep_a_value_until_the_next():
    chart = line_chart(
        [Panel("t", [Line("", [(0, 0), (10, 4)], steps=True)], low=0, high=4)], "rows", "label"
    )
    assert path_of(chart) == "M0 100H1000V0"


def test_a_single_point_is_no_chart():
    assert drawn(Line("a", [(3, 1)])) == ""
    assert drawn() == ""
    assert drawn(Line("a", [(0, 1), (0, 2)])) == ""  # no width
    chart = drawn(Line("a", [(3, 1)]), Line("b", [(0, 1), (3, 2)]))
    assert chart.count('class="line"') == 1
    assert ">b</span>" in chart
    assert ">a</span>" not in chart


def test_constant_lines_have_room():
    for value in (0.0, 5.0, -3.0):
        values = re.findall(r"[-\d.]+", path_of(drawn(Line("a", [(0, value), (3, value)]))))
        assert all(0 <= float(v) <= 1000 for v in values)


def test_every_colour_is_in_the_style_sheet_for_light_and_dark(hostile_page):
    style = hostile_page[hostile_page.index("<style>") : hostile_page.index("</style>")]
    used = set(re.findall(r"var\((--[a-z\d-]+)\)", hostile_page)) - {"--key", "--shade"}
    assert {"--accent", "--accent-2", "--line", "--birth", "--cell-2"} <= used
    assert {name: style.count(f"{name}:") for name in used} == dict.fromkeys(used, 2)


def test_hints_tell_all_lines():
    chart = drawn(Line("a", [(0, 1.5), (1000, 2)]), Line("b", [(0, 3), (1000, -4)]))
    assert "<title>rows: 1,000\na: 2\nb: −4</title>" in chart


def test_marks_are_drawn_where_they_are_and_told():
    spots = [(0, 1), (100, 2)]
    chart = drawn(Line("", spots), marks=[Mark(25, "new <kind>"), Mark(250, "later")])
    assert 'class="upright" d="M250 0V100"' in chart
    assert "Dotted lines: 25: new &lt;kind&gt;." in chart
    assert "later" not in chart


def test_names_of_ticks_can_be_given():
    chart = drawn(Line("", [(1, 1), (3, 2)]), x_from=1, x_names=[(1, "<i>"), (3, "end")])
    assert '<span style="left:0%">&lt;i&gt;</span><span style="left:100%">end</span>' in chart


def test_events_are_counted_in_bars():
    births = Stack("births", "--birth", [(10, "first <b>"), (11, "second"), (100, "last")])
    deletes = Stack("deletions", "--delete", [(10, "gone")])
    chart = drawn(Line("", [(0, 1), (100, 2)]), stacks=[births, deletes])
    assert "2 births\nfirst &lt;b&gt;\nsecond" in chart
    assert "1 births\nlast" in chart
    assert ">births 3</span>" in chart
    heights = re.findall(r'y="([\d.]+)" width="\d+" height="([\d.]+)"', chart)
    assert [(float(y), float(h)) for y, h in heights] == [
        (pytest.approx(100 / 3, abs=0.01), pytest.approx(200 / 3, abs=0.01)),
        (pytest.approx(0, abs=0.01), pytest.approx(100 / 3, abs=0.01)),
        (pytest.approx(200 / 3, abs=0.01), pytest.approx(100 / 3, abs=0.01)),
    ]


def test_many_events_are_cut_short():
    chart = drawn(
        Line("", [(0, 1), (9, 2)]),
        stacks=[Stack("n", "--birth", [(1, f"e{i}") for i in range(50)])],
    )
    assert "and 42 more" in chart
    assert "e8" not in chart


@pytest.mark.parametrize("n", [1, 399, 400, 1500, 12_345])
def test_long_lines_are_thinned_and_keep_their_end(n):
    spots = [(i, i) for i in range(n)]
    kept = thinned(spots)
    assert len(kept) <= 400
    assert kept[-1] == spots[-1]
    assert list(kept) == sorted(kept)


def test_a_chart_of_a_long_log_is_small():
    chart = drawn(Line("", [(i, i % 7) for i in range(100_000)]))
    assert len(chart) < 30_000
    assert path_of(chart).count("L") < 400


@pytest.mark.parametrize(
    ("ends", "whole", "expected"),
    [
        ((0, 3), True, [0, 1, 2, 3]),
        ((0, 0.9), True, [0]),
        ((0, 9000), True, [0, 2000, 4000, 6000, 8000]),
        ((-0.31, 0.12), False, [-0.3, -0.2, -0.1, 0, 0.1]),
        ((2.0, 2.0), False, [2.0]),
    ],
)
def test_ticks_are_round(ends, whole, expected):
    assert ticks(*ends, whole=whole) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1200, "1,200"), (-3.14159, "−3.142"), (0.00012, "0.00012"), (12345.6, "12,346"), (0, "0")],
)
def test_numbers_for_people(value, text):
    assert number(value) == text


def test_shares_for_people():
    assert [percent(s) for s in (0.0, 0.0001, 0.1234, 1.0)] == ["0.0%", "<0.1%", "12.3%", "100.0%"]
    assert 'style="width:50%"' in share_bar(0.2, 0.4)
    assert "&lt;0.1%" in share_bar(1e-5, 1.0)


def test_a_strip_has_two_shapes_from_edge_to_edge():
    strip = density_strip(np.ones(32), np.linspace(0, 2, 32), ("<x>", "1 ± 2"), "a <hint>")
    whole, own = re.findall(r' d="([^"]*)"', strip)
    assert whole.startswith("M0 16L0 0L1 0")
    assert own.startswith("M0 16L0 16")
    assert own.endswith("L31 0V16Z")
    assert "&lt;x&gt;" in strip
    assert 'title="a &lt;hint&gt;"' in strip


def test_many_columns_of_a_heat_table_have_their_names_in_hints():
    n = 40
    names = [f"#{i}" for i in range(n)]
    html = heat_table(np.zeros((1, n)), [[""] * n], ["r"], names, [[""] * n], ("", ""), "label")
    assert html.count('<th scope="col" title="#') == n
    assert ">#3<" not in html


def test_charts_with_hostile_names_are_well_built():
    chart = drawn(Line(HOSTILE[0], [(0, 1), (2, 3)]), Line(HOSTILE[1], [(0, 1), (2, 3)]))
    table = heat_table(
        np.eye(2), [list(HOSTILE[:2])] * 2, HOSTILE[:2], HOSTILE[1:], [HOSTILE[:2]] * 2,
        (HOSTILE[0], HOSTILE[2]), HOSTILE[1],
    )  # fmt: skip
    found = Page(page("t", "l", [], [chart, table]))
    assert found.problems == []
    assert found.fetched == []
    assert found.scripts == []
