"""The report in a real browser without a network: charts are drawn, and nothing goes wrong."""

import re

import pytest

from support.browser import needs_browser, opened
from support.markup import HOSTILE

LIGHT, DARK = "rgb(90, 100, 114)", "rgb(154, 165, 180)"
"""The colour of labels in charts."""

pytestmark = needs_browser


def test_charts_are_drawn_and_nothing_goes_wrong(demo_report, tmp_path):
    dom, said = opened(demo_report, tmp_path)
    assert said == []
    assert dom.count("js-plotly-plot") == 2
    assert dom.count('class="main-svg"') >= 5
    assert "births" in dom
    assert "true digit" in dom


@pytest.mark.parametrize(
    ("flags", "shown", "absent"), [((), LIGHT, DARK), (("--force-dark-mode",), DARK, LIGHT)]
)
def test_charts_follow_light_and_dark(demo_report, tmp_path, flags, shown, absent):
    dom, _ = opened(demo_report, tmp_path, *flags)
    labels = "".join(re.findall(r'<text[^>]* style="([^"]*)"', dom))
    assert f"fill: {shown}" in labels
    assert f"fill: {absent}" not in labels


def test_nothing_sticks_out_on_a_narrow_screen(demo_report, tmp_path):
    measure = (
        "<script>var all = document.documentElement;"
        "all.dataset.width = all.scrollWidth + ' of ' + all.clientWidth;"
        "all.dataset.chart = document.querySelector('.main-svg').clientWidth;</script>"
    )
    path = tmp_path / "measured.html"
    source = demo_report.read_text("utf-8").replace("</body>", f"{measure}</body>")
    path.write_text(source, encoding="utf-8")
    dom, _ = opened(path, tmp_path, "--window-size=500,900")
    ((needed, given),) = re.findall(r'data-width="(\d+) of (\d+)"', dom)
    assert int(needed) == int(given) <= 500
    assert int(re.findall(r'data-chart="(\d+)"', dom)[0]) < int(given)


def test_names_from_outside_do_not_run(hostile_page, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(hostile_page, encoding="utf-8")
    dom, said = opened(path, tmp_path)
    assert said == []
    assert dom.count("js-plotly-plot") == 2
    assert "<img src=" not in dom
    assert HOSTILE[0].replace("<", "&lt;").replace(">", "&gt;") in dom


@pytest.mark.parametrize(
    "broken",
    [
        "<script>throw new Error('broken');</script>",
        "<script>undefinedName();</script>",
        '<img src="https://example.org/x.png" alt="x">',
    ],
)
def test_the_console_is_listened_to(demo_report, tmp_path, broken):
    """The tests above would notice an error of a script or a forbidden request."""
    path = tmp_path / "broken.html"
    source = demo_report.read_text("utf-8").replace("</body>", f"{broken}</body>")
    path.write_text(source, encoding="utf-8")
    assert opened(path, tmp_path)[1]
