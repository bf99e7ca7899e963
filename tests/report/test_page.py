"""The report in a real browser without a network: it fits the screen, and nothing goes wrong."""

import pytest

from everlearn.report.page import Html, page, table
from support.browser import needs_browser, opened, widths
from support.markup import HOSTILE, Page

LIGHT, DARK = "rgb(43, 98, 168)", "rgb(116, 174, 240)"
"""The colour of a line of a chart."""


def with_script(page):
    """The page, with scripts allowed, and what follows measured at its end."""
    return page.replace("script-src 'none'", "script-src 'unsafe-inline'")


def test_cells_are_text_unless_they_are_html():
    html = table("c", ("a", "b (unit)"), [("<i>", Html("<b>x</b>"))])
    assert "&lt;i&gt;" in html
    assert '<td class="number" data-head="b"><b>x</b></td>' in html
    assert '<th scope="col" class="number">b (unit)</th>' in html


def test_a_notice_comes_before_the_numbers():
    html = page("t", "l", [("n", "1")], [], notice="watch <out>")
    assert html.index('<p class="notice">watch &lt;out&gt;</p>') < html.index('class="numbers"')
    assert '<p class="notice">' not in page("t", "l", [("n", "1")], [])
    assert Page(html).problems == []


@needs_browser
def test_charts_are_there_and_nothing_goes_wrong(demo_report, tmp_path):
    dom, said = opened(demo_report, tmp_path)
    assert said == []
    assert dom.count('class="chart"') == 1
    assert "births" in dom
    assert "true digit" in dom


@needs_browser
@pytest.mark.parametrize(
    ("flags", "colour"), [((), LIGHT), (("--force-dark-mode",), DARK)], ids=["light", "dark"]
)
def test_charts_follow_light_and_dark(demo_report, tmp_path, flags, colour):
    measure = (
        "<script>var line = document.querySelector('.line');"
        "document.documentElement.dataset.stroke = getComputedStyle(line).stroke;</script>"
    )
    path = tmp_path / "measured.html"
    source = with_script(demo_report.read_text("utf-8")).replace("</body>", f"{measure}</body>")
    path.write_text(source, encoding="utf-8")
    dom, _ = opened(path, tmp_path, *flags)
    assert f'data-stroke="{colour}"' in dom


@needs_browser
@pytest.mark.parametrize("window", [500, 1200])  # a window of Chromium has at least 500 pixels
def test_nothing_sticks_out_of_its_card(demo_report, tmp_path, window):
    """Wide tables scroll inside their card."""
    measure = (
        "<script>var out = 0; document.querySelectorAll('section').forEach(function (card) {"
        "var right = card.getBoundingClientRect().right + 1;"
        "card.querySelectorAll('.chart, .chart *, .parts, .parts *').forEach(function (part) {"
        "if (part.getBoundingClientRect().right > right) out += 1; }); });"
        "document.documentElement.dataset.out = out;</script>"
    )
    path = tmp_path / "measured.html"
    source = with_script(demo_report.read_text("utf-8")).replace("</body>", f"{measure}</body>")
    path.write_text(source, encoding="utf-8")
    dom, _ = opened(path, tmp_path, f"--window-size={window},900")
    assert 'data-out="0"' in dom
    needed, given = widths(demo_report, tmp_path, window)
    assert needed <= given


def test_a_page_is_small(demo_report):
    assert demo_report.stat().st_size < 200_000


@needs_browser
def test_names_from_outside_do_not_run(hostile_page, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(hostile_page, encoding="utf-8")
    dom, said = opened(path, tmp_path)
    assert said == []
    assert "<img src=" not in dom
    assert HOSTILE[0].replace("<", "&lt;").replace(">", "&gt;") in dom


@needs_browser
@pytest.mark.parametrize(
    "broken",
    [
        "<script>document.title = 'no script may run';</script>",
        '<img src="https://example.org/x.png" alt="x">',
    ],
)
def test_the_console_is_listened_to(demo_report, tmp_path, broken):
    """The tests above would notice a script or a request, both of which the page forbids."""
    path = tmp_path / "broken.html"
    source = demo_report.read_text("utf-8").replace("</body>", f"{broken}</body>")
    path.write_text(source, encoding="utf-8")
    assert opened(path, tmp_path)[1]
