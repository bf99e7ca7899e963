"""Numbers read by the kernel against those that Python reads."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.attic.inference_kernels_decimals import double_of
from everlearn.attic.inference_kernels_number_lines import (
    Frame,
    different_texts,
    number_at,
    read_lines,
)

WHOLE = st.integers(0, 10**19 - 1)


def number(text):
    """What the kernel reads, and how many bytes of it."""
    data = np.frombuffer(text.encode(), np.uint8)
    return number_at(data, 0, len(data))


def same_bits(a, b):
    return np.float64(a).tobytes() == np.float64(b).tobytes()


class TestDoubles:
    @given(WHOLE, st.integers(-64, 64))
    def test_rounding_is_that_of_python(self, w, q):
        got = double_of(np.uint64(w), q)
        assert np.isnan(got) or same_bits(got, float(f"{w}e{q}"))

    def test_hardly_any_is_left_to_others(self):
        draw = random.Random(0)
        cases = [
            (draw.randrange(10 ** draw.randrange(1, 20)), draw.randrange(-64, 65))
            for _ in range(5000)
        ]
        got = np.array([double_of(np.uint64(w), q) for w, q in cases])
        assert np.isnan(got).sum() == 0
        assert got.tolist() == [float(f"{w}e{q}") for w, q in cases]

    @pytest.mark.parametrize("q", range(-4, 24))
    def test_half_way_between_two_doubles_the_even_one(self, q):
        draw = random.Random(q)
        for _ in range(50):
            odd = draw.randrange(2**52, 2**53) * 2 + 1  # 54 bits: half way
            w = odd * 10**-q if q < 0 else odd
            for near in (w - 1, w, w + 1):
                if near < 10**19:
                    assert same_bits(double_of(np.uint64(near), q), float(f"{near}e{q}"))

    def test_beyond_the_table_it_says_so(self):
        assert np.isnan(double_of(np.uint64(10**18), 65))
        assert np.isnan(double_of(np.uint64(10**18), -65))
        assert double_of(np.uint64(0), 400) == 0.0


class TestNumbers:
    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_what_python_writes_is_read_to_the_bit(self, x):
        value, end = number(repr(x))
        assert end == 0 or (same_bits(value, x) and end == len(repr(x)))

    @given(st.floats(-1e40, 1e40, allow_subnormal=False).filter(lambda x: abs(x) > 1e-40))
    def test_numbers_of_common_size_are_read(self, x):
        assert same_bits(number(repr(x))[0], x)

    @given(st.text("0123456789.-+eE", max_size=12))
    def test_it_reads_no_number_that_json_does_not_have(self, text):
        value, end = number(text)
        if end:
            assert same_bits(value, float(json.loads(text[:end])))
        else:
            assert np.isnan(value)

    @pytest.mark.parametrize(
        "text", ["", "-", "01", "-01", ".5", "5.", "1e", "1e+", "+1", "x", "-0"]
    )
    def test_what_is_no_number_or_doubtful(self, text):
        assert number(text)[1] in (0, 1 if text in ("1e", "1e+") else 0)
        assert np.isnan(number(text)[0])

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("0", 0.0),
            ("-0.0", -0.0),
            ("-0e3", -0.0),
            ("0.00000000000000000000012345", 1.2345e-22),
            ("123456789012345678", 123456789012345678.0),
            ("1E+2", 100.0),
            ("7e-2", 0.07),
        ],
    )
    def test_what_is_one(self, text, value):
        assert same_bits(number(text)[0], value)
        assert number(text)[1] == len(text)

    def test_too_many_digits_are_left_to_others(self):
        assert np.isnan(number("0.1234567890123456789012")[0])
        assert np.isnan(number("12345678901234567890")[0])


@st.composite
def decimals(draw):
    """Numbers as texts, hard ones among them: long, tiny, huge, half way between two doubles."""
    digits = st.text("0123456789", min_size=1, max_size=draw(st.sampled_from([2, 9, 17, 25, 40])))
    near = st.integers(0, 2**63 - 1).map(lambda bits: repr(float(np.int64(bits).view(np.float64))))
    half = st.integers(2**53, 10**19 // 2).map(lambda n: str(2 * n + 1))
    whole = draw(st.one_of(st.just("0"), digits.map(lambda d: d.lstrip("0") or "0"), half))
    fraction = draw(st.one_of(st.just(""), digits.map(".{}".format), st.just("." + "0" * 19 + "1")))
    power = st.integers(-420, 420).flatmap(
        lambda e: st.sampled_from([f"e{e}", f"E{e:+05d}", f"e{e:+d}"])
    )
    text = whole + fraction + draw(st.one_of(st.just(""), st.just(""), power))
    text = draw(st.one_of(st.just(text), near.filter(lambda x: x[0].isdigit())))
    return draw(st.sampled_from(["", "-"])) + text


class TestHardNumbers:
    @given(decimals(), st.sampled_from(["", ",", "]\n", "}", "x1234567", " " * 20]))
    def test_bits_are_those_of_float_or_it_is_left_to_others(self, text, after):
        data = np.frombuffer((text + after).encode(), np.uint8)
        value, end = number_at(data, 0, len(data))
        if end:
            assert end == len(text)
            assert same_bits(value, float(text))
        else:
            assert np.isnan(value)

    @given(st.integers(1, 17), st.integers(0, 18), st.randoms(use_true_random=False))
    def test_whatever_digits_are_on_both_sides_of_the_point(self, n_whole, n_fraction, draw):
        n_fraction = min(n_fraction, 18 - n_whole)
        whole = str(draw.randrange(10 ** (n_whole - 1), 10**n_whole))
        fraction = "".join(draw.choice("0123456789") for _ in range(n_fraction))
        text = f"{whole}.{fraction}" if fraction else whole
        assert number(text)[1] == len(text)
        assert same_bits(number(text)[0], float(text))

    @pytest.mark.parametrize("text", ["1e400", "-1e400", "5e-324", "4.9e-324", "1e-400", "1e308"])
    def test_beyond_the_table_of_powers_others_look(self, text):
        assert number(text) == (pytest.approx(np.nan, nan_ok=True), 0)

    @pytest.mark.parametrize(
        "text",
        ["0.0", "-0.0", "0e-400", "0.000e400", "9007199254740993", "9007199254740993.0",
         "4503599627370496.5", "4503599627370497.5", "0.1e1", "1e22", "1e23", "1e-22", "1e-23",
         "8.5e22", "9999999999999999999", "0.30000000000000004", "179769313486231570e1"],
    )  # fmt: skip
    def test_known_traps(self, text):
        assert number(text)[1] == len(text)
        assert same_bits(number(text)[0], float(text))


def read(text, pieces, *, delimiter=-1, marked=-1):
    data = np.frombuffer(text.encode(), np.uint8)
    stops = np.flatnonzero(data == ord("\n")) + 1
    starts = np.concatenate(([0], stops[:-1]))
    joined = np.frombuffer("".join(pieces).encode(), np.uint8)
    frame = Frame(
        joined, np.cumsum([len(p) for p in pieces]), delimiter, np.arange(len(pieces) - 1)
    )
    values, odd, spans, n_fit = read_lines(data, starts, stops, frame, marked)
    assert odd.tolist() == np.isnan(values).any(axis=1).tolist()
    fits = [b > 0 for _, b in spans]
    assert marked < 0 or n_fit == sum(fits)
    texts = [bytes(data[a:b]).decode() for a, b in spans]
    return values, [text if fit else None for text, fit in zip(texts, fits, strict=True)]


class TestLines:
    def test_lines_that_fit_the_frame(self):
        text = '{"a": 1, "b": 2.5}\r\n{"a":3, "b": 4}\n{"a": 5, "b": 6} \n{"a": 7, "b": "x"}\n'
        values, marked = read(text, ['{"a": ', ', "b": ', "}"], marked=1)
        assert np.array_equal(values[0], [1.0, 2.5])
        assert np.isnan(values[1:3]).all()
        assert np.array_equal(values[3], [7.0, np.nan], equal_nan=True)
        assert marked == ["2.5", None, None, '"x"']

    def test_fields_of_a_table(self):
        text = '1,x y,2026-01-02,3\n,,,\n1,2,3\n1,2,3,4,5\n1,"2",3,4\n1,2,3,é\n'
        values, marked = read(text, ["", ",", ",", ",", ""], delimiter=ord(","), marked=2)
        assert np.array_equal(values[0], [1, np.nan, np.nan, 3], equal_nan=True)
        assert marked[:2] == ["2026-01-02", ""]
        assert np.isnan(values[1:]).all()
        assert marked[2:] == [None] * 4

    @pytest.mark.parametrize("text", ['"a\\n"', '"a\tb"', '"é"', '"a', "true", "null", "nan", "1x"])
    def test_values_that_are_for_others(self, text):
        values, marked = read(f"[1,{text}]\n[1,2]\n", ["[", ",", "]"], marked=0)
        assert np.isnan(values[0]).all()
        assert marked == [None, "1"]
        assert np.array_equal(values[1], [1.0, 2.0])

    def test_pieces_of_a_line_are_not_read_as_lines(self):
        lines = ["[1,2]", "[1,2", "[1,2]]", "[1,]", "[,2]", "[1 2]", "1,2]", ""]
        values, _ = read("\n".join(lines) + "\n", ["[", ",", "]"])
        assert [bool(np.isnan(row).all()) for row in values] == [False] + [True] * 7


@given(st.lists(st.text("ab", max_size=20), min_size=1, max_size=30))
def test_different_texts(texts):
    data = np.frombuffer("".join(texts).encode() + b"b", np.uint8)
    stops = np.cumsum([len(text) for text in texts])
    spans = np.column_stack([np.concatenate(([0], stops[:-1])), stops])
    which, first = different_texts(data, spans)
    assert [texts[first[i]] for i in which] == texts
    assert [texts[i] for i in first] == list(dict.fromkeys(texts))


@given(st.text("0123456789.-e", max_size=30), st.integers(0, 30), st.text("0123456789", max_size=9))
def test_what_is_outside_of_a_number_does_not_matter(text, start, after):
    alone = number_at(np.frombuffer(text.encode(), np.uint8), 0, len(text))
    around = np.frombuffer(("7" * start + text + after).encode(), np.uint8)
    value, end = number_at(around, start, start + len(text))
    assert (np.float64(value).tobytes(), end - start) == (np.float64(alone[0]).tobytes(), alone[1])


def test_the_table_of_fives_has_128_bits_that_grow_by_five():
    from everlearn.attic.inference_kernels_decimals import _FIVES

    assert (_FIVES[:, 0] >> np.uint64(63) == 1).all()
    exact = [int(high) << 64 | int(low) for high, low in _FIVES]
    for small, large in pairwise(exact):
        ratio = large / small
        assert any(abs(ratio - 5 / 2**k) < 1e-15 for k in (2, 3))
