"""Sources: what they read, from any place on, and what they cannot."""

import gzip
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from everlearn.errors import SourceError
from everlearn.io import splitter as cutting
from everlearn.io.batches import Batcher, Chunk, batch_size
from everlearn.io.ledger import Progress, digest
from everlearn.io.lines import LineSource, PipeSource
from everlearn.io.opening import open_sources
from everlearn.io.splitter import BLOCK, cut_lines


def records(source, start=None):
    """(row, place, reason) of each record."""
    out = []
    for raw in source.read(0, start or Progress(source.name)):
        chunk = raw.parsed()
        for i, place in enumerate(chunk.places):
            row = None if i in chunk.bad else chunk.rows[i]
            out.append((row, place, chunk.bad[i].reason if i in chunk.bad else None))
    return out


def rows(source, start=None):
    return [row for row, _, _ in records(source, start)]


def opened(path, **kwargs):
    (source,) = open_sources([str(path)], **kwargs)
    return source


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


def _write_table(path, table):
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        columns = {"x": table[:, 0], "y": table[:, 1]}
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    elif path.suffix == ".npz":
        np.savez(path, X=table)
    else:
        np.save(path, table)


def _save_array(path, array):
    """Under any name, also one that NumPy would add its ending to."""
    with open(path, "wb") as file:
        np.save(file, array)


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
        assert rows(source) == [1, 2]
        progress = source.advanced(Progress(source.name), [4])
        path.write_text("1\n2\n3\n")
        assert rows(source, source.resume(progress)) == [3]
        path.write_text("7\n8\n9\n")
        assert rows(source, source.resume(progress)) == [7, 8, 9]

    def test_a_file_that_is_replaced_while_it_is_read_is_known_by_what_was_read(self, tmp_path):
        path = tmp_path / "log.jsonl"
        path.write_text("1\n2\n")
        source = opened(path)
        reading = source.read(0, Progress(source.name))
        next(reading)
        path.rename(tmp_path / "log.jsonl.1")
        path.write_text("7\n8\n9\n")
        progress = source.advanced(Progress(source.name), [4])
        assert rows(source, source.resume(progress)) == [7, 8, 9]
        path.unlink()
        (tmp_path / "log.jsonl.1").rename(path)
        assert source.resume(progress) is progress

    @pytest.mark.parametrize("ending", ["npy", "npz", "parquet"])
    def test_a_table_that_is_replaced_while_it_is_read_is_known_by_what_was_read(
        self, tmp_path, ending
    ):
        path, old = tmp_path / f"a.{ending}", tmp_path / "old"
        _write_table(path, np.arange(2000.0).reshape(1000, 2))
        source = opened(path)
        reading = source.read(0, Progress(source.key))
        next(reading)
        path.rename(old)
        _write_table(path, np.arange(24.0).reshape(12, 2) + 1)
        next(reading)
        progress = source.advanced(Progress(source.key), [1000])
        assert len(rows(source, source.resume(progress))) == 12
        old.rename(path)
        assert source.resume(progress) is progress

    def test_the_first_bytes_are_known_when_reading_goes_on_within_them(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text("1\n2\n3\n")
        source = opened(path)
        progress = Progress(source.name, position=2)
        assert rows(source, progress) == [2, 3]
        assert source.advanced(progress, [6]).prefixes == ((6, digest(b"1\n2\n3\n")),)

    def test_an_unfinished_last_line_waits(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text('{"a": 1}\n{"a": ')
        assert rows(opened(path)) == [{"a": 1}]
        path.write_text('{"a": 1}\n{"a": 2}')
        assert rows(opened(path)) == [{"a": 1}, {"a": 2}]

    def test_csv_with_and_without_names(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text('name,"long\nname",z\n1,2,3\n4,"5,5",6\n7,8\n')
        (chunk,) = (raw.parsed() for raw in opened(path).read(0, Progress(str(path))))
        assert chunk.names == ("name", "long\nname", "z")
        assert chunk.rows[:2] == [["1", "2", "3"], ["4", "5,5", "6"]]
        assert chunk.bad[2].reason == "expected 3 fields, got 2"
        path.write_text("1,2\n3,4\n")
        (chunk,) = (raw.parsed() for raw in opened(path).read(0, Progress(str(path))))
        assert chunk.names == ("0", "1")
        assert chunk.rows == [["1", "2"], ["3", "4"]]

    def test_the_names_are_known_when_reading_goes_on(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("a,b\n1,2\n3,4\n")
        source = opened(path)
        (chunk,) = (raw.parsed() for raw in source.read(0, Progress(str(path), position=8)))
        assert (chunk.names, chunk.rows) == (("a", "b"), [["3", "4"]])

    def test_a_shorter_file_with_the_same_start_is_refused(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text("1\n" * 50_000)
        source = opened(path)
        assert len(rows(source)) == 50_000
        progress = source.advanced(Progress(source.name), [100_000])
        path.write_text("1\n" * 40_000)
        with pytest.raises(SourceError, match="shorter"):
            source.resume(progress)

    @pytest.mark.parametrize("n_left", [1, 3, 30, 100, 199])
    def test_so_is_a_small_one(self, tmp_path, n_left):
        path = tmp_path / "a.jsonl"
        path.write_text("1\n" * 200)
        source = opened(path)
        assert len(rows(source)) == 200
        progress = source.advanced(Progress(source.name), [400])
        path.write_text("1\n" * n_left)
        with pytest.raises(SourceError, match="shorter"):
            source.resume(progress)
        path.write_text("other\n" * 20)  # another file that is shorter too
        assert len(records(source, source.resume(progress))) == 20

    @pytest.mark.parametrize("n_bytes", [400, 200_000])
    def test_so_are_compressed_files_and_arrays(self, tmp_path, n_bytes):
        n = n_bytes // 2
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b"1\n" * n))
        source = opened(path)
        assert len(rows(source)) == n
        progress = source.advanced(Progress(source.name), [n_bytes])
        path.write_bytes(gzip.compress(b"1\n" * (n - 10)))
        with pytest.raises(SourceError, match="shorter"):
            rows(source, source.resume(progress))
        np.save(tmp_path / "a.npy", np.arange(n * 1.0))
        source = opened(tmp_path / "a.npy")
        assert sum(len(chunk) for chunk in source.read(0, Progress(""))) == n
        progress = source.advanced(Progress(source.name), [n])
        np.save(tmp_path / "a.npy", np.arange(n - 10.0))
        with pytest.raises(SourceError, match="shorter"):
            source.resume(progress)

    @pytest.mark.parametrize(
        "text",
        [
            '[\n  {"a": 1},\n  {"a": 2}\n]\n',
            '\n[\n{"a": 1}\n]\n',
            '[{"a": 1},\n {"a": 2}]\n',
            '[{"a": 1}, {"a": 2}]',
            '{\n  "a": 1\n}\n{\n  "a": 2\n}\n',
            '{"a": 1,\n "b": 2}\n',
        ],
    )
    def test_json_that_is_not_lines_is_refused_with_advice(self, tmp_path, text):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(SourceError, match=r"a\.json.*jq -c"):
            records(opened(tmp_path / "a.json"))
        with pytest.raises(SourceError, match=r"standard input.*jq -c"):
            records(PipeSource(io.BytesIO(text.encode())))

    @pytest.mark.parametrize("first", ["[1, 2", '{"a": 1,', "[1, 2,", "oops"])
    def test_a_first_line_that_is_broken_costs_itself(self, tmp_path, first):
        (tmp_path / "a.json").write_text(f"{first}\n[1, 2]\n[3, 4]\n")
        assert rows(opened(tmp_path / "a.json")) == [None, [1, 2], [3, 4]]

    def test_stray_quotes_lose_no_row(self, tmp_path):
        path = tmp_path / "a.csv"
        rows_of = ['1,5" pipe' if i % 7 == 3 else f"{i},x" for i in range(50)]
        path.write_text("a,b\n" + "\n".join(rows_of) + "\n")
        assert len(records(opened(path))) == 50
        assert all(reason is None for _, _, reason in records(opened(path)))

    def test_a_broken_archive_is_named(self, tmp_path):
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b"1\n" * 100_000)[:-20])
        with pytest.raises(SourceError, match=r"a\.jsonl\.gz"):
            rows(opened(path))
        path.write_bytes(b"nonsense")
        known = Progress(str(path), 4, ((4, digest(b"1\n2\n")),))
        with pytest.raises(SourceError, match=r"a\.jsonl\.gz"):
            opened(path).resume(known)

    @pytest.mark.parametrize("name", ["a.npy", "A.NPY"])
    def test_an_array_that_grew_is_the_same(self, tmp_path, name):
        path = tmp_path / name
        _save_array(path, np.arange(20.0).reshape(10, 2))
        source = opened(path)
        assert len(rows(source)) == 10
        progress = source.advanced(Progress(source.name), [10])
        _save_array(path, np.arange(24.0).reshape(12, 2))
        assert len(rows(source, source.resume(progress))) == 2
        _save_array(path, np.arange(24.0).reshape(12, 2) + 1)
        assert len(rows(source, source.resume(progress))) == 12

    def test_labels_must_be_as_many_as_rows(self, tmp_path):
        np.savez(tmp_path / "b.npz", X=np.eye(3), y=np.zeros(2))
        with pytest.raises(SourceError, match="3 rows and 2 labels"):
            rows(opened(tmp_path / "b.npz"))

    def test_a_matrix_of_labels_becomes_lists_of_its_columns(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]]))
        assert [row[-1] for row in rows(opened(tmp_path / "a.npz"))] == [[0, 2], [], [1]]
        np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.array([["p"], ["q"], ["p"]]))
        assert [row[-1] for row in rows(opened(tmp_path / "a.npz"))] == ["p", "q", "p"]

    @pytest.mark.parametrize("y", [np.full((3, 2), 0.5), np.full((3, 2), "p"), np.zeros((3, 1, 2))])
    def test_other_matrices_of_labels_are_refused(self, tmp_path, y):
        np.savez(tmp_path / "a.npz", X=np.eye(3), y=y)
        with pytest.raises(SourceError, match="one label for each row"):
            rows(opened(tmp_path / "a.npz"))

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
            ("a.parquet", b"nonsense", "not a Parquet file"),
            ("a.xls", b"", "unknown ending"),
            ("a.npy.gz", b"", "unpack it first"),
            ("a.md", b"", "Give the folder"),
            ("a.PNG", b"", "Give the folder"),
        ],
    )
    def test_what_cannot_be_read_is_named(self, tmp_path, name, content, words):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError, match=words):
            rows(opened(tmp_path / name))

    def test_missing_and_doubled_sources(self, tmp_path, monkeypatch):
        with pytest.raises(SourceError, match="no file or folder"):
            opened(tmp_path / "nothing.csv")
        (tmp_path / "a.csv").write_text("1\n")
        (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
        monkeypatch.chdir(tmp_path)
        for other in ("a.csv", "./a.csv", str(tmp_path / "a.csv"), "link.csv"):
            with pytest.raises(SourceError, match="got the same one twice"):
                open_sources(["a.csv", other])
        assert opened("./a.csv").name == "a.csv"


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

    def test_texts_may_be_compressed(self, tmp_path):
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"first"))
        (tmp_path / "b.MD").write_text("second")
        (tmp_path / "c.txt.GZ").write_bytes(gzip.compress(b"third")[:-9])
        got = records(opened(tmp_path))
        assert [row for row, _, _ in got] == ["first", "second", None]
        assert "not a text" in got[2][2]

    def test_what_cannot_be_read_compressed_is_no_source(self, tmp_path):
        (tmp_path / "a.npy.gz").write_bytes(b"")
        (tmp_path / "a.png.gz").write_bytes(b"")
        with pytest.raises(SourceError, match="holds no texts"):
            opened(tmp_path)

    def test_a_folder_of_data_files_is_all_of_them(self, tmp_path):
        (tmp_path / "b.jsonl").write_text("1\n")
        (tmp_path / "a.jsonl").write_text("2\n")
        names = [source.name for source in open_sources([str(tmp_path)])]
        assert names == [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]

    def test_a_text_that_is_not_text_is_bad(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xff")
        ((_, _, reason),) = records(opened(tmp_path))
        assert "not a text" in reason

    def test_a_model_beside_its_data_is_no_data(self, tmp_path):
        for name in ("a.txt", "m.evl", "m.evl.log.jsonl", "m.evl.quarantine.jsonl", "m.evl.lock"):
            (tmp_path / name).write_text("x")
        assert rows(opened(tmp_path)) == ["x"]

    def test_a_folder_of_many_things_is_refused(self, tmp_path):
        (tmp_path / "a.txt").write_text("x")
        (tmp_path / "b.jsonl").write_text("1\n")
        with pytest.raises(SourceError, match=r"holds data files \(\.jsonl\) and texts \(\.txt\)"):
            opened(tmp_path)

    def test_files_are_told_by_name(self, tmp_path):
        (tmp_path / "a.txt").write_text("x")
        source = opened(tmp_path)
        assert source.where(records(source)[0][1]) == "a.txt"

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

    def test_a_new_pipe_is_known_by_its_first_bytes(self):
        """It need not send as much as the one before."""
        old = PipeSource(io.BytesIO(b"".join(b'{"i": %d}\n' % i for i in range(50_000))))
        progress = old.advanced(Progress("-"), [records(old)[-1][1]])
        new = b"".join(b'{"j": %d}\n' % i for i in range(40))

        class Live(io.BytesIO):
            def read(self, n):
                assert self.tell() < len(new), "it would wait"
                return super().read(min(n, 50))

        pipe = PipeSource(Live(new))
        start = pipe.resume(progress)
        assert start.position == 0
        assert next(pipe.read(0, start)).parsed().rows[0] == {"j": 0}

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
        (chunk,) = (raw.parsed() for raw in source.read(0, source.resume(Progress("-"))))
        assert (chunk.names, chunk.rows) == (("a", "b"), [["1", "2"], ["3", "4"]])
        progress = source.advanced(Progress("-"), [8])
        again = PipeSource(io.BytesIO(data), "csv")
        (chunk,) = (raw.parsed() for raw in again.read(0, again.resume(progress)))
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
        rest = batcher.flush()
        assert all(batch_size(batch) == size for batch in batches)
        assert batch_size(rest) < size
        everything = [row for batch in [*batches, rest] for chunk in batch for row in chunk.rows]
        assert everything == list(range(n))


def test_line_sources_know_their_format(tmp_path):
    (tmp_path / "a.txt").write_text("one two\nthree\n")
    source = opened(tmp_path / "a.txt")
    assert isinstance(source, LineSource)
    assert rows(source) == ["one two", "three"]
