"""The page on a tree of topics: everything it shows is the model's, nothing is fetched."""

import pytest

from everlearn.estimator.tree_view import FittedTree, TreeNode
from everlearn.report.tree import outline, tree_page, write_tree_page
from everlearn.trees.estimator import TopicTree
from support.browser import needs_browser, opened

WORDS = ["<b>bold", "common", "cat", "dog", "stock", "bond"]


@pytest.fixture(scope="module")
def model():
    rows = [[1, 2, 1, 1, 0, 0], [1, 2, 0, 0, 1, 1]] * 30
    return TopicTree(vocabulary=WORDS, n_sweeps=20, random_state=0).fit(rows)


def test_the_outline_counts_in_the_word_given():
    nodes = (TreeNode(0, None, 0, 12.5, ("a",)), TreeNode(1, 0, 1, 1.0, ("b",)))
    html = outline(FittedTree(nodes), "row")
    assert 'title="12.5 rows"><strong>#0</strong>' in html
    assert 'title="1 row"><strong>#1</strong>' in html
    assert "8.0%" in html  # 1 of 12.5


def test_the_outline_has_examples_below_their_nodes():
    nodes = (TreeNode(0, None, 0, 2.0, ("a",)), TreeNode(1, 0, 1, 1.0, ("b",)))
    html = outline(FittedTree(nodes), examples={1: ["a <text>"], 7: ["of no node"]})
    assert html.index("<strong>#1</strong>") < html.index("<li>a &lt;text&gt;</li>")
    assert "of no node" not in html
    assert html.count("<li>") == html.count("</li>") == 3


def test_page_says_it_all_and_escapes_words(model):
    page = tree_page(model, "Trees & <topics>")
    assert "Trees &amp; &lt;topics&gt;" in page
    outline = page[page.index('class="outline"') :].split("</section>")[0]
    assert "<b>bold" not in outline
    assert "&lt;b&gt;bold" in outline
    for node in model.tree_:
        assert f"<strong>#{node.id}</strong>" in outline


@needs_browser
def test_page_opens_without_complaints(model, tmp_path):
    write_tree_page(model, tmp_path / "tree.html")
    dom, said = opened(tmp_path / "tree.html", tmp_path)
    assert not said
    assert "common" in dom
