"""Sources of rows: NumPy and SciPy files, and Parquet."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal
from urllib.parse import unquote

import numpy as np
from scipy import sparse

from everlearn.io.batches import Chunk
from everlearn.io.formats import ending_of
from everlearn.io.ledger import HEAD, Progress
from everlearn.io.sources import CHUNK, FileSource, SourceError, different_names


@dataclass(slots=True)
class ArraySource(FileSource):
    """A ``.npy`` file, mapped into memory, or a ``.npz`` file; places are numbers of rows.

    A ``.npz`` file holds a sparse table as SciPy writes it, or an array ``X`` and, for learning
    with labels, ``y``, whose entries become the field `label`. If ``y`` is a matrix of 0 and 1, a
    row's label is the list of the columns that are 1.
    """

    label: str = "label"
    _row_bytes: int = field(default=HEAD, init=False, repr=False, compare=False)

    @property
    def _is_mapped(self) -> bool:
        return ending_of(self.name) == ".npy"

    def _head(self, n_bytes: int) -> bytes:
        """First bytes of the rows themselves: the preamble of an array says how many there are."""
        if self._is_mapped:
            return _first_bytes(self._load(self.name)[0], n_bytes)
        return FileSource._head(self, n_bytes)

    def _grows(self) -> bool:
        return self._is_mapped

    def _settled(self, place: int) -> int:
        return place * self._row_bytes

    def resume(self, known: Progress) -> Progress:
        """The place to go on from; an array that is shorter than it was is not the same."""
        progress = FileSource.resume(self, known)
        if self._is_mapped and progress.position > self._load(self.name)[0].shape[0]:
            raise self._shorter()
        return progress

    def _opened(self) -> tuple[Any, Any]:
        """The table and the labels of the file that has the name now, which is then known."""
        if self._is_mapped:
            table, labels = self._load(self.name)
            self._first, self._row_bytes = _first_bytes(table, HEAD), table[:1].nbytes
            return table, labels
        with open(self.name, "rb") as file:
            self._first = file.read(HEAD)
            file.seek(0)
            return self._load(file)

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The rows from there on."""
        table, labels = self._opened()
        if labels is not None and len(labels) != table.shape[0]:
            raise SourceError(f"{self.name!r} has {table.shape[0]} rows and {len(labels)} labels")
        for first in range(start.position, table.shape[0], CHUNK):
            rows: Any = table[first : first + CHUNK]
            n = rows.shape[0]
            names = None
            if labels is not None:
                names = (*(str(i) for i in range(table.shape[1])), self.label)
                given = _listed(labels[first : first + CHUNK])
                rows = [(*row, y) for row, y in zip(rows.tolist(), given, strict=True)]
            yield Chunk(number, rows, range(first + 1, first + n + 1), names)

    def _load(self, file: str | BinaryIO) -> tuple[Any, Any]:
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
            # NumPy's own advice would be to unpickle what may be anything.
            why = "it is no file of numbers" if "pickle" in str(error) else str(error)
            raise SourceError(f"{self.name!r} holds no table of rows: {why}") from error


def _first_bytes(array: Any, n_bytes: int) -> bytes:
    """First bytes of the rows of an array, as many as there are."""
    rows = -(-n_bytes // max(1, array[:1].nbytes))
    return bytes(np.ascontiguousarray(array[:rows]).tobytes()[:n_bytes])


def _rows_of(array: Any, name: str) -> Any:
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise SourceError(
            f"{name!r} must hold rows of numbers, got the shape {array.shape} of {array.dtype}"
        )
    return array


def _labels_of(array: Any, name: str) -> Any:
    """One label a row, or a matrix of 0 and 1 that says which labels each row has."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    indicates = array.ndim == 2 and array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()
    if array.ndim != 1 and not indicates:
        raise SourceError(
            f"'y' in {name!r} must be one label a row, or a matrix of 0 and 1 that says which "
            f"labels each row has, got the shape {array.shape} of {array.dtype}"
        )
    return array


def _listed(labels: Any) -> list[Any]:
    """Labels as records have them: those of a matrix are the numbers of the columns with a 1."""
    if labels.ndim == 1:
        return list(labels.tolist())
    return [np.flatnonzero(row).tolist() for row in labels]


@dataclass(slots=True)
class ParquetSource(FileSource):
    """A Parquet file, read a few rows at a time; places are numbers of rows.

    Below `folder`, parts of the path such as ``year=2026`` are columns, as data sets that are
    split over files have them.
    """

    folder: str | None = None

    @property
    def _partition(self) -> dict[str, Any]:
        """Columns that the path tells."""
        if self.folder is None:
            return {}
        parts = os.path.relpath(os.path.dirname(self.name), self.folder).split(os.sep)
        pairs = [part.split("=", 1) for part in parts if "=" in part]
        return {unquote(name): _told_value(unquote(value)) for name, value in pairs}

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The rows from there on; row groups before them are not read."""
        with _arrow_errors(self.name) as parquet, open(self.name, "rb") as opened:
            self._first = opened.read(HEAD)
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
            told = self._partition
            columns = [column.to_pylist() for column in batch.slice(skip).columns]
            rows = [(*row, *told.values()) for row in zip(*columns, strict=True)]
            names = different_names([*map(str, batch.schema.names), *told])
            yield Chunk(number, rows, range(done + skip + 1, done + n + 1), names)
            skip, done = 0, done + n


def _told_value(text: str) -> int | str | None:
    """A value in a path; nothing is called __HIVE_DEFAULT_PARTITION__ there."""
    if text == "__HIVE_DEFAULT_PARTITION__":
        return None
    return int(text) if text.removeprefix("-").isdecimal() else text


@contextmanager
def _arrow_errors(name: str) -> Iterator[Any]:
    """PyArrow's Parquet module; its errors say which file cannot be read."""
    try:
        from pyarrow import lib, parquet  # noqa: PLC0415
    except ImportError as error:
        raise SourceError(
            "a Parquet file needs pyarrow; pip install 'everlearn[parquet]' brings it"
        ) from error
    try:
        yield parquet
    except lib.ArrowException as error:
        raise SourceError(f"{name!r} is no Parquet file: {error}") from error
