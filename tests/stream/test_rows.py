"""Rows parsed in bulk are the same, to the bit, as rows parsed one by one."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.io.dialects import Dialect
from everlearn.io.lines import chunk_of
from everlearn.io.splitter import cut_lines
from everlearn.stream import rows
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


COMMAS = Dialect("utf-8", ",", ".")
EXCEL = Dialect("cp1252", ";", ",")


def raw(lines, form="jsonl", names=None, *, block=1 << 20, table=COMMAS):
    dialect = table if form == "csv" else Dialect()
    data = io.BytesIO("".join(f"{line}\n" for line in lines).encode(dialect.encoding))
    delimiter = dialect.delimiter.encode() or None
    chunks = cut_lines(lambda n: data.read(min(n, block)), 0, delimiter)
    return [chunk_of(0, some, form, names, dialect) for some in chunks]


def prepared(chunks, layout, missing):
    preparer = RecordPreparer(layout, lambda _: missing)
    return preparer.join([preparer.read(chunk) for chunk in chunks])


def check(chunks, layout, *, missing):
    at_once = prepared(chunks, layout, missing)
    single = [chunk.part(i, i + 1) for chunk in chunks for i in range(len(chunk))]
    one_by_one = prepared(single, layout, missing)
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


EXCEL_FIELDS = st.one_of(
    NUMBERS.map(lambda x: repr(x).replace(".", ",")),
    st.sampled_from(
        ["", "NA", "1.234", "1.234,5", "1.5", "1,234", "1 234,5", "TRUE", "é", '"1,5"']
    ),
)
EXCEL_ROWS = st.tuples(EXCEL_FIELDS, EXCEL_FIELDS, st.sampled_from(["g0", "g1", "", "gü"])).map(
    ";".join
)


@given(st.lists(EXCEL_ROWS, min_size=1, max_size=12), st.booleans(), BLOCKS)
def test_tables_of_excel(lines, missing, block):
    names = ("a", "b", "label")
    check(raw(lines, "csv", names, block=block, table=EXCEL), CLASSIFIER, missing=missing)


class TestInBulk:
    """Plain lines are not parsed one by one, so that reading is quick."""

    @pytest.fixture(autouse=True)
    def not_one_by_one(self, monkeypatch):
        def refuse(*args):
            raise AssertionError(f"parsed one by one: {args[0]}")

        monkeypatch.setattr(rows, "numbers_of_row", refuse)

    @pytest.mark.parametrize(
        "line",
        ["[1, 2]", '{"a": 1, "b": 2.5, "label": "g0"}', '{"label":1,"b":1e5,"a":-3}'],
    )
    def test_json_lines(self, line):
        layout = CLASSIFIER
        if line.startswith("["):
            layout = Layout("mixture", form="rows", columns=("0", "1"))
        found = prepared(raw([line] * 5), layout, False)
        assert len(found) == 5
        assert not np.isnan(found.X).any()

    def test_json_lines_beside_those_that_are_not_json(self):
        layout = Layout("mixture", form="rows", columns=("0", "1"))
        found = prepared(raw(["[1, 2]", "oops", "[3, 4]"]), layout, False)
        assert found.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert [bad.record for _, bad in found.bad] == ["oops"]

    @pytest.mark.parametrize("ending", ["", "\r"])
    def test_tables_are_not_even_split(self, ending, monkeypatch):
        monkeypatch.setattr(RecordPreparer, "_read_records", None)
        lines = [f"{i}.5,{-i},g{i % 2}{ending}" for i in range(1, 5)]
        found = prepared(raw(lines, "csv", ("b", "a", "label")), CLASSIFIER, False)
        assert found.X.tolist() == [[-i, i + 0.5] for i in range(1, 5)]
        assert found.y.tolist() == ["g1", "g0", "g1", "g0"]


def test_decimal_commas_are_read_in_bulk_too(monkeypatch):
    monkeypatch.setattr(RecordPreparer, "_read_records", None)
    lines = [f"{i},5;{-i};g{i % 2}" for i in range(1, 5)]
    chunks = raw(lines, "csv", ("b", "a", "label"), table=EXCEL)
    found = prepared(chunks, CLASSIFIER, False)
    assert found.X.tolist() == [[-i, i + 0.5] for i in range(1, 5)]


def test_targets_have_the_decimal_mark_of_their_file():
    chunks = raw(["1,5;2;1.234,5", "2;3;x"], "csv", ("a", "b", "label"), table=EXCEL)
    found = prepared(chunks, REGRESSOR, False)
    assert found.y.tolist() == [1234.5]
    assert [bad.reason for _, bad in found.bad] == ["the label 'x' is not a number"]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ('1,2,"g0', "a quote that is not closed"),
        ("1,2", "expected 3 fields, got 2"),
        ("1,2,g0,4", "expected 3 fields, got 4"),
        ("1,x,g0", "'b' is not a number: 'x'"),
        ("1,,g0", "'b' is missing"),
        ("1,inf,g0", "'b' is infinite"),
        ("1,2,g7", "unknown label 'g7'"),
        ("1\r2,3,g0", "'a' is not a number: '1\\r2'"),
    ],
)
def test_one_bad_line_of_a_table_is_named_and_the_others_are_read(odd, reason):
    found = prepared(raw(["1,2,g0", odd, "3,4,g1"], "csv", ("a", "b", "label")), CLASSIFIER, False)
    assert found.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found.y.tolist() == ["g0", "g1"]
    ((_, bad),) = found.bad
    assert (bad.reason, bad.record, bad.start) == (reason, odd, len("1,2,g0\n"))
