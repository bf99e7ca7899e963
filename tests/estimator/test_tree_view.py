"""The tree that users see."""

import pytest

from everlearn.estimator.tree_view import FittedTree, TreeNode

TREE = FittedTree(
    (
        TreeNode(0, None, 0, 10.0, ("the", "of")),
        TreeNode(4, 0, 1, 7.0, ("sea", "ship")),
        TreeNode(2, 0, 1, 3.0),
        TreeNode(9, 4, 2, 6.5, ("whale",)),
    )
)


def test_nodes_are_found_by_id():
    assert TREE[9].words == ("whale",)
    assert [node.id for node in TREE.children(0)] == [4, 2]
    assert [node.id for node in TREE.path(9)] == [0, 4, 9]
    assert TREE.root.id == 0
    assert len(TREE) == len(list(TREE)) == 4


def test_an_unknown_node_is_named():
    with pytest.raises(KeyError, match="no node 5"):
        TREE[5]


def test_printing_shows_every_node_below_its_parent():
    assert str(TREE).splitlines() == [
        "0  (10.0)  the of",
        "├── 4  (7.0)  sea ship",
        "│   └── 9  (6.5)  whale",
        "└── 2  (3.0)",
    ]


def test_long_labels_stay_on_one_line():
    many = FittedTree((TreeNode(0, None, 0, 1.0, ("word",) * 200),))
    assert len(str(many).splitlines()) == 1


def test_a_graph_has_an_edge_from_each_parent_to_each_child():
    pytest.importorskip("networkx")
    graph = TREE.to_networkx()
    assert set(graph.edges) == {(0, 4), (0, 2), (4, 9)}
    assert graph.nodes[4] == {"level": 1, "mass": 7.0, "words": ("sea", "ship")}
