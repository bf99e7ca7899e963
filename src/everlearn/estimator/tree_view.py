"""The fitted tree as users see it: nodes to walk through, a text picture, a networkx graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text
from rich.tree import Tree as TextTree

_WIDTH = 100


class TreeEstimator(Protocol):
    """An estimator of a tree of limited size."""

    depth: int
    max_nodes: int


def check_room_for_a_path(estimator: TreeEstimator) -> None:
    """Refuse a limit on nodes that is too small for a single path."""
    if estimator.max_nodes < estimator.depth:
        raise ValueError(
            f"the 'max_nodes' parameter of {type(estimator).__name__} must be at least depth, "
            f"which is {estimator.depth}. Got {estimator.max_nodes} instead."
        )


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One node of a fitted tree.

    Attributes
    ----------
    id : permanent number, never given to another node
    parent : id of its parent, None for the root
    level : 0 for the root
    mass : expected number of documents or rows whose path passes through it
    words : what describes it best, if it has words, best first
    """

    id: int
    parent: int | None
    level: int
    mass: float
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        described = f"{self.id}  ({self.mass:.1f})"
        return f"{described}  {' '.join(self.words)}" if self.words else described


@dataclass(frozen=True)
class FittedTree:
    """The nodes of a fitted tree, parents before their children, larger siblings first.

    Printing it shows it. It is a copy: nothing done with it changes the model.

    Examples
    --------
    >>> print(FittedTree((TreeNode(0, None, 0, 9.0), TreeNode(3, 0, 1, 8.5, ("sea", "ship")))))
    0  (9.0)
    └── 3  (8.5)  sea ship
    """

    nodes: tuple[TreeNode, ...]

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[TreeNode]:
        return iter(self.nodes)

    def __getitem__(self, node_id: int) -> TreeNode:
        """The node with this id."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(f"the tree has no node {node_id}; its nodes are {[n.id for n in self]}")

    @property
    def root(self) -> TreeNode:
        """The node that every path passes."""
        return self.nodes[0]

    def children(self, node_id: int) -> tuple[TreeNode, ...]:
        """Children of the node with this id, the largest first."""
        return tuple(node for node in self.nodes if node.parent == node_id)

    def path(self, node_id: int) -> tuple[TreeNode, ...]:
        """Nodes from the root to the node with this id."""
        node = self[node_id]
        if node.parent is None:
            return (node,)
        return (*self.path(node.parent), node)

    def to_networkx(self) -> Any:
        """A `networkx.DiGraph` with an edge from each parent to each child.

        Nodes are ids and carry `level`, `mass` and `words`.
        """
        try:
            import networkx  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                "to_networkx needs networkx; pip install 'everlearn[graphs]' brings it"
            ) from error
        graph = networkx.DiGraph()
        for node in self.nodes:
            graph.add_node(node.id, level=node.level, mass=node.mass, words=node.words)
            if node.parent is not None:
                graph.add_edge(node.parent, node.id)
        return graph

    def __rich__(self) -> TextTree:
        shown: dict[int, TextTree] = {}
        for node in self.nodes:
            label = Text(str(node), overflow="ellipsis", no_wrap=True)
            if node.parent is None:
                shown[node.id] = TextTree(label)
            else:
                shown[node.id] = shown[node.parent].add(label)
        return shown[self.root.id]

    def __str__(self) -> str:
        console = Console(width=_WIDTH, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get().rstrip("\n")
