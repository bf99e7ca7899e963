"""Sources recognise a file by its first bytes: grown, replaced and shorter files."""

import gzip

import numpy as np
import pytest

from everlearn.errors import SourceError
from everlearn.io.ledger import Progress, digest
from support.sources import opened, records, rows


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
    """Save under exactly this name. Given a path, `np.save` would append ".npy" to ".NPY"."""
    with open(path, "wb") as file:
        np.save(file, array)


class TestGrown:
    def test_a_grown_file_is_continued_and_a_replaced_one_is_read_from_the_start(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text("1\n2\n")
        source = opened(path)
        assert rows(source) == [1, 2]
        progress = source.advanced(Progress(source.name), [4])
        path.write_text("1\n2\n3\n")
        assert rows(source, source.resume(progress)) == [3]
        path.write_text("7\n8\n9\n")
        assert rows(source, source.resume(progress)) == [7, 8, 9]

    @pytest.mark.parametrize("name", ["a.npy", "A.NPY"])
    def test_a_grown_array_is_continued(self, tmp_path, name):
        path = tmp_path / name
        _save_array(path, np.arange(20.0).reshape(10, 2))
        source = opened(path)
        assert len(rows(source)) == 10
        progress = source.advanced(Progress(source.name), [10])
        _save_array(path, np.arange(24.0).reshape(12, 2))
        assert len(rows(source, source.resume(progress))) == 2
        _save_array(path, np.arange(24.0).reshape(12, 2) + 1)
        assert len(rows(source, source.resume(progress))) == 12


class TestReplaced:
    def test_a_file_replaced_during_reading_is_recognised_by_the_bytes_read(self, tmp_path):
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
    def test_a_table_replaced_during_reading_is_recognised_by_the_bytes_read(
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

    def test_the_first_bytes_are_hashed_even_if_reading_continues_within_them(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text("1\n2\n3\n")
        source = opened(path)
        progress = Progress(source.name, position=2)
        assert rows(source, progress) == [2, 3]
        assert source.advanced(progress, [6]).prefixes == ((6, digest(b"1\n2\n3\n")),)


class TestShorter:
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
    def test_a_shorter_small_file_is_refused(self, tmp_path, n_left):
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
    def test_shorter_compressed_files_and_arrays_are_refused(self, tmp_path, n_bytes):
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
