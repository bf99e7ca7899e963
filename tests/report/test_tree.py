"""The page on a tree of topics: everything it shows is the model's, nothing is fetched."""

import json
import re

import pytest

from everlearn.estimator.tree_view import FittedTree, TreeNode
from everlearn.report.tree import outline, tree_page, treemap, write_tree_page
from everlearn.trees.estimator import TopicTree
from support.browser import needs_browser, opened

WORDS = ["<b>bold", "common", "cat", "dog", "stock", "bond"]


@pytest.fixture(scope="module")
def model():
    rows = [[1, 2, 1, 1, 0, 0], [1, 2, 0, 0, 1, 1]] * 30
    return TopicTree(vocabulary=WORDS, n_sweeps=20, random_state=0).fit(rows)


def test_map_has_every_node_within_its_parent(model):
    data = treemap(model.tree_)["data"][0]
    values = dict(zip(data["ids"], data["values"], strict=True))
    assert len(values) == model.n_nodes_
    for parent in set(data["parents"]) - {""}:
        inside = [v for i, v in enumerate(data["values"]) if data["parents"][i] == parent]
        assert sum(inside) <= values[parent] * (1 + 1e-9)


def test_labels_are_short_and_leaves_have_a_line_for_each_word(model):
    data, tree = treemap(model.tree_)["data"][0], model.tree_
    for key, label in zip(data["ids"], data["labels"], strict=True):
        lines = label.split("<br>")
        if tree.children(int(key)):
            assert len(lines) == 1
            assert len(label.split()) <= 2
        else:
            assert 1 <= len(lines) <= 4
            assert "<" not in "".join(lines)


def test_the_outline_counts_in_the_word_given():
    nodes = (TreeNode(0, None, 0, 12.5, ("a",)), TreeNode(1, 0, 1, 1.0, ("b",)))
    html = outline(FittedTree(nodes), "row")
    assert "<small>12.5 rows</small> a" in html
    assert "<small>1 row</small> b" in html


def test_page_says_it_all_and_escapes_words(model):
    page = tree_page(model, "Trees & <topics>")
    assert "Trees &amp; &lt;topics&gt;" in page
    outline = page[page.index('class="outline"') :].split("</section>")[0]
    assert "<b>bold" not in outline
    assert "&lt;b&gt;bold" in outline
    for node in model.tree_:
        assert f"<strong>#{node.id}</strong>" in outline
    (chart,) = re.findall(r'data-chart="chart-tree">(.*?)</script>', page, flags=re.DOTALL)
    assert json.loads(chart)["data"][0]["type"] == "treemap"


@needs_browser
def test_page_draws_without_complaints(model, tmp_path):
    write_tree_page(model, tmp_path / "tree.html")
    dom, said = opened(tmp_path / "tree.html", tmp_path)
    assert not said
    assert 'class="treemaplayer"' in dom
    assert "common" in dom
