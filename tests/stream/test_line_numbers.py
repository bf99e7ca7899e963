"""Records read all at once are, to the bit, those read one by one."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.attic.app_tool_line_numbers import LineReader
from everlearn.io.lines import chunk_of
from everlearn.io.splitter import cut_lines
from everlearn.stream.layout import Layout
from everlearn.stream.records import RecordPreparer

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**20), 10**20),
    st.decimals(-1000, 1000, places=3).map(float),
)
ODD = st.sampled_from(
    ["null", "true", '"x"', '"1.5"', "-0", "1e999", "[1]", "NaN", "", '"\\u00e9"']
)
VALUES = st.one_of(NUMBERS.map(json.dumps), NUMBERS.map(json.dumps), ODD)
LABELS = st.sampled_from(
    ['"g0"', '"g1"', "1", "1.0", "-0.0", "null", '"other"', '"g\\u0030"', "[1]"]
)


@st.composite
def objects(draw):
    """A line as programs write it, and now and then another."""
    a, b, label = draw(VALUES), draw(VALUES), draw(LABELS)
    style = draw(st.integers(0, 9))
    if style == 0:
        return f'{{"b": {b}, "a": {a}, "label": {label}}}'
    if style == 1:
        return f'{{"a":{a},"b":{b},"label":{label}}}'
    if style == 2:
        return f'{{"a": {a}, "label": {label}}}'
    return f'{{"a": {a}, "b": {b}, "label": {label}}}'


LISTS = st.lists(VALUES, min_size=2, max_size=3).map(lambda v: f"[{', '.join(v)}]")
FIELDS = st.one_of(
    NUMBERS.map(repr),
    st.sampled_from(["", " 1", "1_0", "inf", "nan", "-0", "007", "+1", "x", "é", '"1"', '"1,5"']),
)
TABLES = st.tuples(
    FIELDS, FIELDS, st.sampled_from(["g0", "g1", "", "g 1", "1.0", "g0,1", "1,"])
).map(",".join)


def raw(lines, form="jsonl", names=None, *, block=1 << 20):
    data = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    delimiter = b"," if form == "csv" else None
    chunks = cut_lines(lambda room: data.readinto(room[:block]), 0, delimiter)
    return [chunk_of(0, some, form, names) for some in chunks]


def prepared(chunks, layout, missing):
    preparer = RecordPreparer(layout, lambda _: missing)
    return preparer.join([preparer.read(chunk) for chunk in chunks])


def check(chunks, layout, *, missing):
    at_once = prepared(chunks, layout, missing)
    one_by_one = prepared([chunk.parsed() for chunk in chunks], layout, missing)
    assert np.asarray(at_once.X).tobytes() == np.asarray(one_by_one.X).tobytes()
    assert len(at_once) == 0 or at_once.X.flags.c_contiguous
    assert np.array_equal(at_once.y, one_by_one.y)
    assert list(at_once.origins) == list(one_by_one.origins)
    told, expected = ([(o, bad.reason) for o, bad in p.bad] for p in (at_once, one_by_one))
    assert told == expected
    assert list(at_once.order) == list(one_by_one.order)


CLASSIFIER = Layout("classifier", form="rows", columns=("a", "b"), classes=("g0", "g1", "1"))
REGRESSOR = Layout("regressor", form="rows", columns=("b", "a"))


BLOCKS = st.sampled_from([50, 150, 1 << 20])


@given(st.lists(objects(), min_size=1, max_size=12), st.booleans(), BLOCKS)
def test_objects(lines, missing, block):
    for layout in (CLASSIFIER, REGRESSOR):
        check(raw(lines, block=block), layout, missing=missing)


@given(st.lists(LISTS, min_size=1, max_size=12), st.booleans(), BLOCKS)
def test_lists(lines, missing, block):
    layout = Layout("mixture", form="rows", columns=("0", "1"))
    check(raw(lines, block=block), layout, missing=missing)


@given(st.lists(TABLES, min_size=1, max_size=12), st.booleans(), BLOCKS)
def test_tables(lines, missing, block):
    names = ("a", "b", "label")
    check(raw(lines, "csv", names, block=block), CLASSIFIER, missing=missing)


@pytest.mark.parametrize(
    "line",
    ["[1, 2]", '{"a": 1, "b": 2.5, "label": "g0"}', '{"label":1,"b":1e5,"a":-3}'],
)
def test_lines_that_look_alike_are_read_at_once(line):
    (chunk,) = raw([line] * 5)
    columns = ("0", "1") if line.startswith("[") else ("a", "b")
    lines = LineReader(columns, "label").read(chunk)
    assert lines is not None
    assert not lines.odd.any()
    assert not np.isnan(lines.table).any()


def test_what_is_around_values_is_looked_for_only_if_it_changes(monkeypatch):
    looked = []
    form_of = LineReader._form_of
    monkeypatch.setattr(
        LineReader, "_form_of", lambda *args: (looked.append(args[2]), form_of(*args))[1]
    )
    alike, other = ['{"a": 1, "b": 2}'] * 4, ['{"b": 2, "a": 1}'] * 4
    reader = LineReader(("a", "b"), None)
    for lines in (alike, alike, ["oops", *alike], other, other, alike):
        (chunk,) = raw(lines)
        read = reader.read(chunk)
        assert (~read.odd).sum() == 4
        assert np.array_equal(read.table[-4:], [[1.0, 2.0]] * 4)
    assert looked == [0, 0, 0]


@pytest.mark.parametrize(
    "odd", ["[1]", "oops", '{"a": 1}', '{"a": 1, "a": 2, "b": 3}', '["\\n5", 1]']
)
def test_one_odd_line_leaves_the_others(odd):
    (chunk,) = raw([odd] + ['{"a": 1, "b": 2}'] * 5)
    lines = LineReader(("a", "b"), None).read(chunk)
    assert lines is not None
    assert lines.odd.tolist() == [True] + [False] * 5


@pytest.mark.parametrize("line", ["[[1], 2]", '{"a": {}, "b": 1}', '["x\\n5", 1]', "7", '"[1, 2]"'])
def test_lines_that_are_not_flat_are_left_to_others(line):
    (chunk,) = raw([line] * 3)
    columns = ("a", "b") if line.startswith("{") else ("0", "1")
    assert LineReader(columns, None).read(chunk) is None
