"""The page on a topic tree: a map of its branches, and an outline to fold and unfold."""

from __future__ import annotations

from html import escape
from pathlib import Path

from everlearn.estimator.tree_view import FittedTree, TreeNode
from everlearn.report import charts
from everlearn.report.page import page, paragraph, save_page, section
from everlearn.trees.estimator import TopicTree

_HEIGHT = 620
_INNER_WORDS, _LEAF_WORDS = 2, 4
"""Words of a label: one line above the children of a node, or a line for each word in a leaf."""
_SMALLEST_TEXT = 10
"""Labels that would need smaller letters are hidden. They show on hover, and after a click."""
_OPEN_LEVELS = 1
"""Levels of the outline that are unfolded at first."""


def write_tree_page(model: TopicTree, path: Path, title: str = "A tree of topics") -> None:
    """Write the page to one HTML file that needs no network."""
    save_page(tree_page(model, title), path)


def tree_page(model: TopicTree, title: str = "A tree of topics") -> str:
    """The tree of a fitted model as one HTML page that needs no other file."""
    tree = model.tree_
    label = f"A treemap of {len(tree)} topics; the outline below has the same content."
    sections = (
        section(
            "map",
            "Documents by topic",
            paragraph(
                "The area of a topic is the number of documents whose path passes it. Click to "
                "go into a branch, and on the bar above to leave it."
            ),
            charts.chart("chart-tree", treemap(tree), label),
        ),
        section(
            "outline",
            "Outline",
            paragraph(
                "Each topic with its permanent id, its expected number of documents and its top "
                "words. The root has the words that all documents share."
            ),
            outline(tree),
        ),
    )
    return page(
        title,
        "Every document follows one path from the root to the last level.",
        _key_numbers(model),
        sections,
        scripts=charts.scripts(),
    )


def treemap(tree: FittedTree, noun: str = "document") -> charts.Figure:
    """A treemap: the area of a node is the number of its documents, which `noun` may rename."""
    nodes = list(tree)
    data = {
        "type": "treemap",
        "ids": [str(node.id) for node in nodes],
        "parents": ["" if node.parent is None else str(node.parent) for node in nodes],
        "labels": [_label(tree, node) for node in nodes],
        "values": [_area(tree, node) for node in nodes],
        "branchvalues": "total",
        "maxdepth": 3,
        "text": [f"{_size(node, noun)}<br>{escape(' '.join(node.words))}" for node in nodes],
        "hoverinfo": "label+text",
        "textinfo": "label",
        "marker": {
            "colors": [_shade(node.level) for node in nodes],
            "line": {"width": 1, "color": "--surface"},
        },
        "textfont": {"color": "#ffffff"},
        "tiling": {"pad": 2},
        "pathbar": {"visible": True},
        "root": {"color": "rgba(0,0,0,0)"},
    }
    layout = {
        **charts.base_layout(_HEIGHT),
        "margin": {"l": 4, "r": 4, "t": 28, "b": 4},
        "uniformtext": {"minsize": _SMALLEST_TEXT, "mode": "hide"},
    }
    return {"data": [data], "layout": layout}


def outline(tree: FittedTree, noun: str = "document") -> str:
    """The tree as a list to fold and unfold."""
    return f'<ul class="outline">{_branch(tree, tree.root, noun)}</ul>'


def _key_numbers(model: TopicTree) -> list[tuple[str, str]]:
    tree = model.tree_
    return [
        ("topics", f"{len(tree)}"),
        ("paths", f"{sum(node.level == model.depth - 1 for node in tree)}"),
        ("documents seen", f"{model.n_samples_seen_:,}"),
        ("words known", f"{len(model.vocabulary_):,}"),
        ("prior of levels", " / ".join(f"{a:.2g}" for a in model.level_prior_)),
    ]


def _size(node: TreeNode, noun: str) -> str:
    """The mass of a node, such as "1 document" and "12.5 documents"."""
    mass = f"{node.mass:,.1f}".removesuffix(".0")
    return f"{mass} {escape(noun)}{'' if mass == '1' else 's'}"


def _area(tree: FittedTree, node: TreeNode) -> float:
    """Documents of a node, and never fewer than its children have together."""
    return max(node.mass, sum(_area(tree, child) for child in tree.children(node.id)))


def _label(tree: FittedTree, node: TreeNode) -> str:
    if tree.children(node.id):
        return escape(" ".join(node.words[:_INNER_WORDS])) or f"#{node.id}"
    return "<br>".join(map(escape, node.words[:_LEAF_WORDS])) or f"#{node.id}"


def _shade(level: int) -> str:
    """A colour on which white text is readable, lighter at deeper levels."""
    return ("#1f3a5f", "#2c5d8a", "#3b7a9e", "#4b7f86")[min(level, 3)]


def _branch(tree: FittedTree, node: TreeNode, noun: str) -> str:
    """A node and all nodes below it, as an item of a list."""
    words = escape(" ".join(node.words))
    text = f"<strong>#{node.id}</strong> <small>{_size(node, noun)}</small> {words}"
    children = tree.children(node.id)
    if not children:
        return f"<li>{text}</li>"
    inner = "".join(_branch(tree, child, noun) for child in children)
    state = " open" if node.level < _OPEN_LEVELS else ""
    return f"<li><details{state}><summary>{text}</summary><ul>{inner}</ul></details></li>"
