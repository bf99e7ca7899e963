"""The report is one well-built file that needs no network and says what is true."""

import json

import pytest

from everlearn.report.mixture import render, write_report
from everlearn.report.study import agreement, assigned, components
from support.markup import HOSTILE, Page


@pytest.fixture(scope="module", params=["hostile", "bare", "demo"])
def page(request, hostile_page, bare_study, demo_report):
    sources = {
        "hostile": lambda: hostile_page,
        "bare": lambda: render(bare_study),
        "demo": lambda: demo_report.read_text("utf-8"),
    }
    return Page(sources[request.param]())


def test_nothing_is_fetched(page):
    assert page.fetched == []


def test_the_policy_forbids_to_fetch_anything(page):
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_structure(page):
    assert page.problems == []
    assert page.declaration == "DOCTYPE html"
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("title")) == 1
    assert page.all("meta")[0] == {"charset": "utf-8"}
    assert any(m.get("name") == "viewport" for m in page.all("meta"))


def test_ids_are_unique_and_references_meet_them(page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    named = {a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a}
    drawn = {a["data-chart"] for a, _ in page.scripts if "data-chart" in a}
    assert drawn
    assert named | drawn <= set(ids)


def test_pictures_and_charts_have_a_text(page):
    assert all(image["alt"] for image in page.all("img"))
    charts = [a for a in page.all("div") if a.get("class") == "chart"]
    assert charts
    assert all(chart["aria-label"] for chart in charts)


def test_plotly_is_there_once(page):
    assert sum("plotly.js v" in text for _, text in page.scripts) == 1


def test_text_from_outside_stays_text(study, hostile_page):
    page = Page(hostile_page)
    for words in (study.title, study.lead, *study.notes, *HOSTILE):
        assert words in page.text
    assert not any("onerror" in attributes for _, attributes in page.elements)
    kinds = [a.get("type") for a, _ in page.scripts]
    assert kinds == ["application/json", "application/json", None, None]


def test_text_from_outside_cannot_end_the_charts_data(hostile_page):
    page = Page(hostile_page)
    for attributes, text in page.scripts:
        if "data-chart" in attributes:
            assert "<" not in text
            json.loads(text)


def test_labels_in_charts_are_shown_as_they_are(hostile_page):
    """plotly reads a little markup in labels, so theirs is escaped."""
    chart = next(t for a, t in Page(hostile_page).scripts if a.get("data-chart", "").endswith("on"))
    assert json.loads(chart)["data"][0]["x"][0] == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_numbers_are_in_the_page(study, hostile_page):
    text = Page(hostile_page).text
    rows = assigned(study)
    classes = agreement(rows.labels, study.truth, study.model.n_components_)
    assert f"{study.model.bound_:,.0f}".replace("-", "−") in text
    assert f"{study.model.n_samples_seen_:,}" in text
    assert f"{classes.nmi:.3f}" in text
    assert f"{classes.ami:.3f}" in text
    assert f"{classes.purity:.1%}" in text
    for one in components(study, rows, classes):
        assert f"#{one.id}" in text
        assert f"{one.share:.1%}" in text
    for move in study.model.history_.moves:
        assert f"{move.gain:,.1f}" in text


def test_what_is_not_known_is_left_out(bare_study):
    page = Page(render(bare_study))
    assert page.all("img") == []
    assert "purity" not in page.text
    assert "learning time" not in page.text
    assert [a["id"] for a in page.all("div") if a.get("class") == "chart"] == ["chart-growth"]
    assert "Components, largest first" in page.text


def test_file_equals_page(tmp_path, bare_study):
    path = tmp_path / "report.html"
    write_report(bare_study, path)
    assert path.read_bytes().decode("utf-8") == render(bare_study)
