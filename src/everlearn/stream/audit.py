"""Check for forgetting: score old records with today's model.

Some batches are scored right after they are learned (`Schedule.score_every`), and the run log keeps
the scores. An audit reads the same records again and scores them with the model as it is now.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from everlearn.errors import UsageError
from everlearn.io.log import read_log
from everlearn.io.sources import STDIN, Source
from everlearn.stream.learn import log_path, score_of
from everlearn.stream.predict import batches_of
from everlearn.stream.prepared import PreparedBatch, join_batches
from everlearn.stream.session import Session

LogLine: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """A batch with its score when it was learned (`then`) and its score now."""

    batch: int
    time: str
    records: int
    then: float
    now: float

    @property
    def change(self) -> float:
        """Negative if the model explains the batch worse than it did."""
        return self.now - self.then


@dataclass(frozen=True, slots=True)
class Audit:
    """All batches that were scored again, oldest first."""

    batches: tuple[ScoredBatch, ...]

    @property
    def mean_change(self) -> float:
        """Mean change of the score; 0 means that nothing was forgotten."""
        return float(np.mean([batch.change for batch in self.batches]))

    @property
    def worst(self) -> ScoredBatch:
        """The batch whose score fell most."""
        return min(self.batches, key=lambda batch: batch.change)

    @property
    def forgotten(self) -> float:
        """Mean loss of score, where batches that gained count as 0."""
        return float(np.mean([max(0.0, -batch.change) for batch in self.batches]))


def audit_model(path: Path, session: Session, sources: Sequence[Source]) -> Audit:
    """Score the records again that the model was scored on while it learned them."""
    lines = [line for line in read_log(log_path(path)) if "score_after" in line]
    scored = {line["batch"]: line for line in lines if _has_score(line)}
    if not scored:
        why = (
            "the model could not score any batch"
            if lines
            else "learn with option 'score-every' above 0"
        )
        raise UsageError(f"the log of {str(path)!r} holds no scores: {why}")
    batches = sorted(_scored_again(session, sources, scored), key=lambda batch: batch.batch)
    if not batches:
        raise UsageError(
            "none of the scored batches is in these sources. Give the sources that the model has "
            "learned from"
        )
    return Audit(tuple(batches))


def _has_score(line: LogLine) -> bool:
    found = [line.get(name, {}) for name in ("places", "files", "refused")]
    is_found = all(isinstance(by_source, dict) for by_source in found) and any(found[:2])
    return isinstance(line.get("score_after"), float) and is_found


class _Whereabouts:
    """Which scored batch a record belongs to, by its source and place."""

    def __init__(self, scored: Mapping[int, LogLine]) -> None:
        self._ranges: dict[str, list[tuple[int, int, int]]] = {}
        self._single: dict[tuple[str, int], int | None] = {}
        for number, line in scored.items():
            for name, (first, last) in line.get("places", {}).items():
                self._ranges.setdefault(_key(name), []).append((first, last, number))
            for name, marks in line.get("files", {}).items():
                self._single |= {(_key(name), mark): number for mark in marks}
            for name, places in line.get("refused", {}).items():
                self._single |= {(_key(name), place): None for place in places}
        for ranges in self._ranges.values():
            ranges.sort()

    def batch_of(self, key: str, place: int) -> int | None:
        """Number of the batch, or None if it has none."""
        for name in (key, STDIN):  # what came through a pipe may be in a file now
            if (name, place) in self._single:
                return self._single[name, place]
            ranges = self._ranges.get(name, [])
            i = bisect_left(ranges, place, key=lambda found: found[1])
            if i < len(ranges) and ranges[i][0] <= place:
                return ranges[i][2]
        return None


def _key(name: str) -> str:
    """The key of a source; a log that was moved may name it by another path."""
    return name if name == STDIN else os.path.realpath(name)


def _scored_again(
    session: Session, sources: Sequence[Source], scored: Mapping[int, LogLine]
) -> Iterator[ScoredBatch]:
    """The scored batches, put together again from records found by source and place."""
    whereabouts = _Whereabouts(scored)
    pieces: dict[int, list[PreparedBatch]] = {}
    for batch in batches_of(session, sources, labelled=True):
        found: dict[int, list[int]] = {}
        for i, origin in enumerate(batch.origins):
            number = whereabouts.batch_of(sources[origin.source].key, origin.place)
            if number is not None:
                found.setdefault(number, []).append(i)
        for number, rows in found.items():
            pieces.setdefault(number, []).append(batch.select(rows))
            line = scored[number]
            if sum(len(piece) for piece in pieces[number]) == line["new"]:
                whole = join_batches(pieces.pop(number))
                now = score_of(session.model, whole)
                if now is not None:
                    then = line["score_after"]
                    yield ScoredBatch(number, line["time"], line["new"], then, now)
