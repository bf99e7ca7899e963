"""Sources of records: the protocol, and what all sources that are one file share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from everlearn.errors import SourceError
from everlearn.io.batches import Chunk
from everlearn.io.ledger import FILE_STEPS, HEAD, Places, Progress, advance, digest

STDIN: Final = "-"
CHUNK: Final = 512
"""Records of a chunk, at most."""


class Source(Protocol):
    """Records that can be read from any place on."""

    @property
    def name(self) -> str:
        """The name that was given, for messages."""

    @property
    def key(self) -> str:
        """Name in the ledger, the same for all spellings of a path."""

    @property
    def rewinds(self) -> bool:
        """Whether it can be read again; False for a pipe."""

    def resume(self, known: Progress) -> Progress:
        """Where to go on: `known`, or the start if the source holds other records than before."""

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The records from `start` on, in chunks with this number as their `source`."""

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """Progress after the records with these places are learned."""

    def is_waiting(self) -> bool:
        """Whether it waits for records to come, and has passed on all that came."""

    def where(self, place: int) -> int | str:
        """A place in the words of messages and logs."""


@dataclass(slots=True)
class FileSource:
    """Base of sources that are one file, which is recognised by its first bytes.

    The first bytes are those of the open file: while it is read, another file may get its name, as
    happens when logs are rotated.
    """

    name: str
    rewinds: bool = True
    _head_read: bytes = field(default=b"", init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Name in the ledger: the path without links and detours."""
        return os.path.realpath(self.name)

    def _head(self, n_bytes: int) -> bytes:
        with open(self.name, "rb") as file:
            return file.read(n_bytes)

    def resume(self, known: Progress) -> Progress:
        """The place to go on from, or the start of another file with the same name."""
        if not known.prefixes:
            return known
        length, wanted = known.prefixes[-1]
        head = self._head(length)
        if digest(head) == wanted:
            return known
        if self._can_grow() and 0 < len(head) < length and not _differs(head, known):
            raise self._shorter_error()
        return Progress(self.key)

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """Progress after the records with these places are learned."""
        place = int(places[-1])
        return advance(progress, place, self._head_read[: self._fixed_bytes(place)], FILE_STEPS)

    def is_waiting(self) -> bool:
        """False: a file never waits."""
        return False

    def where(self, place: int) -> int | str:
        """A place in the words of messages and logs."""
        return place

    def _fixed_bytes(self, place: int) -> int:
        """How many first bytes cannot change any more once this place is reached."""
        return HEAD

    def _can_grow(self) -> bool:
        """Whether records may be appended without a change of what is there."""
        return False

    def _shorter_error(self) -> SourceError:
        return SourceError(
            f"{self.name!r} is shorter than the part that was learned before. If it holds other "
            "records now, rename it"
        )


def _differs(head: bytes, known: Progress) -> bool:
    """Whether a file that is shorter than before also begins differently, by its digests."""
    fitting = [prefix for prefix in known.prefixes if prefix[0] <= len(head)]
    return bool(fitting) and digest(head[: fitting[-1][0]]) != fitting[-1][1]


def different_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of the columns of a table, no two of which may be the same."""
    found = tuple(names)
    if doubled := [name for name, n in Counter(found).items() if n > 1]:
        raise SourceError(f"the columns of a table need different names, got {doubled[0]!r} twice")
    return found
