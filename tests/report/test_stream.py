"""The page about a model that was learned from a stream."""

import json
import re

import pytest
from typer.testing import CliRunner

from everlearn.cli.learn import learn_in_terminal
from everlearn.cli.main import app
from everlearn.stream.learn import log_path
from everlearn.stream.summary import Part
from support.browser import needs_browser, opened, widths
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
    assert "Learning curves" in text
    assert len(text) < 200_000


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
    assert '<span style="bottom:100%">100%</span>' in pages["classifier"]
    assert "accuracy on new records" in pages["classifier"]
    assert "log density, new rows" in pages["mixture"]
    assert "bound, nats" not in pages["mixture"]
    tree = pages["components"].split("What it found")[1]
    assert 'title="240 rows"' in tree
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
    assert "<span>L*</span>" in text  # the columns of pixels have names
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
        (
            "mixture from JSON lines",
            ["component", "mean ± spread", "share", "examples (a, b, c, d)"],
        ),
        ("topics from a folder", ["topic", "top words", "share", "examples"]),
        ("classifier from texts", ["topic", "speaks for", "top words", "share", "examples"]),
        ("classifier from rows", ["class", "largest weights", "examples (a, b, c, d)"]),
        ("regressor from a table", ["output", "largest weights"]),
        ("ppca from a table", ["component", "largest loadings", "share of variance"]),
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
    assert re.findall(r"<th[^>]*>(.*?)</th>", head.split("<thead>")[1]) == [
        "component",
        "share of variance",
    ]
    cells = [re.sub("<[^>]*>", "", c) for c in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", first)]
    assert cells == ["0", "60.0%"]


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("mixture from JSON lines", "log density of a row, nats, by batch"),
        ("topics from a folder", "log density of a word, nats, by batch"),
        ("clumped from images", "log density of a point, nats, by batch"),
        ("classifier from texts", "accuracy, by batch"),
        ("regressor from a table", "R², by batch"),
    ],
)
def test_curves_say_what_a_score_is(tmp_path, name, score):
    assert f'<p class="panel-title">{score}<' in reported(tmp_path, name).read_text("utf-8")


@needs_browser
@pytest.mark.parametrize("name", ["mixture from JSON lines", "topics from a folder"])
def test_the_charts_are_drawn_and_nothing_goes_wrong(tmp_path, name):
    dom, said = opened(reported(tmp_path, name), tmp_path)
    assert said == []
    assert dom.count('class="chart"') == 1
    assert "Bad records, set aside" in dom or name.startswith("topics")


@needs_browser
@pytest.mark.parametrize("name", ["mixture from JSON lines", "tree from texts"])
def test_nothing_sticks_out_on_a_narrow_screen(tmp_path, name):
    needed, given = widths(reported(tmp_path, name), tmp_path)
    assert needed <= given


def test_examples_are_read_from_the_sources_while_they_are_there(tmp_path):
    page = reported(tmp_path, "topics from a folder")
    text = page.read_text("utf-8")
    lists = re.findall(r'<ul class="examples">(.*?)</ul>', text)
    assert len(lists) == 4
    for item in re.findall(r"<li>(.*?)</li>", "".join(lists)):
        name, words = item.split(": ")
        assert (tmp_path / "texts" / name).read_text().split() == words.split()
    for file in (tmp_path / "texts").iterdir():
        file.unlink()
    CliRunner().invoke(app, ["report", str(tmp_path / "m<b>.evl"), "-o", str(page)])
    text = page.read_text("utf-8")
    assert 'class="examples"' not in text
    assert "Examples are records" not in text


def test_a_mixture_names_its_prior(tmp_path):
    text = reported(tmp_path, "mixture from JSON lines").read_text("utf-8")
    assert "Prior of the components: learned." in text


def test_a_fall_of_the_scores_of_new_batches_is_the_headline(tmp_path):
    page = reported(tmp_path, "mixture from JSON lines")
    assert 'class="notice"' not in page.read_text("utf-8")
    log = log_path(tmp_path / "m<b>.evl")
    scores = [-3.0, -3.1, -2.9, -3.0, -3.05, -2.95, -6.0, -6.1, -5.9, -6.0]
    lines = [
        {"batch": i, "records": 20 * i, "time": "", "score_before": s}
        for i, s in enumerate(scores, start=1)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    CliRunner().invoke(app, ["report", str(tmp_path / "m<b>.evl"), "-o", str(page)])
    (notice,) = re.findall(r'<p class="notice">(.*?)</p>', page.read_text("utf-8"))
    assert notice == (
        "New records fit worse than before: the mean log density of a row fell from −3 to −6 nats "
        "after 120 records."
    )


@pytest.mark.parametrize(
    ("name", "scores", "last", "change"),
    [
        ("mixture from JSON lines", [-3.0, -3.0, -2.0, -2.5], "−2.25", "+0.75"),
        ("classifier from rows", [0.9, 0.9, 0.8, 0.8], "80.0%", "−10.0 points"),
    ],
)
def test_key_numbers_have_the_score_of_new_records_and_its_change(
    tmp_path, name, scores, last, change
):
    page = reported(tmp_path, name)
    lines = [
        {"batch": i, "records": 20 * i, "time": "", "score_before": s}
        for i, s in enumerate(scores, start=1)
    ]
    log_path(tmp_path / "m<b>.evl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    CliRunner().invoke(app, ["report", str(tmp_path / "m<b>.evl"), "-o", str(page)])
    numbers = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page.read_text("utf-8")))
    assert last in (numbers.get("log density, new rows"), numbers.get("accuracy on new records"))
    assert numbers["change since the start"] == change


def test_scores_of_words_raise_no_alarm(tmp_path):
    """They fall as the vocabulary grows."""
    page = reported(tmp_path, "topics from a folder")
    log = log_path(tmp_path / "m<b>.evl")
    lines = [
        {"batch": i, "records": 20 * i, "time": "", "score_before": -3.0 if i < 9 else -6.0}
        for i in range(1, 20)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    CliRunner().invoke(app, ["report", str(tmp_path / "m<b>.evl"), "-o", str(page)])
    text = page.read_text("utf-8")
    assert 'class="notice"' not in text
    assert "It falls as the vocabulary grows." in text


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["report", "m.evl", "-o", str(tmp_path / "no" / "x.html")])
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
