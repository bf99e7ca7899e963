"""Logs of JSON lines, and what a crash leaves of them."""

import pytest

from everlearn.io.log import BatchLog, read_log


class TestLogs:
    def test_lines_of_batches_that_are_lost_are_cut(self, tmp_path):
        path = tmp_path / "log.jsonl"
        with BatchLog(path, 0) as log:
            for batch in range(1, 2001):
                log.write({"batch": batch, "n": batch, "pad": "x" * 100})
        with open(path, "ab") as file:
            file.write(b'{"batch": 2001, "torn')
        with BatchLog(path, 1990) as log:
            log.write({"batch": 1991, "again": True})
        lines = list(read_log(path))
        assert [line["batch"] for line in lines] == list(range(1, 1992))
        assert lines[-1] == {"batch": 1991, "again": True}

    @pytest.mark.parametrize("last", [0, 1, 3, 7])
    def test_cutting_alone(self, tmp_path, last):
        path = tmp_path / "log.jsonl"
        with BatchLog(path, 0) as log:
            for batch in (1, 1, 3, 5):
                log.write({"batch": batch})
        with BatchLog(path, last) as log:
            log.cut()
        assert [line["batch"] for line in read_log(path)] == [b for b in (1, 1, 3, 5) if b <= last]

    def test_no_line_no_file(self, tmp_path):
        with BatchLog(tmp_path / "none", 3) as log:
            log.cut()
        assert not (tmp_path / "none").exists()
        assert list(read_log(tmp_path / "none")) == []
