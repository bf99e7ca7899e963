"""The page of what was kept and forgotten: valid charts, right numbers, no network."""

import numpy as np
import plotly.graph_objects as go
import pytest
from examples.continual_page import consolidation, continual_page, losses, score_matrix

from everlearn.metrics.continual import continual_summary
from report.test_charts import COLOURS, coloured
from support.browser import needs_browser, opened
from support.markup import HOSTILE, Page

TABLE = np.array([[9.0, 1.0, 0.0], [10.0, 8.0, 2.0], [4.0, 6.0, 7.0]])
TASKS = ["zero", "one", "two"]
SCORES = {"kept": TABLE, "lost": TABLE - 100 * np.tri(3, k=-1)}
FOUND = {name: continual_summary(table) for name, table in SCORES.items()}


@pytest.mark.parametrize(
    "figure",
    [
        consolidation(SCORES, TASKS, "nats"),
        losses(FOUND, "nats"),
        score_matrix(TABLE, TASKS, "nats"),
    ],
)
def test_plotly_accepts_the_figures(figure):
    plain, names = coloured(figure)
    go.Figure(plain)  # refuses unknown properties and values
    assert names
    assert names <= COLOURS


def test_lines_are_means_of_tasks_learned_so_far():
    kept, lost = consolidation(SCORES, TASKS, "nats")["data"]
    assert kept["y"] == pytest.approx([9, 9, 17 / 3])
    assert lost["y"][0] == 9
    assert (kept["line"]["color"], kept["name"]) != (lost["line"]["color"], lost["name"])


def test_bars_are_what_tasks_lose():
    forgetting, interference = losses(FOUND, "nats")["data"]
    assert forgetting["x"] == ["kept", "lost"]
    assert forgetting["y"] == pytest.approx([4.0, 103.5])
    assert interference["y"] == pytest.approx([-3.5, -103.5])


def test_the_table_says_what_was_forgotten():
    text = Page(continual_page(SCORES, TASKS, oracle=TABLE + 1)).text
    for words in ("forgetting, kept4.0", "final, kept5.7", "−3.5", "regret"):
        assert words in text
    plain = Page(continual_page(SCORES, TASKS)).text
    assert "regret" not in plain
    assert "forward" not in plain


def test_the_table_has_forward_transfer():
    text = Page(continual_page({"kept": TABLE}, TASKS, initial=[0.0, 0.0, -7.5])).text
    assert "forward" in text
    assert "5.2" in text  # (1 - 0 + 2 + 7.5) / 2


@pytest.mark.parametrize(
    ("scores", "tasks"), [({}, TASKS), ({"a": TABLE[:2]}, TASKS), ({"a": TABLE * np.nan}, TASKS)]
)
def test_other_tables_are_refused_by_name(scores, tasks):
    with pytest.raises(ValueError, match="'scores' of continual_page"):
        continual_page(scores, tasks)


@needs_browser
def test_charts_are_drawn_and_names_do_not_run(tmp_path):
    path = tmp_path / "page.html"
    names = [HOSTILE[0], "one", "two"]
    path.write_text(continual_page({HOSTILE[0]: TABLE}, names, oracle=TABLE), encoding="utf-8")
    dom, said = opened(path, tmp_path)
    assert said == []
    assert dom.count("js-plotly-plot") == 3
    assert "<img src=" not in dom
