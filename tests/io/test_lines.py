"""Sources of lines: JSON lines, CSV and texts in files and pipes."""

import gzip
import io
import json

import pytest

from everlearn.errors import SourceError
from everlearn.io.ledger import Progress, digest
from everlearn.io.lines import PipeSource
from support.sources import opened, records, rows


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

    def test_an_unfinished_last_line_waits(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text('{"a": 1}\n{"a": ')
        assert rows(opened(path)) == [{"a": 1}]
        path.write_text('{"a": 1}\n{"a": 2}')
        assert rows(opened(path)) == [{"a": 1}, {"a": 2}]

    def test_compressed_lines(self, tmp_path):
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b"1\n2\n3\n"))
        source = opened(path)
        assert rows(source) == [1, 2, 3]
        progress = source.advanced(Progress(source.name), [4])
        assert rows(source, source.resume(progress)) == [3]

    def test_a_broken_archive_is_named(self, tmp_path):
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b"1\n" * 100_000)[:-20])
        with pytest.raises(SourceError, match=r"a\.jsonl\.gz"):
            rows(opened(path))
        path.write_bytes(b"nonsense")
        known = Progress(str(path), 4, ((4, digest(b"1\n2\n")),))
        with pytest.raises(SourceError, match=r"a\.jsonl\.gz"):
            opened(path).resume(known)


class TestCsv:
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

    def test_stray_quotes_lose_no_row(self, tmp_path):
        path = tmp_path / "a.csv"
        rows_of = ['1,5" pipe' if i % 7 == 3 else f"{i},x" for i in range(50)]
        path.write_text("a,b\n" + "\n".join(rows_of) + "\n")
        assert len(records(opened(path))) == 50
        assert all(reason is None for _, _, reason in records(opened(path)))


class TestJson:
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
