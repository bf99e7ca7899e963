"""Copy this to begin a source: the rows of a table in a SQLite file, complete in one file.

A source gives records from any place on, and says how far they are learned. `everlearn learn` saves
that place with the model, so that each record is learned exactly once.
`tests/test_skeleton_source.py` learns from this source.

In the package, a source lies in `src/everlearn/io/`, and `io/opening.py` says which names stand for
it. `everlearn.io.sources.Source` lists the methods.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from everlearn.io.batches import Chunk
from everlearn.io.ledger import Places, Progress
from everlearn.io.sources import CHUNK


@dataclass(frozen=True, slots=True)
class SQLiteSource:
    """The rows of a table that only grows, by rowid. The columns are the fields of a record.

    A place is the rowid of the last row that is learned, so rows that are added later are learned
    in the next run. Rows that are changed or deleted later are not noticed.
    """

    path: str
    table: str
    rewinds: bool = True  # what was read once can be read again

    @property
    def name(self) -> str:
        """The name that logs and reports show."""
        return f"{self.path}:{self.table}"

    @property
    def key(self) -> str:
        """The name under which the place is saved. It is the same for all spellings of the path."""
        return f"{os.path.realpath(self.path)}:{self.table}"

    def resume(self, known: Progress) -> Progress:
        """Where to go on. A source that can be replaced by another one returns the start then."""
        return known

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The records after `start`, in chunks of bounded size that carry `number`."""
        table = self.table.replace('"', '""')
        query = f'SELECT rowid, * FROM "{table}" WHERE rowid > ? ORDER BY rowid'
        with closing(
            sqlite3.connect(f"{Path(self.path).resolve().as_uri()}?mode=ro", uri=True)
        ) as db:
            cursor = db.execute(query, (start.position,))
            names = tuple(column[0] for column in cursor.description[1:])
            while found := cursor.fetchmany(CHUNK):
                places = [rowid for rowid, *_ in found]
                yield Chunk(number, [row[1:] for row in found], places, names)

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """The place after the records with these places are learned."""
        return replace(progress, position=int(places[-1]))

    def is_waiting(self) -> bool:
        """Whether all records that have arrived are passed on. A file never waits for more."""
        return False

    def where(self, place: int) -> str:
        """A place in words, for records that are set aside."""
        return f"rowid {place}"
