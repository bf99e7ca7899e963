"""Rows with gaps, weights and names of tasks for `OnlinePPCA`."""

from typing import Any

import numpy as np
import pytest

from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.inputs import can_be_joined, checked_rows, checked_task
from support.ppca_data import rows_of, taught
from support.streams import file_of


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_rows_that_say_nothing_cannot_be_the_first(learn: str) -> None:
    model = OnlinePPCA(2)
    with pytest.raises(ValueError, match="'X' of OnlinePPCA cannot be used: expected some entries"):
        getattr(model, learn)(np.full((4, 3), np.nan))
    assert not hasattr(model, "_learned")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(9), "non-zero|9 zeros"),
        (-np.ones(9), "egative"),
        (np.full(9, np.nan), "NaN"),
        (np.ones(8), "sample_weight"),
        (np.full(9, 1e260), "at most"),
    ],
)
def test_bad_weights_are_named_and_leave_no_trace(weights: Any, words: str) -> None:
    model = taught()
    before = file_of(model)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(rows_of(9), sample_weight=weights)
    assert file_of(model) == before


@pytest.mark.parametrize("task", [1.5, True, [], 2**60, b"x"])
def test_bad_names_of_tasks_are_refused(task: Any) -> None:
    model = taught()
    before = file_of(model)
    with pytest.raises(ValueError, match="'task' of OnlinePPCA"):
        model.partial_fit(rows_of(9), task=task)
    assert file_of(model) == before


@pytest.mark.parametrize(
    ("task", "plain"),
    [(None, None), ("a", "a"), (np.str_("b"), "b"), (3, 3), (np.int8(-4), -4), (2**53, 2**53)],
)
def test_names_of_tasks_become_plain_values(task: Any, plain: Any) -> None:
    found = checked_task("Model", task)
    assert found == plain
    assert type(found) is type(plain)


def test_rows_of_weight_zero_are_left_out() -> None:
    X = rows_of(5, gaps=0.3)
    w = np.array([1.0, 0.0, 2.0, 0.0, 0.5])
    rows = checked_rows(OnlinePPCA(2), X, reset=True, sample_weight=w)
    np.testing.assert_array_equal(rows.X, X[w > 0])
    np.testing.assert_array_equal(rows.weights, w[w > 0])
    assert checked_rows(OnlinePPCA(2), X, reset=True).weights is None


def test_infinity_and_too_many_components_are_refused() -> None:
    X = rows_of(5)
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match=r"'X' of OnlinePPCA cannot be used: .*infinity"):
        checked_rows(OnlinePPCA(2), X, reset=True)
    with pytest.raises(ValueError, match=r"'n_components'.*at most n_features=5\. Got 6"):
        checked_rows(OnlinePPCA(6), rows_of(5), reset=True)


def test_plain_arrays_of_one_width_can_be_joined() -> None:
    X = rows_of(4)
    assert can_be_joined([X, X[:1]])
    assert can_be_joined([np.asfortranarray(X)])
    for other in (X[:0], X[:, 1:], X.astype(np.float32), X.tolist(), X[0], np.ma.array(X)):
        assert not can_be_joined([X, other])
    assert not can_be_joined([])
