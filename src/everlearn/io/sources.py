"""Where records come from: what every source can do, and which one a name stands for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from everlearn.io.batches import Chunk
from everlearn.io.ledger import FILE_STEPS, HEAD, Places, Progress, advanced_by, digest

STDIN: Final = "-"
CHUNK: Final = 512
"""Records that are read at a time, at most."""


class SourceError(ValueError):
    """A source that cannot be read at all, as opposed to a bad record within one."""


class Source(Protocol):
    """Records that can be read from any place on."""

    @property
    def name(self) -> str:
        """What the source is called on the command line."""

    @property
    def key(self) -> str:
        """What its place is kept under, which is the same however the source is called."""

    @property
    def rewinds(self) -> bool:
        """Whether what was read once can be read again."""

    def resume(self, known: Progress) -> Progress:
        """Where to go on: `known`, or the start if this is not the source that it was."""

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The records from there on, in chunks that carry `number`."""

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """After the records with these places are learned."""

    def is_waiting(self) -> bool:
        """Whether nothing has come that is not passed on."""

    def where(self, place: int) -> int | str:
        """How a place is told to people."""


@dataclass(slots=True)
class FileSource:
    """What all sources that are one file have in common: they are known by their first bytes.

    While one is read, another file may take its name, as those who rotate logs do: what it is known
    by are therefore the first bytes of the file that is open.
    """

    name: str
    rewinds: bool = True
    _first: bytes = field(default=b"", init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """What its place is kept under: the path without links and detours."""
        return os.path.realpath(self.name)

    def _head(self, n_bytes: int) -> bytes:
        with open(self.name, "rb") as file:
            return file.read(n_bytes)

    def resume(self, known: Progress) -> Progress:
        """The place to go on from, or the start of another file of the same name."""
        if not known.prefixes:
            return known
        length, wanted = known.prefixes[-1]
        head = self._head(length)
        if digest(head) == wanted:
            return known
        if self._grows() and 0 < len(head) < length and not _differs(head, known):
            raise self._shorter()
        return Progress(self.key)

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """After the records with these places are learned."""
        place = int(places[-1])
        return advanced_by(progress, place, self._first[: self._settled(place)], FILE_STEPS)

    def is_waiting(self) -> bool:
        """Whether nothing has come that is not passed on: a file never waits."""
        return False

    def where(self, place: int) -> int | str:
        """How a place is told to people."""
        return place

    def _settled(self, place: int) -> int:
        """First bytes that will be the same when the file is read again after this place."""
        return HEAD

    def _grows(self) -> bool:
        """Whether records may be added at the end, which leaves all before them as it was."""
        return False

    def _shorter(self) -> SourceError:
        return SourceError(
            f"{self.name!r} is shorter than what was learned from it before; if it holds other "
            "records now, give it another name"
        )


def _differs(head: bytes, known: Progress) -> bool:
    """Whether a file that is shorter than it was begins differently, as far as that is known."""
    fitting = [prefix for prefix in known.prefixes if prefix[0] <= len(head)]
    return bool(fitting) and digest(head[: fitting[-1][0]]) != fitting[-1][1]


def different_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of columns, no two of which may be the same: nobody could say which is meant."""
    found = tuple(names)
    if doubled := [name for name, n in Counter(found).items() if n > 1]:
        raise SourceError(f"the columns of a table need different names, got {doubled[0]!r} twice")
    return found


def is_folder(name: str) -> bool:
    """Whether a name stands for a folder that is there; a name that stands for nothing raises."""
    if name != STDIN and not Path(name).exists():
        raise SourceError(f"there is no file or folder {name!r}")
    return name != STDIN and Path(name).is_dir()
