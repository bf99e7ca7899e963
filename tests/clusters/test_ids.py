"""Ids follow the rows."""

import numpy as np

from everlearn.clusters.ids import first_ids, match_ids


def test_the_largest_group_is_first() -> None:
    assert first_ids(np.array([3, 9, 5])).tolist() == [2, 0, 1]


def test_groups_in_another_order_keep_their_ids() -> None:
    old, new = np.repeat([0, 1, 2], 4), np.repeat([2, 0, 1], 4)
    ids, moves = match_ids(old, np.array([7, 3, 5]), new, 3, 9)
    assert ids.tolist() == [3, 5, 7]
    assert moves == []


def test_a_split_gives_a_fresh_id_to_the_smaller_part() -> None:
    old, new = np.zeros(10, int), np.repeat([0, 1], [3, 7])
    ids, moves = match_ids(old, np.array([4]), new, 2, 6)
    assert ids.tolist() == [6, 4]
    assert [(m.kind, m.removed, m.added, m.gain) for m in moves] == [("split", (), (6,), 3.0)]


def test_a_join_keeps_the_id_of_the_larger_part() -> None:
    old, new = np.repeat([0, 1], [3, 7]), np.zeros(10, int)
    ids, moves = match_ids(old, np.array([4, 5]), new, 1, 6)
    assert ids.tolist() == [5]
    assert [(m.kind, m.removed, m.added) for m in moves] == [("merge", (4,), (5,))]


def test_two_parts_of_one_cluster_do_not_both_keep_its_id() -> None:
    old = np.repeat([0, 1], [10, 4])
    new = np.repeat([0, 1, 1], [6, 4, 4])  # the second group has 4 rows of each
    ids, _ = match_ids(old, np.array([0, 1]), new, 2, 2)
    assert ids.tolist() == [0, 1]
    assert len(set(ids.tolist())) == 2
