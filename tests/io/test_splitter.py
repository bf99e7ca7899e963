"""Bytes are split into lines and CSV rows, whatever the blocks in which they come."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.io import splitter as cutting
from everlearn.io.splitter import BLOCK, cut_lines


def cut(data, block=1 << 18, delimiter=None):
    """(bytes, end, fault) of the records of some bytes that arrive in blocks.

    The bytes have their newline again if the places say that there was one.
    """
    file = io.BytesIO(data)
    out = []
    for some in cut_lines(lambda n: file.read(min(n, block)), 0, delimiter):
        for line in (some[i] for i in range(len(some))):
            assert line.start == (out[-1][1] if out else 0)
            newline = b"\n" if line.end - line.start == len(line.data) + 1 else b""
            out.append((line.data + newline, line.end, line.fault))
    return out


class TestLines:
    @given(
        st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"x")), max_size=20),
        st.booleans(),
        st.integers(1, 7),
    )
    def test_lines_are_cut_whatever_the_blocks(self, lines, newline_at_end, block):
        data = b"\n".join(lines) + (b"\n" if newline_at_end else b"")
        got = cut(data, block)
        assert b"".join(line for line, _, _ in got) == data
        assert [end for _, end, _ in got] == list(np.cumsum([len(line) for line, _, _ in got]))
        assert all(line.endswith(b"\n") for line, _, _ in got[:-1])

    @pytest.mark.parametrize("block", [1, 3, 100])
    def test_a_quoted_field_may_span_lines(self, block):
        got = cut(b'a,"x\ny""z\n",e\nb,c\n', block, b",")
        assert got == [(b'a,"x\ny""z\n",e\n', 14, ""), (b"b,c\n", 18, "")]

    def test_a_quote_within_a_field_is_a_letter(self):
        got = cut(b'1,5" pipe\n2,6"\n3,7\n', delimiter=b",")
        assert [line for line, _, _ in got] == [b'1,5" pipe\n', b'2,6"\n', b"3,7\n"]

    def test_a_quote_that_is_not_closed_costs_one_line(self):
        got = cut(b'1,2\n3,"4\n5,6\n9,1\n', delimiter=b",")
        assert [line for line, _, fault in got if not fault] == [b"1,2\n", b"5,6\n", b"9,1\n"]
        assert [line for line, _, fault in got if fault] == [b'3,"4\n']
        assert [end for _, end, _ in got] == [4, 9, 13, 17]

    def test_an_open_quote_is_given_up_after_so_many_lines(self, monkeypatch):
        monkeypatch.setattr(cutting, "MAX_QUOTED_LINES", 5)
        got = cut(b'"open\n' + b"1,2\n" * 20, delimiter=b",")
        assert len(got) == 21
        assert [bool(fault) for _, _, fault in got] == [True] + [False] * 20

    @given(st.lists(st.sampled_from(['"', ",", "\n", "a", '""']), max_size=30), st.integers(1, 5))
    def test_nothing_is_lost_whatever_the_quotes(self, pieces, block):
        data = "".join(pieces).encode()
        got = cut(data, block, b",")
        assert b"".join(line for line, _, _ in got) == data
        assert got == cut(data, 1000, b",")

    def test_a_monstrous_line_is_bad_and_the_next_is_whole(self, monkeypatch):
        monkeypatch.setattr(cutting, "MAX_RECORD", 10)
        got = cut(b"x" * 95 + b"\nnext\n", 8)
        assert got[0][1:] == (96, cutting.TOO_LONG)
        assert len(got[0][0]) <= 10
        assert got[1:] == [(b"next\n", 101, "")]


class TestLongLines:
    @pytest.mark.parametrize("length", [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
    @pytest.mark.parametrize("block", [BLOCK // 3, BLOCK])
    def test_lines_longer_than_a_block_are_whole(self, length, block):
        lines = [b"a\n", b"x" * length + b"\n", b"b\n", b"y" * length]
        assert [line for line, _, _ in cut(b"".join(lines), block)] == lines

    @pytest.mark.parametrize("block", [1, 3, 7, 100])
    def test_a_monstrous_line_costs_no_other(self, block, monkeypatch):
        monkeypatch.setattr(cutting, "MAX_RECORD", 10)
        got = cut(b"one\n" + b"x" * 30 + b"\ntwo\nthree\nfour", block)
        whole = [(line, end) for line, end, fault in got if not fault]
        small = [(b"one\n", 4), (b"two\n", 39), (b"three\n", 45), (b"four", 49)]
        assert [one for one in whole if len(one[0]) < 30] == small
