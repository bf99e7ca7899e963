"""Sources of rows: NumPy, SciPy and Parquet files."""

import numpy as np
import pytest
from scipy import sparse

from everlearn.errors import SourceError
from everlearn.io.ledger import Progress
from everlearn.stream.session import Session
from support.sources import opened, records, rows


class TestArrays:
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


class TestParquet:
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

    def test_parts_of_a_path_are_columns(self, tmp_path, invoke):
        arrow, parquet = (pytest.importorskip(f"pyarrow{m}") for m in ("", ".parquet"))
        rng = np.random.default_rng(0)
        for year, kind in ((2025, "a"), (2026, "b%20c")):
            folder = tmp_path / "data" / f"year={year}" / f"label={kind}"
            folder.mkdir(parents=True)
            parquet.write_table(arrow.table({"x": rng.normal(size=30)}), folder / "part.parquet")
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "data", "--kind", "classifier")
        assert result.exit_code == 0, result.stderr
        layout = Session.load(tmp_path / "m.evl").layout
        assert layout.columns == ("x", "year")
        assert layout.classes == ("a", "b c")
