"""Sources: what they read, from any place on, and what they cannot."""

import gzip
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from everlearn.runtime.stream import lines as lines_module
from everlearn.runtime.stream.chunks import Batcher, Chunk, batch_size
from everlearn.runtime.stream.ledger import Progress
from everlearn.runtime.stream.lines import LineSource, PipeSource, cut_lines
from everlearn.runtime.stream.opening import open_sources
from everlearn.runtime.stream.sources import SourceError


def records(source, start=None):
    """(row, place, reason) of each record."""
    out = []
    for chunk in source.read(0, start or Progress(source.name)):
        for i, place in enumerate(chunk.places):
            row = None if i in chunk.bad else chunk.rows[i]
            out.append((row, place, chunk.bad[i].reason if i in chunk.bad else None))
    return out


def rows(source, start=None):
    return [row for row, _, _ in records(source, start)]


def opened(path, **kwargs):
    (source,) = open_sources([str(path)], None, **kwargs)
    return source


class TestLines:
    @given(
        st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"x")), max_size=20),
        st.booleans(),
        st.integers(1, 7),
    )
    def test_lines_are_cut_whatever_the_blocks(self, lines, newline_at_end, block):
        data = b"\n".join(lines) + (b"\n" if newline_at_end else b"")
        file = io.BytesIO(data)
        got, ends = [], []
        for some, places in cut_lines(lambda n: file.read(block), 0, quoted=False):
            got += some
            ends += places
        assert b"".join(got) == data
        assert ends == list(np.cumsum([len(line) for line in got]))
        assert all(line.endswith(b"\n") for line in got[:-1])

    def test_a_quote_may_span_lines(self):
        data = b'a,"x\ny"\nb,c\n'
        ((got, ends),) = list(cut_lines(io.BytesIO(data).read, 0, quoted=True))
        assert got == [b'a,"x\ny"\n', b"b,c\n"]
        assert ends == [8, 12]

    def test_a_monstrous_line_is_cut_and_the_next_is_whole(self, monkeypatch):
        monkeypatch.setattr(lines_module, "MAX_RECORD", 10)
        file = io.BytesIO(b"x" * 95 + b"\nnext\n")
        got = list(cut_lines(lambda n: file.read(8), 0, quoted=False))
        assert got[-1] == ([b"next\n"], [101])
        assert sum(len(line) for some, _ in got for line in some) < 40


class TestFiles:
    def test_json_lines(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_bytes(b'{"x": 1}\n\n[1, 2]\noops\n"text"\n')
        source = opened(path)
        assert rows(source) == [{"x": 1}, [1, 2], None, "text"]
        assert "not JSON" in records(source)[2][2]

    def test_reading_goes_on_after_any_record(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps({"i": i}) + "\n" for i in range(30)))
        source = opened(path)
        everything = records(source)
        for i in (0, 7, 29):
            progress = source.advanced(Progress(source.name), [everything[i][1]])
            assert source.resume(progress) is progress
            assert records(source, progress) == everything[i + 1 :]

    def test_a_file_that_grew_is_the_same_and_a_replaced_one_is_new(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text("1\n2\n")
        source = opened(path)
        progress = source.advanced(Progress(source.name), [4])
        path.write_text("1\n2\n3\n")
        assert rows(source, source.resume(progress)) == [3]
        path.write_text("7\n8\n9\n")
        assert rows(source, source.resume(progress)) == [7, 8, 9]

    def test_an_unfinished_last_line_waits(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text('{"a": 1}\n{"a": ')
        assert rows(opened(path)) == [{"a": 1}]
        path.write_text('{"a": 1}\n{"a": 2}')
        assert rows(opened(path)) == [{"a": 1}, {"a": 2}]

    def test_csv_with_and_without_names(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text('name,"long\nname",z\n1,2,3\n4,"5,5",6\n7,8\n')
        (chunk,) = opened(path).read(0, Progress(str(path)))
        assert chunk.names == ("name", "long\nname", "z")
        assert chunk.rows[:2] == [["1", "2", "3"], ["4", "5,5", "6"]]
        assert chunk.bad[2].reason == "expected 3 fields, got 2"
        path.write_text("1,2\n3,4\n")
        (chunk,) = opened(path).read(0, Progress(str(path)))
        assert chunk.names == ("0", "1")
        assert chunk.rows == [["1", "2"], ["3", "4"]]

    def test_the_names_are_known_when_reading_goes_on(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("a,b\n1,2\n3,4\n")
        source = opened(path)
        (chunk,) = source.read(0, Progress(str(path), position=8))
        assert (chunk.names, chunk.rows) == (("a", "b"), [["3", "4"]])

    def test_compressed_lines(self, tmp_path):
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b"1\n2\n3\n"))
        source = opened(path)
        assert rows(source) == [1, 2, 3]
        progress = source.advanced(Progress(source.name), [4])
        assert rows(source, source.resume(progress)) == [3]

    def test_numpy_and_scipy_files(self, tmp_path):
        table = np.arange(2000.0).reshape(1000, 2)
        np.save(tmp_path / "a.npy", table)
        source = opened(tmp_path / "a.npy")
        assert np.array_equal(np.vstack([c.rows for c in source.read(0, Progress(""))]), table)
        assert np.array_equal(next(source.read(0, Progress("", position=999))).rows, table[999:])
        np.savez(tmp_path / "b.npz", X=table[:3], y=np.array(["p", "q", "p"]))
        (chunk,) = opened(tmp_path / "b.npz", label="kind").read(0, Progress(""))
        assert chunk.names == ("0", "1", "kind")
        assert chunk.rows[1] == (2.0, 3.0, "q")
        counts = sparse.random(20, 5, 0.3, format="csr", random_state=0)
        sparse.save_npz(tmp_path / "c.npz", counts)
        (chunk,) = opened(tmp_path / "c.npz").read(0, Progress(""))
        assert abs(chunk.rows - counts).max() == 0

    def test_parquet_from_any_row_on(self, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pyarrow.table({"x": np.arange(1500), "t": [f"w{i}" for i in range(1500)]})
        parquet.write_table(table, tmp_path / "a.parquet", row_group_size=400)
        source = opened(tmp_path / "a.parquet")
        everything = records(source)
        assert [row for row, _, _ in everything] == [(i, f"w{i}") for i in range(1500)]
        assert [place for _, place, _ in everything] == list(range(1, 1501))
        for start in (1, 399, 400, 777, 1500):
            assert records(source, Progress("", position=start)) == everything[start:]

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("a.npy", b"nonsense", "no table of rows"),
            ("a.parquet", b"nonsense", "no Parquet file"),
            ("a.xls", b"", "none of the endings"),
        ],
    )
    def test_what_cannot_be_read_is_named(self, tmp_path, name, content, words):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError, match=words):
            rows(opened(tmp_path / name))

    def test_missing_and_doubled_sources(self, tmp_path):
        with pytest.raises(SourceError, match="no file or folder"):
            opened(tmp_path / "nothing.csv")
        (tmp_path / "a.csv").write_text("1\n")
        with pytest.raises(SourceError, match="given twice"):
            open_sources([str(tmp_path / "a.csv")] * 2, None)


class TestFolders:
    def test_each_text_once_and_new_ones_later(self, tmp_path):
        for name in ("b", "a", "sub/c"):
            path = tmp_path / f"{name}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(name)
        source = opened(tmp_path)
        got = records(source)
        assert [row for row, _, _ in got] == ["a", "b", "sub/c"]
        progress = source.advanced(Progress(source.name), [place for _, place, _ in got[:2]])
        (tmp_path / "0.txt").write_text("0")
        assert rows(source, source.resume(progress)) == ["0", "sub/c"]

    def test_a_folder_of_data_files_is_all_of_them(self, tmp_path):
        (tmp_path / "b.jsonl").write_text("1\n")
        (tmp_path / "a.jsonl").write_text("2\n")
        names = [source.name for source in open_sources([str(tmp_path)], None)]
        assert names == [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]

    def test_a_text_that_is_not_text_is_bad(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xff")
        ((_, _, reason),) = records(opened(tmp_path))
        assert "not a text" in reason

    def test_an_empty_folder_is_no_source(self, tmp_path):
        with pytest.raises(SourceError, match="holds no texts"):
            opened(tmp_path)


class TestPipes:
    def test_data_sent_again_are_skipped(self):
        data = b"".join(b"%d\n" % i for i in range(50_000))
        source = PipeSource(io.BytesIO(data))
        got = records(source)
        progress = source.advanced(Progress("-"), [got[30_000][1]])
        again = PipeSource(io.BytesIO(data))
        assert records(again, again.resume(progress)) == got[30_001:]

    def test_new_data_are_all_read(self):
        source = PipeSource(io.BytesIO(b"1\n2\n"))
        progress = source.advanced(source.resume(Progress("-")), [records(source)[-1][1]])
        other = PipeSource(io.BytesIO(b"5\n6\n7\n"))
        assert rows(other, other.resume(progress)) == [5, 6, 7]

    def test_data_sent_again_must_not_be_shorter(self):
        data = b"".join(b"%d\n" % i for i in range(50_000))
        source = PipeSource(io.BytesIO(data))
        progress = source.advanced(Progress("-"), [records(source)[-1][1]])
        short = PipeSource(io.BytesIO(data[:100_000]))
        with pytest.raises(SourceError, match="shorter"):
            short.resume(progress)

    def test_a_table_keeps_its_names_when_sent_again(self):
        data = b"a,b\n1,2\n3,4\n"
        source = PipeSource(io.BytesIO(data), "csv")
        (chunk,) = source.read(0, source.resume(Progress("-")))
        assert (chunk.names, chunk.rows) == (("a", "b"), [["1", "2"], ["3", "4"]])
        progress = source.advanced(Progress("-"), [8])
        again = PipeSource(io.BytesIO(data), "csv")
        (chunk,) = again.read(0, again.resume(progress))
        assert (chunk.names, chunk.rows) == (("a", "b"), [["3", "4"]])


class TestBatches:
    @given(st.lists(st.integers(0, 30), max_size=10), st.integers(1, 12))
    def test_every_record_is_in_one_batch_in_order(self, sizes, size):
        batcher = Batcher(size)
        batches, n = [], 0
        for source, length in enumerate(sizes):
            chunk = Chunk(source, list(range(n, n + length)), range(n, n + length))
            batches += batcher.add(chunk)
            n += length
        rest = batcher.rest()
        assert all(batch_size(batch) == size for batch in batches)
        assert batch_size(rest) < size
        everything = [row for batch in [*batches, rest] for chunk in batch for row in chunk.rows]
        assert everything == list(range(n))


def test_line_sources_know_their_format(tmp_path):
    (tmp_path / "a.txt").write_text("one two\nthree\n")
    source = opened(tmp_path / "a.txt")
    assert isinstance(source, LineSource)
    assert rows(source) == ["one two", "three"]
