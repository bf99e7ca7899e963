"""The page of what was kept and forgotten: right numbers, no network."""

import re

import numpy as np
import pytest
from examples.continual_page import consolidation, continual_page, score_matrix

from support.browser import needs_browser, opened
from support.markup import HOSTILE, Page

TABLE = np.array([[9.0, 1.0, 0.0], [10.0, 8.0, 2.0], [4.0, 6.0, 7.0]])
TASKS = ["zero", "one", "two"]
SCORES = {"kept": TABLE, "lost": TABLE - 100 * np.tri(3, k=-1)}


def test_lines_are_means_of_tasks_learned_so_far():
    kept, lost = consolidation(SCORES)
    assert [x for x, _ in kept.spots] == [1, 2, 3]
    assert [y for _, y in kept.spots] == pytest.approx([9, 9, 17 / 3])
    assert lost.spots[0] == (1, 9)
    assert (kept.colour, kept.name) != (lost.colour, lost.name)


def test_cells_are_the_scores_shaded_by_rank():
    html = score_matrix(TABLE, TASKS, "nats", "label")
    cells = re.findall(r"--shade:(\d+)%\" title=\"([^\"]*)\">(.*?)</td>", html)
    assert [int(text) for _, _, text in cells] == TABLE.ravel().tolist()
    order = np.argsort([int(shade) for shade, _, _ in cells])
    assert TABLE.ravel()[order].tolist() == sorted(TABLE.ravel())
    assert cells[3][1] == "zero after one: 10.00 nats"


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
    assert dom.count('class="chart"') == 1
    assert dom.count('class="heat"') == 1
    assert "<img src=" not in dom
