"""The report is one well-built file that needs no network and says what is true."""

import re
from dataclasses import replace

import numpy as np
import pytest

from everlearn.estimator.history import AcceptedMove, History
from everlearn.mixture.estimator import DPMixture
from everlearn.report.charts import number
from everlearn.report.mixture import confusion, growth_section, render, write_report
from everlearn.report.spread import mean_and_spread
from everlearn.report.study import Truth, agreement, assigned, components
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
    assert len(page.all("h1")) == len(page.all("main")) == 1
    tags = [tag for tag, _ in page.elements]
    assert tags[: tags.index("body")].count("title") == 1  # those of charts are hints
    assert page.all("meta")[0] == {"charset": "utf-8"}
    assert any(m.get("name") == "viewport" for m in page.all("meta"))


def test_ids_are_unique_and_references_meet_them(page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    named = {a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a}
    assert named <= set(ids)


def test_pictures_and_charts_have_a_text(page):
    assert all(image["alt"] for image in page.all("img"))
    charts = [a for a in page.all("div") if a.get("class") == "chart"]
    assert charts
    assert all(chart["aria-label"] for chart in charts)


def test_no_script_is_needed_or_allowed(page):
    assert page.scripts == []
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert "script-src 'none'" in policy


def test_text_from_outside_stays_text(study, hostile_page):
    page = Page(hostile_page)
    for words in (study.title, study.lead, *study.notes, *HOSTILE):
        assert words in page.text
    assert not any("onerror" in attributes for _, attributes in page.elements)
    assert page.scripts == []


def test_numbers_are_in_the_page(study, hostile_page):
    text = Page(hostile_page).text
    rows = assigned(study)
    classes = agreement(rows.labels, study.truth, study.model.n_components_)
    assert number(study.model.score(study.rows)) in text
    assert "bound, nats" not in text
    assert f"{study.model.n_samples_seen_:,}" in text
    assert f"{classes.nmi:.3f}" in text
    assert f"{classes.ami:.3f}" in text
    assert f"{classes.purity:.1%}" in text
    for one in components(study, rows, classes):
        assert f"#{one.id}" in text
        assert f"{one.share:.1%}" in text
    assert hostile_page.count('<table class="parts">') == 1
    for move in study.model.history_.moves:
        assert f"{move.gain:,.1f}" in text


def test_what_is_not_known_is_left_out(bare_study):
    page = Page(render(bare_study))
    assert page.all("img") == []
    assert "purity" not in page.text
    assert "learning time" not in page.text
    assert len([a for a in page.all("div") if a.get("class") == "chart"]) == 1
    assert "Components, largest first" in page.text


def test_a_chart_needs_two_points(bare_study):
    model = DPMixture(random_state=0).partial_fit(bare_study.rows)
    assert len({p.rows for p in model.history_.points}) <= 1
    page = Page(render(replace(bare_study, model=model)))
    assert not [a for a in page.all("div") if a.get("class") == "chart"]


def test_without_pictures_strips_show_where_a_component_lies(bare_study):
    html = render(bare_study)
    model = bare_study.model
    assert html.count('class="strip"') == model.n_components_ * model.n_features_in_
    deviations = np.sqrt(model.covariances_)
    for means, spreads in zip(model.means_, deviations, strict=True):
        for mean, spread in zip(means, spreads, strict=True):
            assert mean_and_spread(float(mean), float(spread)) in html


class Learned:
    """Stands for a model with this history, which has learned nothing since."""

    n_samples_seen_ = 0
    n_components_ = 2

    def __init__(self, history):
        self.history_ = history


def test_the_curves_tell_points_and_moves(study):
    curve = np.array([(1, 100, -900.0, 1), (2, 200, -800.0, 3), (3, 400, -400.0, 2)])
    moves = (
        AcceptedMove(2, 200, "birth", (0,), (1, 2), 12.5),
        AcceptedMove(3, 400, "merge", (4,), (1,), 3.5),
        AcceptedMove(3, 400, "delete", (2,), (), 0.5),
    )
    chart = growth_section(replace(study, model=Learned(History(curve, moves, {})), trace=()))
    assert "#0 gave birth to #1, #2 (+12.5 nats)" in chart
    assert "#4 merged into #1 (+3.5 nats)" in chart
    assert "#2 deleted (+0.5 nats)" in chart
    assert ">births 1</span>" in chart
    assert f"{study.noun}s seen: 400\ncomponents in use: 2" in chart
    assert re.search(r"seen: 200\nmean log density[^<]*: −4<", chart)


def test_growth_without_a_history_is_left_out(study):
    assert growth_section(replace(study, model=Learned(History()), trace=(), marks=())) == ""


def test_confusion_counts_rows_and_follows_the_classes(study):
    rows = assigned(study)
    order = np.array([2, 0, 1])
    truth = Truth("class", order[study.truth.labels], ("a", "b", "c"))
    classes = agreement(rows.labels, truth, study.model.n_components_)
    html = confusion(truth, classes, components(study, rows, classes), "label")
    cells = re.findall(r"--shade:(\d+)%\" title=\"[^\"]*\">(.*?)</td>", html)
    counts = np.array([int(n or 0) for _, n in cells]).reshape(-1, 3)
    shades = np.array([int(s) for s, _ in cells]).reshape(-1, 3)
    assert counts.sum() == len(study.rows)
    assert counts.argmax(axis=1).tolist() == sorted(counts.argmax(axis=1))
    assert np.allclose(shades.sum(axis=1), 100, atol=2)


def test_file_equals_page(tmp_path, bare_study):
    path = tmp_path / "report.html"
    write_report(bare_study, path)
    assert path.read_bytes().decode("utf-8") == render(bare_study)
