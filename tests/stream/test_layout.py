"""How records are read: options of users, and what a file keeps of them."""

from typing import Any

import pytest

from everlearn.errors import CheckpointError, UsageError
from everlearn.io.dialects import Writing
from everlearn.stream.kinds import KINDS
from everlearn.stream.layout import CHANGEABLE, Layout, checked_options

FULL = Layout(
    "classifier", 20, "body", "tag", form="rows", columns=("a", "b"), texts=("b",),
    classes=("x", "y"), multilabel=True, image_side=32, encoding="latin-1", decimal=",",
)  # fmt: skip


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"color": "red"}, "no option 'color'; choose from kind, batch"),
            ({"form": "rows"}, "no option 'form'"),
            ({"batch": 0}, "'batch' must be an integer of at least 1, got 0"),
            ({"batch": 2.0}, "'batch' must be an integer of at least 1, got 2.0"),
            ({"image_side": True}, "'image-side' must be an integer of at least 1, got True"),
            ({"columns": "a,b"}, "'columns' must be a list of different names, got 'a,b'"),
            ({"columns": ["a", "a"]}, "'columns' must be a list of different names"),
            ({"columns": ["a", ""]}, "'columns' must be a list of different names"),
            ({"classes": []}, "'classes' must be a list of different names"),
            ({"classes": ["a", 1]}, "'classes' must be a list of different names"),
            ({"label": 3}, "'label' must be a text, got 3"),
            ({"kind": ["mixture"]}, "'kind' must be a text"),
            ({"kind": "mixtures"}, "mixture"),
            ({"encoding": "latin-x"}, "'encoding' must be an encoding of texts"),
            ({"decimal": ";"}, "'decimal' must be"),
        ],
    )
    def test_impossible_ones_are_refused_by_name(self, options: Any, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            checked_options({"kind": "mixture", **options})

    def test_lists_become_tuples_and_encodings_get_their_name(self) -> None:
        given = {"columns": ["a", "b"], "classes": ("x",), "encoding": "UTF8", "batch": 7}
        assert checked_options(given) == {
            "columns": ("a", "b"), "classes": ("x",), "encoding": "utf-8", "batch": 7
        }  # fmt: skip

    def test_what_may_change_later_is_an_option(self) -> None:
        for name, value in {"text": "body", "encoding": "latin-1", "decimal": ","}.items():
            assert checked_options({name: value}) == {name: value}
            assert name in CHANGEABLE


class TestFiles:
    @pytest.mark.parametrize("layout", [FULL, *(Layout(kind) for kind in KINDS)], ids=str)
    def test_a_layout_comes_back(self, layout: Layout) -> None:
        assert Layout.from_json(layout.to_json()) == layout

    @pytest.mark.parametrize(
        "change",
        [
            {"kind": "mixtures"}, {"kind": None}, {"kind": ["mixture"]}, {"form": "points"},
            {"form": 3}, {"text": None}, {"label": 1}, {"batch": 0}, {"batch": True},
            {"batch": 2.5}, {"image_side": -1}, {"multilabel": 1}, {"encoding": "latin-x"},
            {"encoding": None}, {"decimal": ";"}, {"columns": "ab"}, {"columns": ["a", 1]},
            {"texts": {}}, {"classes": 3}, {"more": 1},
        ],
        ids=str,
    )  # fmt: skip
    def test_what_is_no_layout_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(CheckpointError, match="'layout'"):
            Layout.from_json({**FULL.to_json(), **change})

    @pytest.mark.parametrize("found", [None, [], {}, "rows"])
    def test_nor_is_anything_else_one(self, found: Any) -> None:
        with pytest.raises(CheckpointError, match="'layout' must say how records are read"):
            Layout.from_json(found)


def test_it_knows_its_kind() -> None:
    assert FULL.kind_of_model is KINDS["classifier"]
    assert {kind for kind in KINDS if Layout(kind).supervised} == {"classifier", "regressor"}
    assert FULL.writing == Writing("latin-1", ",")
