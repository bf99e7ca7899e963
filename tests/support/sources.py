"""Read all records of a source, for tests of sources."""

from everlearn.io.ledger import Progress
from everlearn.io.opening import open_sources


def records(source, start=None):
    """(row, place, reason) of each record."""
    out = []
    for raw in source.read(0, start or Progress(source.name)):
        chunk = raw.parsed()
        for i, place in enumerate(chunk.places):
            row = None if i in chunk.bad else chunk.rows[i]
            out.append((row, place, chunk.bad[i].reason if i in chunk.bad else None))
    return out


def rows(source, start=None):
    return [row for row, _, _ in records(source, start)]


def opened(path, **kwargs):
    (source,) = open_sources([str(path)], **kwargs)
    return source
