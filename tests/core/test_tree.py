"""Trees: slots, paths, masses and edits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.tree import Tree
from oracles.trees import random_tree

trees = st.builds(random_tree, st.integers(0, 10_000), st.integers(1, 12), st.integers(2, 4))


def parent_ids(tree):
    return {int(i): int(tree.ids[p]) for i, p in zip(tree.ids[1:], tree.parents[1:], strict=True)}


class TestShape:
    def test_a_root_alone_is_a_tree(self):
        tree = Tree.root(3)
        assert len(tree) == 1
        assert tree.n_unseen.tolist() == [2]
        assert tree.paths.tolist() == [[0, -1, -1]]

    @given(trees)
    def test_paths_lead_from_the_root_to_the_node(self, tree):
        for i, path in enumerate(tree.paths):
            nodes = path[path >= 0]
            assert nodes[0] == 0
            assert nodes[-1] == i
            assert_array_equal(tree.parents[nodes[1:]], nodes[:-1])

    @given(trees)
    def test_mass_through_a_node_is_that_of_the_slots_below_it(self, tree):
        slots = np.random.default_rng(0).random((3, len(tree)))
        through = tree.through(slots)
        for i in range(len(tree)):
            assert_allclose(through[:, i], slots[:, tree.descends(i)].sum(axis=1))

    @given(trees)
    def test_ids_are_found_and_strangers_are_not(self, tree):
        assert_array_equal(tree.at(tree.ids), np.arange(len(tree)))
        assert_array_equal(tree.at([-5, tree.ids.max() + 1]), [-1, -1])

    def test_children_come_in_the_order_of_their_sticks(self):
        tree = Tree.root(2).grown(0, [7]).grown(0, [3]).grown(0, [5])
        assert tree.ids[tree.children(0)].tolist() == [7, 3, 5]
        assert tree.n_children.tolist() == [3, 0, 0, 0]


class TestEdits:
    def test_a_chain_grows_below_a_node(self):
        tree = Tree.root(4).grown(0, [1]).grown(1, [2, 3])
        assert parent_ids(tree) == {1: 0, 2: 1, 3: 2}

    def test_nothing_grows_below_the_last_level(self):
        with pytest.raises(ValueError, match="depth 2"):
            Tree.root(2).grown(0, [1, 2])

    @given(trees, st.integers(0, 100))
    def test_removing_a_node_removes_what_is_below_it(self, tree, pick):
        if len(tree) == 1:
            return
        gone = 1 + pick % (len(tree) - 1)
        rest = tree.without([gone])
        assert set(rest.ids) == set(tree.ids[~tree.descends(gone)])
        assert parent_ids(rest).items() <= parent_ids(tree).items()

    def test_the_root_stays(self):
        with pytest.raises(ValueError, match="root"):
            Tree.root(2).without([0])

    @given(trees, st.integers(0, 100))
    def test_sorting_keeps_the_tree_and_orders_siblings(self, tree, seed):
        mass = np.random.default_rng(seed).integers(0, 3, len(tree)).astype(float)
        new = tree.sorted_by(mass)
        assert parent_ids(new) == parent_ids(tree)
        moved = mass[tree.at(new.ids)]
        assert all((np.diff(moved[new.children(i)]) <= 0).all() for i in range(len(new)))
        assert (new.parents[1:] < np.arange(1, len(new))).all()

    def test_a_subtree_is_hung_elsewhere(self):
        tree = Tree.root(3).grown(0, [1, 2]).grown(0, [3, 4])
        new = tree.rehung(int(tree.at(2)), int(tree.at(3)))
        assert parent_ids(new) == {1: 0, 2: 3, 3: 0, 4: 3}
        assert (new.parents[1:] < np.arange(1, len(new))).all()
        with pytest.raises(ValueError, match="level"):
            tree.rehung(int(tree.at(2)), 0)
