"""The page about a model that was learned from a stream."""

import re

import pytest
from typer.testing import CliRunner

from everlearn.cli.learn import learn_in_terminal
from everlearn.cli.main import app
from everlearn.stream.summary import Part
from support.browser import needs_browser, opened
from support.stream_cases import CASES, FILES


def reported(folder, name):
    request, _ = CASES[name].request(folder, folder / "m<b>.evl")
    learn_in_terminal(request, quiet=True)
    page = folder / "page.html"
    result = CliRunner().invoke(app, ["report", str(request.model), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(page)
    return page


@pytest.mark.parametrize("name", FILES)
def test_every_kind_has_a_page(tmp_path, name):
    text = reported(tmp_path, name).read_text("utf-8")
    assert "m&lt;b&gt;.evl" in text
    assert "m<b>" not in text
    assert "What it found" in text
    assert 'data-chart="chart-growth"' in text


def test_what_a_page_says_is_what_the_model_has(tmp_path):
    """Permanent numbers, shares and documents only where there are such."""
    pages = {}
    for case in ("classifier from rows", "components from an array", "mixture from Parquet"):
        folder = tmp_path / case.split()[0]
        folder.mkdir()
        pages[folder.name] = reported(folder, case).read_text("utf-8")
    promised = {name for name, text in pages.items() if "# are permanent" in text}
    assert promised == {"components", "mixture"}
    found = pages["classifier"].split("What it found")[1].split("Learning curves")[0]
    assert ">share<" not in found
    assert "#0" not in found
    assert '"range": [0, 1.02]' in pages["classifier"]
    assert '"range": [0, 1.02]' not in pages["mixture"]
    tree = pages["components"].split("What it found")[1]
    assert " rows\\u003cbr" in tree
    assert "documents" not in tree
    assert "240 rows" in pages["mixture"]  # how far the source is learned


def test_images_are_shown_by_topic_while_they_are_there(tmp_path):
    page = reported(tmp_path, "clumped from images")
    text = page.read_text("utf-8")
    memory = text.split("caption>Memory that the model holds")[1].split("</table")[0]
    names = re.findall(r'<th scope="row">(.*?)</th>', memory)
    assert len(names) == len(set(names))
    assert "number of clumps" in names
    assert "Images by topic" in text
    assert "L*=" in text  # the columns of pixels have names
    pictures = text.count("coloured by topic")
    assert pictures > 0
    assert text.count("<figcaption>") == pictures
    assert "broken" not in text.split("Images by topic")[1].split("What it found")[0]
    for image in tmp_path.rglob("*.png"):
        image.unlink()
    CliRunner().invoke(app, ["report", str(tmp_path / "m<b>.evl"), "-o", str(page)])
    assert "Images by topic" not in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("mixture from JSON lines", ["component", "means that differ most", "share"]),
        ("topics from a folder", ["topic", "top words", "share"]),
        ("classifier from texts", ["topic", "evidence for", "top words", "share"]),
        ("classifier from rows", ["class", "largest weights"]),
        ("regressor from a table", ["output", "largest weights"]),
        ("ppca from a table", ["component", "largest loadings", "share"]),
    ],
)
def test_columns_say_what_parts_are(tmp_path, name, heads):
    found = reported(tmp_path, name).read_text("utf-8").split("What it found")[1]
    row = found.split("</tr>")[0].split("<thead>")[1]
    assert re.findall(r"<th[^>]*>(.*?)</th>", row) == heads


def test_a_column_that_would_be_empty_is_left_out(tmp_path, monkeypatch):
    """As with a mixture of PPCAs, whose members have no description."""
    members = [Part(0, 0.6), Part(1, 0.4)]
    monkeypatch.setattr("everlearn.report.stream.parts_of", lambda *_: members)
    found = reported(tmp_path, "ppca from a table").read_text("utf-8").split("What it found")[1]
    head, first, *_ = found.split("</tr>")
    assert re.findall(r"<th[^>]*>(.*?)</th>", head.split("<thead>")[1]) == ["component", "share"]
    assert re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", first) == ["0", "60.00%"]


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("mixture from JSON lines", "log-likelihood per row, nats"),
        ("topics from a folder", "log-likelihood per word, nats"),
        ("clumped from images", "log-likelihood per point, nats"),
        ("classifier from texts", "accuracy on a batch"),
        ("regressor from a table", "R\\u00b2 on a batch"),
    ],
)
def test_curves_say_what_a_score_is(tmp_path, name, score):
    assert f'"text": "{score}"' in reported(tmp_path, name).read_text("utf-8")


@needs_browser
@pytest.mark.parametrize("name", ["mixture from JSON lines", "topics from a folder"])
def test_the_charts_are_drawn_and_nothing_goes_wrong(tmp_path, name):
    dom, said = opened(reported(tmp_path, name), tmp_path)
    assert said == []
    assert dom.count("js-plotly-plot") == 2
    assert "Bad records, set aside" in dom or name.startswith("topics")


@needs_browser
def test_nothing_sticks_out_on_a_narrow_screen(tmp_path):
    page = reported(tmp_path, "mixture from JSON lines")
    measure = (
        "<script>var all = document.documentElement;"
        "all.dataset.width = all.scrollWidth + ' of ' + all.clientWidth;</script>"
    )
    text = page.read_text("utf-8").replace("</body>", f"{measure}</body>")
    page.write_text(text, encoding="utf-8")
    dom, _ = opened(page, tmp_path, "--window-size=500,900")
    width = dom.split('data-width="')[1].split('"')[0]
    inner, outer = map(int, width.split(" of "))
    assert inner <= outer


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["report", "m.evl", "-o", str(tmp_path / "no" / "x.html")])
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
