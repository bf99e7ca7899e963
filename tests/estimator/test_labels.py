"""Labels become tasks and come back; whatever is no label is refused by name."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from everlearn.errors import CheckpointError
from everlearn.estimator.labels import LabelSpace, checked_signs, label_space, next_label_space
from everlearn.estimator.schemas import LABELS
from everlearn.store.schema import Reading


class Judge:
    """Something with a name for errors."""


JUDGE = Judge()
ONE_OF_MANY: dict[str, Any] = {
    "text": ["b", "a", "c", "a"],
    "objects": np.array(["b", "a", "c", "a"], dtype=object),
    "integers": [3, -1, 7, -1],
    "whole floats": [3.0, -1.0, 7.0, -1.0],
    "integer objects": np.array([3, -1, 7, -1], dtype=object),
    "series": pd.Series(["b", "a", "c", "a"], dtype="category"),
    "nullable": pd.Series([3, -1, 7, -1], dtype="Int64"),
}


@pytest.mark.parametrize("name", ONE_OF_MANY)
def test_several_classes_are_tasks_of_one_against_the_rest(name: str) -> None:
    y = ONE_OF_MANY[name]
    space = label_space(JUDGE, y)
    assert (space.kind, space.n_tasks) == ("multiclass", 3)
    signs = space.signs(y)
    assert signs.dtype == np.int8
    np.testing.assert_array_equal(signs, [[-1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, -1]])
    np.testing.assert_array_equal(space.decide(signs.astype(float)), np.asarray(y))


@pytest.mark.parametrize("y", [["no", "yes"], [0, 1], [False, True], [-1.0, 1.0]])
def test_two_classes_are_one_task(y: Any) -> None:
    space = label_space(JUDGE, y)
    assert (space.kind, space.n_tasks) == ("binary", 1)
    np.testing.assert_array_equal(space.signs(y), [[-1], [1]])
    np.testing.assert_array_equal(
        space.decide(np.array([[-0.1], [0.1], [0.0]])), [y[0], y[1], y[0]]
    )
    assert space.shaped(np.zeros((4, 1))).shape == (4,)


@pytest.mark.parametrize(
    "y",
    [
        [[0, 1, np.nan], [1, 0, 1]],
        np.ma.array([[0, 1, 7], [1, 0, 1]], mask=[[0, 0, 1], [0, 0, 0]]),
        pd.DataFrame({"a": [0, 1], "b": [True, False], "c": pd.array([None, 1], dtype="Int64")}),
        np.array([[False, True, None], [True, False, True]], dtype=object),
        sparse.csr_array(np.array([[0, 1, np.nan], [1, 0, 1]])),
    ],
)
def test_matrix_is_a_task_a_column_with_missing_labels(y: Any) -> None:
    space = label_space(JUDGE, y)
    assert (space.kind, space.n_tasks) == ("multilabel", 3)
    assert space.classes.tolist() == list(getattr(y, "columns", [0, 1, 2]))
    np.testing.assert_array_equal(space.signs(y), [[-1, 1, 0], [1, -1, 1]])
    decided = space.decide(np.array([[-1.0, 2.0, 0.0]]))
    np.testing.assert_array_equal(decided, [[0, 1, 0]])
    assert decided.dtype == np.int64


def test_masked_class_is_missing() -> None:
    y = np.ma.array(["a", "zzz", "b", "c"], mask=[0, 1, 0, 0])
    space = label_space(JUDGE, y)
    np.testing.assert_array_equal(space.classes, ["a", "b", "c"])
    np.testing.assert_array_equal(space.signs(y)[1], 0)
    assert (space.signs(y)[[0, 2, 3]] != 0).all()


def test_column_is_a_list_with_a_warning() -> None:
    with pytest.warns(DataConversionWarning):
        space = label_space(JUDGE, [["a"], ["b"]])
    assert space.kind == "binary"


BAD_TARGETS: list[tuple[Any, str]] = [
    (None, "requires y to be passed"),
    ([0.5, 1.0], "continuous.*0.5"),
    ([1.0, np.nan], "contains NaN"),
    ([1.0, np.inf], "contains infinity"),
    (["a", "a"], "at least 2 classes. Got 1 class: \\['a'\\]"),
    ([], "at least 2 classes. Got 0 class"),
    ([[0, 2], [1, 0]], "indicator of 0, 1 and NaN.*2"),
    ([["a", "b"], ["c", "d"]], "indicator.*'a'"),
    ([[0, 1], [1]], "MultiLabelBinarizer"),
    ([{"a"}, {"b"}], "MultiLabelBinarizer"),
    (["a", float("nan"), "b"], "a missing label is a masked entry"),
    (np.array(["a", None, "b"], dtype=object), "a missing label is a masked entry"),
    (np.zeros((2, 2, 2)), "one or two dimensions"),
    (7, "expected a label for each row, got 7"),
    (np.array(["a", 1], dtype=object), "text only or numbers only"),
    (np.array([b"a", b"b"]), "Unknown label type"),
    (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "Unknown label type"),
    ([1j, 2], "Unknown label type"),
]


@pytest.mark.parametrize(("y", "words"), BAD_TARGETS)
def test_what_is_no_label_is_refused_by_name(y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        label_space(JUDGE, y)
    assert "Judge" in str(caught.value)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a", "d"], "among the classes \\['a', 'b', 'c'\\], got \\['d'\\]"),
        ([1, 2], "got \\[1, 2\\]"),
        ([[1, 0], [0, 1]], "shape \\(2, 2\\)"),
        (["a"], "each of 2 rows, got 1"),
        (None, "requires y"),
    ],
)
def test_labels_that_are_not_known(y: Any, words: str) -> None:
    space = label_space(JUDGE, ["a", "b", "c"])
    with pytest.raises(ValueError, match=words) as caught:
        checked_signs(JUDGE, space, y, 2)
    assert "Judge" in str(caught.value)


def test_matrix_of_another_width_is_refused() -> None:
    space = label_space(JUDGE, np.eye(3))
    for y in (np.eye(2), [0, 1]):
        with pytest.raises(ValueError, match=r"Judge.*with 3 columns"):
            checked_signs(JUDGE, space, y, 2)


def test_first_call_needs_classes_and_later_ones_keep_them() -> None:
    with pytest.raises(ValueError, match="'classes' of Judge must be passed on the first call"):
        next_label_space(JUDGE, None, ["a", "b"])
    space = next_label_space(JUDGE, None, ["b"], ["c", "a", "b", "a"])
    np.testing.assert_array_equal(space.classes, ["a", "b", "c"])
    assert next_label_space(JUDGE, space, ["b"]) is space
    assert next_label_space(JUDGE, space, ["b"], ["b", "c", "a"]) is space
    with pytest.raises(ValueError, match=r"same on every call.*Got \['a', 'b'\]"):
        next_label_space(JUDGE, space, ["b"], ["a", "b"])


def test_classes_of_a_matrix_are_names_of_columns() -> None:
    space = next_label_space(JUDGE, None, np.eye(2), ["z", "a"])
    np.testing.assert_array_equal(space.classes, ["z", "a"])
    assert next_label_space(JUDGE, None, np.eye(2)).kind == "multilabel"
    with pytest.raises(ValueError, match="same on every call"):
        next_label_space(JUDGE, space, np.eye(2), ["a", "z"])
    for classes in (["a"], ["a", "a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="'classes' of Judge must be 2 different names"):
            next_label_space(JUDGE, None, np.eye(2), classes)


@pytest.mark.parametrize("classes", [[["a", "b"]], [0.5, 1.5], np.array([b"a"]), ["a"]])
def test_classes_that_are_none(classes: Any) -> None:
    with pytest.raises(ValueError, match="'classes' of Judge"):
        next_label_space(JUDGE, None, ["a"], classes)


SPACES = [*ONE_OF_MANY.values(), ["no", "yes"], [False, True], [[0, 1], [1, 0]], ["", "ä"]]


def packed(space: LabelSpace) -> tuple[Any, dict[str, Any]]:
    """What a file holds of the labels."""
    arrays: dict[str, Any] = {}
    return LABELS.pack(space, "labels", arrays), arrays


def unpacked(header: Any, arrays: dict[str, Any]) -> LabelSpace:
    """The labels of a file."""
    space: LabelSpace = LABELS.unpack(header, "labels", Reading(arrays))
    return space


@pytest.mark.parametrize("y", SPACES)
def test_saved_labels_come_back_as_they_were(y: Any) -> None:
    space = label_space(JUDGE, y)
    header, arrays = packed(space)
    assert arrays["labels/classes"].dtype != object
    back = unpacked(header, arrays)
    assert back.kind == space.kind
    np.testing.assert_array_equal(back.classes, space.classes)
    assert back.classes.dtype == space.classes.dtype


def test_a_name_that_a_file_would_change_is_not_saved() -> None:
    space = label_space(JUDGE, np.array(["a", "a\x00"], dtype=object))
    with pytest.raises(ValueError, match="NUL"):
        packed(space)


@pytest.mark.parametrize(
    ("header", "classes"),
    [
        ({"kind": "odd"}, ["a", "b"]),
        ({"kind": "binary"}, ["a", "b", "c"]),
        ({"kind": "multiclass"}, ["a", "b"]),
        ({"kind": "binary"}, ["b", "a"]),
        ({"kind": "multilabel"}, ["a", "a"]),
        ({"kind": "binary"}, [0.5, 1.5]),
        ({"kind": "binary"}, [0.0, np.inf]),
        ({"kind": "binary", "objects": True}, [0, 1]),
        ({"kind": "binary", "objects": 1}, ["a", "b"]),
        ({"kind": "binary"}, [["a", "b"]]),
        ({"kind": 3}, ["a", "b"]),
    ],
)
def test_labels_that_no_model_has_are_refused(header: dict[str, Any], classes: Any) -> None:
    with pytest.raises(CheckpointError):
        unpacked({"objects": False, **header}, {"labels/classes": np.array(classes)})


def test_labels_without_classes_are_refused() -> None:
    with pytest.raises(CheckpointError, match="classes"):
        unpacked({"kind": "binary", "objects": False}, {})


def test_columns_of_a_frame_are_the_names_of_labels() -> None:
    frame = pd.DataFrame({"cats": [1, 0, 1], "dogs": [0, 1, 1]})
    space = label_space(Judge(), frame)
    assert space.classes.tolist() == ["cats", "dogs"]
    assert next_label_space(Judge(), space, frame) is space
    assert next_label_space(Judge(), space, frame.to_numpy()) is space
    with pytest.raises(ValueError, match=r"same on every call .*'cats', 'dogs'.*'dogs', 'cats'"):
        next_label_space(Judge(), space, frame[["dogs", "cats"]])
    assert label_space(Judge(), frame, ["a", "b"]).classes.tolist() == ["a", "b"]
    assert label_space(Judge(), pd.DataFrame(frame.to_numpy())).classes.tolist() == [0, 1]
