"""A report card on forgetting: how well old records are explained now, and when they were learned.

Some batches are scored right after they are learned (`Pace.score_every`), and the run log keeps the
score. An audit reads the same records again and scores them with the model as it is today.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.errors import UsageError
from everlearn.io.log import read_log
from everlearn.io.sources import STDIN, Source
from everlearn.stream.learn import log_path, score_of
from everlearn.stream.predict import batches_of
from everlearn.stream.prepared import Prepared, joined
from everlearn.stream.session import Session


@dataclass(frozen=True, slots=True)
class Mark:
    """One batch that was scored: when it was learned, and its score then and now."""

    batch: int
    time: str
    records: int
    then: float
    now: float

    @property
    def change(self) -> float:
        """What was lost is negative."""
        return self.now - self.then


@dataclass(frozen=True, slots=True)
class ReportCard:
    """All the marks, oldest first."""

    marks: tuple[Mark, ...]

    @property
    def mean_change(self) -> float:
        """Mean change of the score; 0 means that nothing was forgotten."""
        return float(np.mean([m.change for m in self.marks]))

    @property
    def worst(self) -> Mark:
        """The batch that lost most."""
        return min(self.marks, key=lambda m: m.change)

    @property
    def forgotten(self) -> float:
        """Mean of what was lost, batches that gained counting as 0."""
        return float(np.mean([max(0.0, -m.change) for m in self.marks]))


def audited(path: Path, session: Session, sources: Sequence[Source]) -> ReportCard:
    """The report card of a model on the records that it has learned."""
    lines = [line for line in read_log(log_path(path)) if "score_after" in line]
    scored = {line["batch"]: line for line in lines if _has_score(line)}
    if not scored:
        why = "none of the batches could be scored" if lines else "learn with --score-every above 0"
        raise UsageError(f"the log of {str(path)!r} holds no scores: {why}")
    marks = sorted(_marks(session, sources, scored), key=lambda mark: mark.batch)
    if not marks:
        raise UsageError("none of the scored batches is in these sources")
    return ReportCard(tuple(marks))


def _has_score(line: dict[str, Any]) -> bool:
    return isinstance(line.get("score_after"), float) and isinstance(line.get("places"), dict)


def _marks(
    session: Session, sources: Sequence[Source], scored: dict[int, dict[str, Any]]
) -> Iterator[Mark]:
    """The scored batches, put together again from records found by source and place."""
    owner = {  # older logs have sources as they were called
        (name if name == STDIN else os.path.realpath(name), place): number
        for number, line in scored.items()
        for name, places in line["places"].items()
        for place in places
    }
    waiting: dict[int, list[Prepared]] = {}
    for batch in batches_of(session, sources, labelled=True):
        found: dict[int, list[int]] = {}
        for i, origin in enumerate(batch.origins):
            number = _number(owner, sources[origin.source].key, origin.place)
            if number is not None:
                found.setdefault(number, []).append(i)
        for number, rows in found.items():
            parts = waiting.setdefault(number, [])
            parts.append(batch.taken(rows))
            line = scored[number]
            if sum(len(p) for p in parts) == sum(len(p) for p in line["places"].values()):
                whole = joined(waiting.pop(number))
                now = score_of(session.model, whole)
                if now is not None:
                    yield Mark(number, line["time"], len(whole), line["score_after"], now)


def _number(owner: dict[tuple[str, int], int], key: str, place: int) -> int | None:
    """The batch of a record; what came through a pipe may be in a file now."""
    return owner.get((key, place), owner.get((STDIN, place)))
