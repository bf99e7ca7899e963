"""How far each source has been learned, kept in the checkpoint so that no record counts twice.

A source is known by its name and by digests of its first bytes. A file that begins differently than
before is another file and is read from its start. Of a file that has grown, the new part is read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.errors import CheckpointError
from everlearn.io.dialects import Dialect

HEAD: Final = 1 << 16
"""First bytes of a source that are compared with those of the last run, at most."""
MAX_SOURCES: Final = 10_000
"""Sources that are remembered. The one that was not read for longest is forgotten first."""
Marks = NDArray[np.uint64]
Places: TypeAlias = Sequence[int] | IntVec
"""Where to continue after each record."""
PIPE_STEPS: Final = (1 << 8, 1 << 10, 1 << 12, 1 << 14)
"""Lengths of digested prefixes: a new pipe is recognised before all of its head has come."""
FILE_STEPS: Final = (1 << 4, 1 << 6, *PIPE_STEPS)
"""Lengths of digested prefixes: a file that was cut short differs from another shorter file."""


def digest(head: bytes) -> str:
    """Digest of the first bytes of a source."""
    return hashlib.sha256(head).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """How far one source has been learned.

    Attributes
    ----------
    name : `Source.key`
    position : bytes, rows or files learned
    prefixes : (length, digest) of the first bytes, for increasing lengths up to `HEAD`
    done : marks of the learned files of a folder, sorted
    dialect : how its lines are written, as the first ones showed; None if it has no lines
    learned : good records of it that were learned, ever
    """

    name: str
    position: int = 0
    prefixes: tuple[tuple[int, str], ...] = ()
    done: Marks = field(default_factory=lambda: np.empty(0, np.uint64))
    dialect: Dialect | None = None
    learned: int = 0

    def with_done(self, marks: Places) -> Progress:
        """Progress after more files of a folder are learned."""
        new = np.union1d(self.done, np.fromiter(marks, np.uint64))
        return replace(self, done=new, position=len(new))


@dataclass(frozen=True, slots=True)
class Ledger:
    """Progress of all sources by key, and counts of batches, good records and bad records."""

    sources: Mapping[str, Progress] = field(default_factory=dict)
    batches: int = 0
    records: int = 0
    bad: int = 0

    def of(self, name: str) -> Progress:
        """Progress of one source, which may be new."""
        return self.sources.get(name) or Progress(name)

    def with_keys(self, keys: Iterable[str]) -> Ledger:
        """The ledger with these sources under their keys. Old versions kept the names as typed."""
        wanted = set(keys) - set(self.sources)
        sources: dict[str, Progress] = {}
        for name, progress in self.sources.items():
            key = os.path.realpath(name) if wanted else name
            key = key if key in wanted else name
            sources[key] = replace(progress, name=key)
        return replace(self, sources=sources)

    def after(self, updates: Iterable[Progress], records: int, bad: int) -> Ledger:
        """The ledger after one more batch, with the new progress of its sources."""
        sources = dict(self.sources)
        for progress in updates:
            sources.pop(progress.name, None)
            sources[progress.name] = progress
        for name in list(sources)[: max(0, len(sources) - MAX_SOURCES)]:
            del sources[name]
        return Ledger(sources, self.batches + 1, self.records + records, self.bad + bad)

    def read_as(self, names: Set[str], encoding: str | None, decimal: str | None) -> Ledger:
        """The ledger with a new encoding or decimal mark for the rest of `names`. None keeps it."""
        sources = dict(self.sources)
        for name in names & sources.keys():
            if (dialect := sources[name].dialect) is not None:
                dialect = replace(
                    dialect,
                    encoding=encoding or dialect.encoding,
                    decimal=decimal or dialect.decimal,
                )
                sources[name] = replace(sources[name], dialect=dialect)
        return replace(self, sources=sources)

    def without(self, names: Collection[str]) -> Ledger:
        """The ledger as if some sources had never been read."""
        return replace(self, sources={k: p for k, p in self.sources.items() if k not in names})

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The ledger as JSON and arrays."""
        listed = list(self.sources.values())
        header = {
            "sources": [
                [p.name, p.position, [list(x) for x in p.prefixes], _plain(p.dialect), p.learned]
                for p in listed
            ],
            "batches": self.batches,
            "records": self.records,
            "bad": self.bad,
        }
        arrays: dict[str, NDArray[Any]] = {
            f"done/{i}": p.done for i, p in enumerate(listed) if len(p.done)
        }
        return header, arrays

    @classmethod
    def from_checkpoint(
        cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Ledger:
        """Inverse of `to_checkpoint`; a CheckpointError if it is no ledger."""
        sources: dict[str, Progress] = {}
        for i, row in enumerate(_checked_rows(header)):
            done = arrays.get(f"done/{i}", np.empty(0, np.uint64))
            if done.dtype != np.uint64 or done.ndim != 1 or (done[1:] <= done[:-1]).any():
                raise CheckpointError(f"member 'done/{i}' must be ascending marks of files")
            prefixes = tuple((int(length), str(text)) for length, text in row[2])
            dialect = Dialect.from_json(row[3]) if row[3] else None
            sources[row[0]] = Progress(row[0], row[1], prefixes, done, dialect, row[4])
        counts = [header.get(key) for key in ("batches", "records", "bad")]
        if not all(type(c) is int and c >= 0 for c in counts):
            raise CheckpointError(f"the ledger's counts must be numbers from 0, got {counts}")
        return cls(sources, *(int(c) for c in counts if c is not None))


def advance(
    progress: Progress, position: int, head: bytes, steps: Sequence[int] = PIPE_STEPS
) -> Progress:
    """Progress at a later position of a source that begins with `head`.

    Digests are kept of the first `HEAD` bytes and of prefixes of the lengths `steps`.
    """
    known = progress.prefixes[-1][0] if progress.prefixes else 0
    if known < min(HEAD, len(head)):
        lengths = [*(n for n in steps if n < len(head)), min(HEAD, len(head))]
        prefixes = tuple((n, digest(head[:n])) for n in lengths)
        return replace(progress, position=position, prefixes=prefixes)
    return replace(progress, position=position)


def _plain(dialect: Dialect | None) -> list[Any]:
    return [] if dialect is None else dialect.to_json()


def _checked_rows(header: Mapping[str, Any]) -> list[tuple[str, int, list[Any], list[Any], int]]:
    rows = header.get("sources")
    kinds = [str, int, list, list, int]
    if not isinstance(rows, list) or len(rows) > MAX_SOURCES:
        raise CheckpointError("the ledger's 'sources' must be a list")
    for row in rows:
        fits = isinstance(row, list) and [type(v) for v in row] == kinds
        if not fits or row[1] < 0 or row[4] < 0 or not all(_is_prefix(prefix) for prefix in row[2]):
            raise CheckpointError(f"a source of the ledger must be {kinds}, got {str(row)[:80]}")
    return [tuple(row) for row in rows]


def _is_prefix(prefix: Any) -> bool:
    fits = isinstance(prefix, list) and [type(v) for v in prefix] == [int, str]
    return fits and 0 < prefix[0] <= HEAD
