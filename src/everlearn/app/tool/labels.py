"""The classes of a stream that can be read twice, before anything is learned from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from everlearn.app.tool.kinds import UsageError
from everlearn.app.tool.layout import Layout
from everlearn.app.tool.records import checked_label, field_of, with_form
from everlearn.app.tool.session import Session
from everlearn.runtime.stream.chunks import Chunk
from everlearn.runtime.stream.sources import Source


def classes_in(
    sources: Sequence[Source], session: Session, stop: threading.Event
) -> tuple[str, ...]:
    """All labels that are still to be learned, in order; those found so far if `stop` is set."""
    found: set[str] = set()
    if not all(source.rewinds for source in sources):
        raise UsageError("labels of a pipe are not known in advance; name them by --classes")
    for number, source in enumerate(sources):
        try:
            start = source.resume(session.ledger.of(source.key))
            for chunk in source.read(number, start):
                if stop.is_set():
                    return tuple(sorted(found))
                found.update(_labels_in(chunk, session.layout))
        except (OSError, ValueError) as error:
            error.add_note(source.name)
            raise
    if len(found) < 2:
        raise UsageError(
            f"a classifier needs at least two labels in the field {session.layout.label!r}, "
            f"found {sorted(found)}"
        )
    return tuple(sorted(found))


def _labels_in(chunk: Chunk, layout: Layout) -> Iterator[str]:
    layout, parsed = with_form(chunk, layout), chunk.parsed()
    for i, row in enumerate(parsed.rows):
        if i not in parsed.bad:
            yield from _labels_of(row, chunk.names, layout)


def _labels_of(row: Any, names: tuple[str, ...] | None, layout: Layout) -> list[str]:
    try:
        label = checked_label(field_of(row, layout.label, names), layout)
    except ValueError:
        return []
    return label if isinstance(label, list) else [label]
