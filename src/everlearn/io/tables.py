"""Sources of rows: NumPy and SciPy files, and Parquet."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, TypeAlias
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.errors import SourceError
from everlearn.io.batches import Chunk
from everlearn.io.formats import ending_of
from everlearn.io.ledger import HEAD, Progress
from everlearn.io.sources import CHUNK, FileSource, different_names

Table: TypeAlias = Any
"""An array of rows, or a sparse table."""


@dataclass(slots=True)
class ArraySource(FileSource):
    """A ``.npy`` file, which is mapped into memory, or a ``.npz`` file. Places count rows.

    A ``.npz`` file holds a sparse table as SciPy writes it, or an array ``X`` and perhaps labels
    ``y``, which become the field `label`. If ``y`` is a matrix of 0 and 1, the label of a row is
    the list of the columns that are 1.
    """

    label: str = "label"
    _row_bytes: int = field(default=HEAD, init=False, repr=False, compare=False)

    @property
    def _is_mapped(self) -> bool:
        return ending_of(self.name) == ".npy"

    def _head(self, n_bytes: int) -> bytes:
        """First bytes of the rows: the header before them changes when rows are appended."""
        if self._is_mapped:
            return _first_bytes(self._load(self.name)[0], n_bytes)
        return FileSource._head(self, n_bytes)

    def _can_grow(self) -> bool:
        return self._is_mapped

    def _fixed_bytes(self, place: int) -> int:
        return place * self._row_bytes

    def resume(self, known: Progress) -> Progress:
        """The place to go on from; an array with fewer rows than before is an error."""
        progress = FileSource.resume(self, known)
        if self._is_mapped and progress.position > self._load(self.name)[0].shape[0]:
            raise self._shorter_error()
        return progress

    def _open(self) -> tuple[Table, NDArray[Any] | None]:
        """The table and the labels of the file, whose first bytes are remembered."""
        if self._is_mapped:
            table, labels = self._load(self.name)
            self._head_read, self._row_bytes = _first_bytes(table, HEAD), table[:1].nbytes
            return table, labels
        with open(self.name, "rb") as file:
            self._head_read = file.read(HEAD)
            file.seek(0)
            return self._load(file)

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The rows from there on."""
        table, labels = self._open()
        if labels is not None and len(labels) != table.shape[0]:
            raise SourceError(f"{self.name!r} has {table.shape[0]} rows and {len(labels)} labels")
        for first in range(start.position, table.shape[0], CHUNK):
            rows: Any = table[first : first + CHUNK]
            n = rows.shape[0]
            names = None
            if labels is not None:
                names = (*(str(i) for i in range(table.shape[1])), self.label)
                given = _label_list(labels[first : first + CHUNK])
                rows = [(*row, y) for row, y in zip(rows.tolist(), given, strict=True)]
            yield Chunk(number, rows, range(first + 1, first + n + 1), names)

    def _load(self, file: str | BinaryIO) -> tuple[Table, NDArray[Any] | None]:
        try:
            mapped: Literal["r"] | None = "r" if isinstance(file, str) else None
            loaded = np.load(file, mmap_mode=mapped, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return _rows_of(loaded, self.name), None
            with loaded:
                if "X" in loaded:
                    labels = _labels_of(loaded["y"], self.name) if "y" in loaded else None
                    return _rows_of(loaded["X"], self.name), labels
            if not isinstance(file, str):
                file.seek(0)
            return sparse.csr_array(sparse.load_npz(file)), None
        except SourceError:
            raise
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            # NumPy's own message would advise to unpickle the file, which may run any code.
            why = "not a file of numbers" if "pickle" in str(error) else str(error)
            raise SourceError(f"{self.name!r} holds no table of rows: {why}") from error


def _first_bytes(array: NDArray[Any], n_bytes: int) -> bytes:
    """First bytes of the rows of an array, fewer if it is small."""
    rows = -(-n_bytes // max(1, array[:1].nbytes))
    return bytes(np.ascontiguousarray(array[:rows]).tobytes()[:n_bytes])


def _rows_of(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise SourceError(
            f"{name!r} must hold a table of numbers, got shape {array.shape} and type {array.dtype}"
        )
    return array


def _labels_of(array: NDArray[Any], name: str) -> NDArray[Any]:
    """One label for each row, or a matrix of 0 and 1."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    indicates = array.ndim == 2 and array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()
    if array.ndim != 1 and not indicates:
        raise SourceError(
            f"'y' in {name!r} must have one label for each row, or be a matrix of 0 and 1, got "
            f"shape {array.shape} and type {array.dtype}"
        )
    return array


def _label_list(labels: NDArray[Any]) -> list[Any]:
    """Labels as records have them; a row of a matrix becomes the list of its columns with a 1."""
    if labels.ndim == 1:
        return list(labels.tolist())
    return [np.flatnonzero(row).tolist() for row in labels]


@dataclass(slots=True)
class ParquetSource(FileSource):
    """A Parquet file. Places count rows.

    Parts of the path below `folder`, such as ``year=2026``, are columns: data sets split over
    files are written like that.
    """

    folder: str | None = None

    @property
    def _path_columns(self) -> dict[str, Any]:
        """Columns that are parts of the path."""
        if self.folder is None:
            return {}
        parts = os.path.relpath(os.path.dirname(self.name), self.folder).split(os.sep)
        pairs = [part.split("=", 1) for part in parts if "=" in part]
        return {unquote(name): _path_value(unquote(value)) for name, value in pairs}

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The rows from there on. Row groups before them are skipped unread."""
        with _arrow_errors(self.name) as parquet, open(self.name, "rb") as opened:
            self._head_read = opened.read(HEAD)
            file = parquet.ParquetFile(opened)
            done = 0
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if done + size > start.position:
                    skip = max(0, start.position - done)
                    yield from self._group(file, group, number, done, skip)
                done += size

    def _group(self, file: Any, group: int, number: int, done: int, skip: int) -> Iterator[Chunk]:
        for batch in file.iter_batches(batch_size=CHUNK, row_groups=[group]):
            n = batch.num_rows
            if skip >= n:
                skip, done = skip - n, done + n
                continue
            path_columns = self._path_columns
            columns = [column.to_pylist() for column in batch.slice(skip).columns]
            rows = [(*row, *path_columns.values()) for row in zip(*columns, strict=True)]
            names = different_names([*map(str, batch.schema.names), *path_columns])
            yield Chunk(number, rows, range(done + skip + 1, done + n + 1), names)
            skip, done = 0, done + n


def _path_value(text: str) -> int | str | None:
    """A value in a path; __HIVE_DEFAULT_PARTITION__ stands for a missing one."""
    if text == "__HIVE_DEFAULT_PARTITION__":
        return None
    return int(text) if text.removeprefix("-").isdecimal() else text


@contextmanager
def _arrow_errors(name: str) -> Iterator[Any]:
    """PyArrow's Parquet module. Its errors in the block name the file."""
    try:
        from pyarrow import lib, parquet  # noqa: PLC0415
    except ImportError as error:
        raise SourceError(
            "Parquet files need pyarrow; install it with: pip install 'everlearn[parquet]'"
        ) from error
    try:
        yield parquet
    except lib.ArrowException as error:
        raise SourceError(f"{name!r} is not a Parquet file: {error}") from error
