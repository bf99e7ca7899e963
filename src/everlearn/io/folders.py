"""Folders whose files are records: texts or images."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.io.batches import Bad, Chunk, ImageFile
from everlearn.io.formats import TEXTS, ending_of, is_packed
from everlearn.io.ledger import Places, Progress
from everlearn.io.lock import COMPANIONS
from everlearn.io.sources import CHUNK


def mark(name: str) -> int:
    """A number for a file of a folder by its name, the same at all times and on all machines."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "little")


def files_below(folder: str) -> list[str]:
    """Names of all files in a folder and below it, relative to it, in order; hidden ones not."""
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        base = os.path.relpath(where, folder)
        found += [os.path.normpath(os.path.join(base, n)) for n in names if n[0] != "."]
    every = set(found)
    return sorted(name for name in found if not _is_companion(name, every))


def _is_companion(name: str, others: set[str]) -> bool:
    """Whether a file is the log, quarantine or lock of a model, which its lock is a sign of too.

    A run that is killed before its first checkpoint leaves these and no model.
    """
    for ending in (*COMPANIONS, ".lock"):
        if name.endswith(ending):
            model = name.removesuffix(ending)
            return not others.isdisjoint({model, f"{model}.lock"})
    return False


@dataclass(slots=True)
class FolderSource:
    """Each file with one of these endings is a record: a text, or an `ImageFile`.

    A file is known by its name and learned once; files that are added later are found.
    """

    name: str
    endings: frozenset[str]
    rewinds: bool = True
    _names: dict[int, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What its places are kept under: the path without links and detours."""
        return os.path.realpath(self.name)

    def resume(self, known: Progress) -> Progress:
        """What was learned of the folder."""
        return known

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The files that are not learned yet."""
        names = [n for n in files_below(self.name) if ending_of(n) in self.endings]
        self._names = {mark(name): name for name in names}
        marks = np.array([mark(name) for name in names], np.uint64)
        new = np.flatnonzero(~np.isin(marks, start.done))
        size = CHUNK if self.endings & TEXTS else 16
        for first in range(0, len(new), size):
            picked = new[first : first + size]
            rows, bad = self._rows([names[i] for i in picked])
            yield Chunk(number, rows, [int(m) for m in marks[picked]], None, bad)

    def _rows(self, names: Sequence[str]) -> tuple[list[Any], dict[int, Bad]]:
        paths = [os.path.join(self.name, name) for name in names]
        if not self.endings & TEXTS:
            return [ImageFile(path) for path in paths], {}
        rows, bad = [], {}
        for i, path in enumerate(paths):
            try:
                rows.append(_text_of(path))
            except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
                bad[i] = Bad(f"not a text: {error}"[:200], path)
                rows.append("")
        return rows, bad

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """After these files are learned."""
        return progress.with_done(places)

    def is_waiting(self) -> bool:
        """Whether nothing has come that is not passed on: a folder never waits."""
        return False

    def where(self, place: int) -> str:
        """The name of the file, which is what people know it by."""
        return self._names.get(place, str(place))


def _text_of(path: str) -> str:
    if is_packed(path):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return file.read()
    return Path(path).read_text("utf-8")
