"""Folders whose files are records."""

import gzip

from everlearn.io.ledger import Progress
from support.sources import opened, records, rows


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

    def test_a_text_that_is_not_text_is_bad(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xff")
        ((_, _, reason),) = records(opened(tmp_path))
        assert "not a text" in reason

    def test_a_model_beside_its_data_is_no_data(self, tmp_path):
        for name in ("a.txt", "m.evl", "m.evl.log.jsonl", "m.evl.quarantine.jsonl", "m.evl.lock"):
            (tmp_path / name).write_text("x")
        assert rows(opened(tmp_path)) == ["x"]

    def test_messages_name_the_file(self, tmp_path):
        (tmp_path / "a.txt").write_text("x")
        source = opened(tmp_path)
        assert source.where(records(source)[0][1]) == "a.txt"
