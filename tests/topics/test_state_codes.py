"""Anchors: which class a topic stands for, and what its weights are before any data."""

import numpy as np
import pytest

from everlearn.topics.state import anchor_means, label_order, n_anchors


@pytest.mark.parametrize(("n_tasks", "expected"), [(1, 2), (2, 2), (3, 3), (20, 20)])
def test_a_single_task_has_two_classes(n_tasks, expected):
    assert n_anchors(n_tasks) == expected


def test_a_topic_meets_every_margin_of_its_own_class():
    codes = np.array([2, 0, 1, 2, 0])
    means = anchor_means(codes, 3, 16.0)
    assert means.shape == (3, 5)
    for k, code in enumerate(codes):
        labels = np.where(np.arange(3) == code, 1.0, -1.0)
        np.testing.assert_array_equal(labels * means[:, k], 16.0)


def test_a_single_task_has_topics_for_yes_and_for_no():
    np.testing.assert_array_equal(anchor_means(np.array([0, 1, 0, 1]), 1, 3.0), [[3, -3, 3, -3]])


def test_a_topic_without_a_code_starts_at_zero():
    means = anchor_means(np.array([-1, 1, -1]), 2, 5.0)
    np.testing.assert_array_equal(means, [[0, -5, 0], [0, 5, 0]])


def test_tasks_without_a_topic_are_negative_everywhere():
    np.testing.assert_array_equal(anchor_means(np.array([3, 1]), 4, 1.0)[[0, 2]], -1.0)


def test_tasks_come_in_the_order_of_their_first_label():
    signs = np.array([[-1, -1, 0, -1], [-1, 1, 0, 1], [1, 1, 0, -1], [1, -1, 0, -1]], np.int8)
    assert label_order(signs).tolist() == [1, 3, 0, 2]


def test_labels_that_never_come_keep_their_order():
    assert label_order(np.zeros((3, 4), np.int8)).tolist() == [0, 1, 2, 3]
    assert label_order(-np.ones((1, 3), np.int8)).tolist() == [0, 1, 2]
