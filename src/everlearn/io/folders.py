"""Folders in which each file is one record: a text or an image."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everlearn.io.batches import MAX_REASON, BadRecord, Chunk, ImageFile
from everlearn.io.encodings import UTF8, decoded
from everlearn.io.formats import TEXTS, ending_of, is_packed
from everlearn.io.ledger import Places, Progress
from everlearn.io.lock import COMPANIONS
from everlearn.io.sources import CHUNK


def mark(name: str) -> int:
    """A number that stands for a file of a folder, the same in all runs and on all machines."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "little")


def files_below(folder: str) -> list[str]:
    """Names of all visible files in a folder and its subfolders, relative to it, sorted."""
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        base = os.path.relpath(where, folder)
        found += [os.path.normpath(os.path.join(base, n)) for n in names if n[0] != "."]
    every = set(found)
    return sorted(name for name in found if not _is_companion(name, every))


def _is_companion(name: str, others: set[str]) -> bool:
    """Whether a file is the log, quarantine or lock of a model in the same folder.

    A run that is killed before its first checkpoint leaves no model, but its lock beside the logs.
    """
    for ending in (*COMPANIONS, ".lock"):
        if name.endswith(ending):
            model = name.removesuffix(ending)
            return not others.isdisjoint({model, f"{model}.lock"})
    return False


@dataclass(slots=True)
class FolderSource:
    """A folder in which each file with one of `endings` is a record: a text, or an `ImageFile`.

    A file is known by its name and learned once. Files that are added later are found.
    """

    name: str
    endings: frozenset[str]
    encoding: str = UTF8
    rewinds: bool = True
    _names: dict[int, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name in the ledger: the path without links and detours."""
        return os.path.realpath(self.name)

    def resume(self, known: Progress) -> Progress:
        """`known` as it is: names say which files are new."""
        return known

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The files that were not learned yet."""
        names = [n for n in files_below(self.name) if ending_of(n) in self.endings]
        self._names = {mark(name): name for name in names}
        marks = np.array([mark(name) for name in names], np.uint64)
        new = np.flatnonzero(~np.isin(marks, start.done))
        size = CHUNK if self.endings & TEXTS else 16
        for first in range(0, len(new), size):
            picked = new[first : first + size]
            rows, bad = self._rows([names[i] for i in picked])
            yield Chunk(number, rows, [int(m) for m in marks[picked]], None, bad)

    def _rows(self, names: Sequence[str]) -> tuple[list[Any], dict[int, BadRecord]]:
        paths = [os.path.join(self.name, name) for name in names]
        if not self.endings & TEXTS:
            return [ImageFile(path) for path in paths], {}
        rows, bad = [], {}
        for i, path in enumerate(paths):
            try:
                rows.append(_text_of(path, self.encoding))
            except (OSError, EOFError, zlib.error, ValueError) as error:
                bad[i] = BadRecord(f"not a text: {error}"[:MAX_REASON], path)
                rows.append("")
        return rows, bad

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """Progress after these files are learned."""
        return progress.with_done(places)

    def is_waiting(self) -> bool:
        """False: files are there at once."""
        return False

    def where(self, place: int) -> str:
        """The name of the file."""
        return self._names.get(place, str(place))


def _text_of(path: str, encoding: str) -> str:
    with gzip.open(path) if is_packed(path) else open(path, "rb") as file:
        data = file.read()
    return decoded(data, encoding).replace("\r\n", "\n").replace("\r", "\n")
