"""Forgeries: each breaks one rule of the schema, so that a reader who skips it is found."""

import copy
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.store.schema import Array, Many, OneOf, Optional, Reading, Record, Scalar, Table
from everlearn.testing.forging import dropping, forgeries, setting


class Thing(NamedTuple):
    count: int
    rate: float
    kind: str
    name: str
    sure: bool
    means: np.ndarray
    ids: np.ndarray
    words: np.ndarray
    others: tuple[Any, ...]


SMALL = Record(dict, {"x": Scalar(float, -1.0, 1.0)})
SCHEMA = Record(
    Thing,
    {
        "count": Scalar(int, 0, 9),
        "rate": Scalar(float, 0.0, 1.0),
        "kind": Scalar(str, choices=("a", "b")),
        "name": Scalar(str),
        "sure": Scalar(bool),
        "means": Array("K", "D", nan=True),
        "ids": Array("K", dtypes=("int64",), low=0, high=99),
        "words": Array("D", dtypes=("str",)),
        "others": Many(Optional(SMALL)),
    },
)
THING = Thing(
    3, 0.5, "a", "x", True, np.array([[1.0, np.nan]]), np.array([7]), np.array(["u", "v"]), (None,)
)  # fmt: skip


def saved() -> tuple[dict[str, Any], dict[str, Any]]:
    arrays: dict[str, Any] = {}
    return {"learned": SCHEMA.pack(THING, "learned", arrays)}, arrays


def read(header: dict[str, Any], arrays: dict[str, Any]) -> Thing:
    file = Reading(arrays)
    thing: Thing = SCHEMA.unpack(header["learned"], "learned", file)
    if unknown := set(arrays) - file.used:
        raise CheckpointError(f"{unknown} belongs to nothing")
    return thing


def test_the_file_itself_is_sound() -> None:
    assert read(*saved()).count == 3


def accepted(reader: Any) -> list[str]:
    """Places of the forgeries that a reader takes."""
    found = []
    for place, forge in forgeries(SCHEMA, saved()[0]["learned"]):
        header, arrays = saved()
        forge(header, arrays)
        with suppress(CheckpointError):
            reader(header, arrays)
            found.append(place)
    return found


def test_a_reader_that_keeps_the_rules_accepts_none() -> None:
    assert accepted(read) == []


def test_every_field_is_attacked() -> None:
    places = {place for place, _ in forgeries(SCHEMA, saved()[0]["learned"])}
    assert {f"learned/{name}" for name in SCHEMA.fields} <= places
    assert {"learned", "no_such_member"} <= places  # an entry and a member of nobody


@pytest.mark.parametrize(
    ("name", "careless"),
    [
        ("count", Scalar(int, 0, 10)),
        ("count", Scalar(int, -1, 9)),
        ("rate", Scalar(float, 0.0, 1.1)),
        ("kind", Scalar(str)),
        ("means", Array("K", "D", high=np.inf, nan=True)),
        ("ids", Array("K", dtypes=("int64", "float16"), low=0, high=99)),
        ("words", Array("D", dtypes=("str", "float16"))),
    ],
)
def test_a_reader_that_skips_one_rule_is_found_there(name: str, careless: Any) -> None:
    reader = Record(Thing, {**SCHEMA.fields, name: careless})

    def unpack(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        reader.unpack(header["learned"], "learned", Reading(arrays))

    unpack(*saved())
    assert set(accepted(unpack)) == {f"learned/{name}", "no_such_member"}


def test_all_parts_of_a_schema_are_walked() -> None:
    whole = Record(dict, {"all": Table(Scalar(str), OneOf({"small": (dict, SMALL)}))})
    packed = {"all": {"keys": ["k"], "values": [{"kind": "small", "x": 0.5}]}}
    places = {place for place, _ in forgeries(whole, packed)}
    assert {f"learned/all/{leaf}" for leaf in ("keys/0", "values/0/kind", "values/0/x")} <= places


def test_places_lead_through_objects_and_lists() -> None:
    header = {"a": [{"b": 1}, {"b": 2}]}
    before = copy.deepcopy(header)
    setting("a/1/b", 7)(header, {})
    assert header == {"a": [{"b": 1}, {"b": 7}]}
    setting("a/1/b", 2)(header, {})
    assert header == before
    dropping("a/0/b")(header, {})
    assert header == {"a": [{}, {"b": 2}]}
    dropping("a/0")(header, {})
    assert header == {"a": [{"b": 2}]}
