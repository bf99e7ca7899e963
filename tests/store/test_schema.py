"""Schemas: what is saved comes back, and what cannot have been saved is refused by its place."""

import math
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.errors import CheckpointError
from everlearn.store.schema import (
    HUGE,
    Array,
    Converted,
    Many,
    OneOf,
    Optional,
    Reading,
    Record,
    Scalar,
    Table,
    check_keys,
    expect,
    shown,
)


class Point(NamedTuple):
    name: str
    at: np.ndarray


class Disc(NamedTuple):
    radius: float


POINT = Record(Point, {"name": Scalar(str), "at": Array("D")})
DISC = Record(Disc, {"radius": Scalar(float, 0.0)})
SHAPE = OneOf({"point": (Point, POINT), "disc": (Disc, DISC)})


def saved(schema: Any, value: Any) -> tuple[Any, dict[str, Any]]:
    arrays: dict[str, Any] = {}
    return schema.pack(value, "it", arrays), arrays


def loaded(schema: Any, packed: Any, arrays: dict[str, Any], **sizes: int) -> Any:
    file = Reading(arrays, sizes=sizes)
    value = schema.unpack(packed, "it", file)
    assert file.used == set(arrays)  # or the file holds what belongs to nothing
    return value


def returned(schema: Any, value: Any) -> Any:
    return loaded(schema, *saved(schema, value))


class TestScalar:
    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            (Scalar(int, 0, 9), 9),
            (Scalar(float), -HUGE),
            (Scalar(bool), False),
            (Scalar(str), "naïve"),
            (Scalar(str, choices=("a", "b")), "b"),
        ],
    )
    def test_it_comes_back(self, schema: Scalar, value: Any) -> None:
        assert returned(schema, value) == value
        assert type(returned(schema, value)) is schema.kind

    def test_numbers_of_numpy_become_plain_ones(self) -> None:
        packed, _ = saved(Scalar(float), np.float64(0.5))
        assert type(packed) is float

    def test_json_may_write_a_whole_float_without_its_point(self) -> None:
        value = loaded(Scalar(float), 3, {})
        assert type(value) is float

    @pytest.mark.parametrize(
        ("schema", "found", "words"),
        [
            (Scalar(int, 0, 9), 10, "a whole number from 0 to 9, got 10"),
            (Scalar(int, 0, 9), -1, "from 0 to 9"),
            (Scalar(int, 0, 9), True, "a whole number"),
            (Scalar(int, 0, 9), 3.0, "a whole number"),
            (Scalar(float), math.inf, "a number from"),
            (Scalar(float), math.nan, "a number from"),
            (Scalar(float), "3", "a number from"),
            (Scalar(bool), 1, "true or false"),
            (Scalar(str), None, "a text"),
            (Scalar(str, choices=("a", "b")), "c", "one of a, b, got 'c'"),
        ],
    )
    def test_another_is_refused(self, schema: Scalar, found: Any, words: str) -> None:
        with pytest.raises(CheckpointError, match=f"'it' must be .*{words}"):
            loaded(schema, found, {})


class TestArray:
    def test_the_file_has_a_copy(self) -> None:
        own = np.zeros(3)
        _, arrays = saved(Array("N"), own)
        own[:] = 1.0  # learners go on in place
        assert loaded(Array("N"), None, arrays).tolist() == [0.0] * 3
        assert arrays["it"].flags.c_contiguous

    @pytest.mark.parametrize("transposed", [False, True])
    def test_the_order_in_memory_comes_back(self, transposed: bool) -> None:
        value = np.arange(6.0).reshape(2, 3)
        schema = Array(2, 3, transposed=transposed)
        back = loaded(schema, None, saved(schema, value)[1])
        np.testing.assert_array_equal(back, value)
        assert back.flags.f_contiguous == transposed

    @pytest.mark.parametrize(
        ("schema", "array", "words"),
        [
            (Array("N", 2), np.zeros((3, 3)), r"shape \(N, 2\), got float64 of shape \(3, 3\)"),
            (Array("N"), np.zeros((3, 1)), "of shape"),
            (Array("N"), np.zeros(3, np.float32), "float64 of shape"),
            (Array("N", dtypes=("str",)), np.zeros(3), "str of shape"),
            (Array("N", low=0.0), np.array([0.0, -1e-300]), "numbers from 0"),
            (Array("N", high=1.0), np.array([np.nextafter(1.0, 2.0)]), "to 1"),
            (Array("N"), np.array([np.nan]), "numbers from"),
            (Array("N", nan=True), np.array([np.nan, np.inf]), "numbers from"),
            (Array("N", high=2, dtypes=("int64",)), np.array([3]), "to 2"),
            (Array("N", "N"), np.zeros((2, 3)), "N = 2 in each axis called N"),
        ],
    )
    def test_another_is_refused(self, schema: Array, array: Any, words: str) -> None:
        with pytest.raises(CheckpointError, match=f"'it' must be .*{words}"):
            loaded(schema, None, {"it": array})

    def test_gaps_where_they_may_be(self) -> None:
        value = np.array([np.nan, 1.0])
        np.testing.assert_array_equal(loaded(Array("N", nan=True), None, {"it": value}), value)

    def test_a_float32_is_compared_as_it_is(self) -> None:
        """A limit that float32 rounds up must not let a larger number in."""
        schema = Array("N", dtypes=("float32",), high=0.1)
        above = np.array([0.1], np.float32)  # 0.100000001...
        with pytest.raises(CheckpointError):
            loaded(schema, None, {"it": above})

    def test_one_that_is_missing_or_in_the_header(self) -> None:
        with pytest.raises(CheckpointError, match="'it' is missing"):
            loaded(Array("N"), None, {})
        with pytest.raises(CheckpointError, match="null in the header, got 3"):
            loaded(Array("N"), 3, {"it": np.zeros(3)})


class TestSizes:
    """Arrays with axes of one name must agree."""

    PAIR = Record(Point, {"name": Array("K"), "at": Array("K", "D")})

    def test_the_first_decides(self) -> None:
        fine = {"it/name": np.zeros(2), "it/at": np.zeros((2, 5))}
        loaded(self.PAIR, {}, fine, D=5)
        for wrong in ({"it/at": np.zeros((3, 5))}, {"it/at": np.zeros((2, 4))}):
            with pytest.raises(CheckpointError, match=r"'it/at' must be .*\(2, 5\)"):
                loaded(self.PAIR, {}, fine | wrong, D=5)

    def test_entries_of_a_sequence_may_have_sizes_of_their_own(self) -> None:
        points = (Point("a", np.zeros(2)), Point("b", np.zeros(3)))
        packed, arrays = saved(Many(POINT), points)
        assert len(loaded(Many(POINT, own_sizes="D"), packed, arrays)) == 2
        with pytest.raises(CheckpointError, match="it/1/at"):
            loaded(Many(POINT), packed, arrays)

    def test_a_record_may_give_a_size(self) -> None:
        counted = Record(Disc, {"radius": Scalar(float)}, sizes=lambda d: {"R": int(d.radius)})
        both = Record(Point, {"name": counted, "at": Array("R")})
        packed = {"name": {"radius": 3}}
        loaded(both, packed, {"it/at": np.zeros(3)})
        with pytest.raises(CheckpointError, match=r"'it/at' must be .*\(3\)"):
            loaded(both, packed, {"it/at": np.zeros(4)})


class TestRecord:
    def test_it_comes_back_and_arrays_leave_nothing_in_the_header(self) -> None:
        packed, arrays = saved(POINT, Point("a", np.ones(2)))
        assert packed == {"name": "a"}
        back = loaded(POINT, packed, arrays)
        assert back.name == "a"
        assert back.at.tolist() == [1.0, 1.0]

    @pytest.mark.parametrize(
        ("found", "words"),
        [
            ({}, "must have 'name'"),
            ({"name": "a", "more": 1}, "must not have 'more'"),
            (["a"], r"must be an object, got \['a'\]"),
        ],
    )
    def test_other_keys_are_refused(self, found: Any, words: str) -> None:
        with pytest.raises(CheckpointError, match=words):
            loaded(POINT, found, {"it/at": np.ones(2)})

    def test_an_error_of_the_class_names_the_place(self) -> None:
        def refuse(**fields: Any) -> None:
            raise ValueError("too round")

        with pytest.raises(CheckpointError, match="'it' cannot be: too round"):
            loaded(Record(refuse, DISC.fields), {"radius": 1.0}, {})

    def test_fields_that_contradict_each_other(self) -> None:
        checked = Record(
            Disc, DISC.fields, lambda d, place: expect(d.radius != 1.0, place, "not 1")
        )
        assert loaded(checked, {"radius": 2.0}, {}).radius == 2.0
        with pytest.raises(CheckpointError, match="'it' must be not 1"):
            loaded(checked, {"radius": 1.0}, {})


class TestOthers:
    @pytest.mark.parametrize("value", [(), (1,), (3, 2, 1)])
    def test_sequences(self, value: tuple[int, ...]) -> None:
        assert returned(Many(Scalar(int)), value) == value
        assert returned(Many(Scalar(int), make=list), value) == list(value)

    @pytest.mark.parametrize("found", [{}, "ab", None, [1, 2, 3]])
    def test_what_is_no_short_list(self, found: Any) -> None:
        with pytest.raises(CheckpointError, match="a list of at most 2 entries"):
            loaded(Many(Scalar(int), most=2), found, {})

    def test_sequences_of_arrays(self) -> None:
        packed, arrays = saved(Many(Array("N")), [np.zeros(2), np.ones(2)])
        assert packed == [None, None]
        assert [a.tolist() for a in loaded(Many(Array("N")), packed, arrays)] == [[0, 0], [1, 1]]

    def test_mappings_keep_their_order(self) -> None:
        schema = Table(Scalar(str), Scalar(int))
        assert list(returned(schema, {"b": 1, "a": 2}).items()) == [("b", 1), ("a", 2)]

    @pytest.mark.parametrize(
        ("keys", "values"), [(["a", "a"], [1, 2]), (["a"], [1, 2]), (["a", "b"], [1])]
    )
    def test_what_is_no_mapping(self, keys: list[str], values: list[int]) -> None:
        with pytest.raises(CheckpointError, match="'it/keys' must be distinct, one for each"):
            loaded(Table(Scalar(str), Scalar(int)), {"keys": keys, "values": values}, {})

    @pytest.mark.parametrize("value", [Point("a", np.ones(1)), Disc(2.0)])
    def test_one_of_several_classes(self, value: Any) -> None:
        assert type(returned(SHAPE, value)) is type(value)

    @pytest.mark.parametrize(
        ("found", "words"),
        [
            ({"kind": "square"}, "'it/kind' must be one of point, disc, got 'square'"),
            ({"kind": ["disc"]}, "one of point, disc"),
            ({"radius": 1.0}, "an object with a kind"),
            ("disc", "an object with a kind"),
            ({"kind": "disc", "name": "a"}, "'it' must"),
        ],
    )
    def test_none_of_the_classes(self, found: Any, words: str) -> None:
        with pytest.raises(CheckpointError, match=words):
            loaded(SHAPE, found, {})
        with pytest.raises(TypeError, match="no schema for tuple"):
            saved(SHAPE, (1, 2))

    @pytest.mark.parametrize(
        ("schema", "value"), [(Scalar(int), 3), (Array("N"), np.ones(2)), (DISC, Disc(1.0))]
    )
    def test_perhaps_none(self, schema: Any, value: Any) -> None:
        assert returned(Optional(schema), None) is None
        np.testing.assert_equal(returned(Optional(schema), value), value)

    def test_an_array_that_may_be_none_is_announced(self) -> None:
        with pytest.raises(CheckpointError, match="true or null in the header, got 1"):
            loaded(Optional(Array("N")), 1, {"it": np.ones(2)})
        with pytest.raises(CheckpointError, match="'it' is missing"):
            loaded(Optional(Array("N")), True, {})

    def test_saved_in_another_form(self) -> None:
        word = Converted(Scalar(str), save=str, restore=int)
        assert saved(word, 12)[0] == "12"
        assert returned(word, 12) == 12
        with pytest.raises(CheckpointError, match="'it' cannot be: invalid literal"):
            loaded(word, "twelve", {})


def test_leaves_are_all_that_a_file_may_lie_about() -> None:
    schema = Record(dict, {"shapes": Many(SHAPE), "table": Table(Scalar(str), Optional(DISC))})
    value = {
        "shapes": [Point("a", np.ones(1)), Disc(1.0)],
        "table": {"x": None, "y": Disc(1.0)},
    }
    packed, _ = saved(schema, type("Both", (), value))
    assert [place for _, place in schema.leaves(packed, "it")] == [
        "it",
        "it/shapes/0/kind", "it/shapes/0", "it/shapes/0/name", "it/shapes/0/at",
        "it/shapes/1/kind", "it/shapes/1", "it/shapes/1/radius",
        "it/table/keys/0", "it/table/keys/1",
        "it/table/values/1", "it/table/values/1/radius",
    ]  # fmt: skip


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "name", "radius", "keys", "values"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(json_like)
def test_no_header_raises_anything_else(found: Any) -> None:
    schemas = (SHAPE, DISC, Many(SHAPE), Table(Scalar(str), DISC), Optional(SHAPE), Scalar(float))
    for schema in schemas:
        with suppress(CheckpointError):
            loaded(schema, found, {})


def test_messages_do_not_repeat_a_whole_file() -> None:
    assert len(shown("x" * 10**6)) == 80
    with pytest.raises(CheckpointError) as caught:
        check_keys(["x" * 10**6], "it", [])
    assert len(str(caught.value)) < 200
