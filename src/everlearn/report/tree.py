"""The page on a topic tree: an outline to fold and unfold, with a bar for each topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from everlearn.estimator.tree_view import FittedTree, TreeNode
from everlearn.report.charts import share_bar
from everlearn.report.page import page, paragraph, save_page, section
from everlearn.report.parts import example_list
from everlearn.trees.estimator import TopicTree

_OPEN_LEVELS: Final = 1
"""Levels of the outline that are unfolded at first."""
Examples = Mapping[int | str, Sequence[str]]
"""Typical records by the id of a node."""
About = Callable[[Sequence[str]], str]


def write_tree_page(model: TopicTree, path: Path, title: str = "A tree of topics") -> None:
    """Write the page to one HTML file that needs no network."""
    save_page(tree_page(model, title), path)


def tree_page(model: TopicTree, title: str = "A tree of topics") -> str:
    """The tree of a fitted model as one HTML page that needs no other file."""
    tree = model.tree_
    how = (
        "Each topic has its permanent id, its top words and the share of documents whose path "
        "passes it. Click on a topic to see those below it. The root has the words that all "
        "documents share."
    )
    return page(
        title,
        "Every document follows one path from the root to the last level.",
        _key_numbers(model),
        [section("outline", "Topics", paragraph(how), outline(tree))],
    )


def outline(
    tree: FittedTree,
    noun: str = "document",
    examples: Examples | None = None,
    about: About = " ".join,
) -> str:
    """The tree as a list to fold and unfold. Bars are shares of all documents, or of all `noun`s.

    `examples` are shown below their nodes; `about` makes a line of the words of a node.
    """
    drawn = _Outline(tree, noun, examples or {}, about)
    return f'<ul class="outline">{drawn.branch(tree.root)}</ul>'


def _key_numbers(model: TopicTree) -> list[tuple[str, str]]:
    tree = model.tree_
    return [
        ("topics", f"{len(tree)}"),
        ("paths", f"{sum(node.level == model.depth - 1 for node in tree)}"),
        ("documents seen", f"{model.n_samples_seen_:,}"),
        ("words known", f"{len(model.vocabulary_):,}"),
        ("prior of levels", " / ".join(f"{a:.2g}" for a in model.level_prior_)),
    ]


class _Outline(NamedTuple):
    """What all branches of an outline need."""

    tree: FittedTree
    noun: str
    examples: Examples
    about: About

    def branch(self, node: TreeNode) -> str:
        """A node and all nodes below it, as an item of a list."""
        whole = self.tree.root.mass
        share = node.mass / whole if whole > 0 else 0.0
        text = (
            f'<span class="node" title="{escape(_size(node, self.noun))}">'
            f"<strong>#{node.id}</strong>{share_bar(share, 1.0)}"
            f"<span>{escape(self.about(node.words))}</span></span>"
        )
        children = self.tree.children(node.id)
        shown = example_list(self.examples[node.id]) if self.examples.get(node.id) else ""
        if not children and not shown:
            return f"<li>{text}</li>"
        below = f"<ul>{''.join(map(self.branch, children))}</ul>" if children else ""
        state = " open" if node.level < _OPEN_LEVELS else ""
        return f"<li><details{state}><summary>{text}</summary>{shown}{below}</details></li>"


def _size(node: TreeNode, noun: str) -> str:
    """The mass of a node, such as "1 document" and "12.5 documents"."""
    mass = f"{node.mass:,.1f}".removesuffix(".0")
    return f"{mass} {noun}{'' if mass == '1' else 's'}"
