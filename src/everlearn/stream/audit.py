"""Check for forgetting: score old records with today's model.

Some batches are scored right after they are learned (`Schedule.score_every`), and the run log keeps
the scores. An audit reads the same records again and scores them with the model as it is now.
"""

from __future__ import annotations

import os
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
    return isinstance(line.get("score_after"), float) and isinstance(line.get("places"), dict)


def _scored_again(
    session: Session, sources: Sequence[Source], scored: Mapping[int, LogLine]
) -> Iterator[ScoredBatch]:
    """The scored batches, put together again from records found by source and place."""
    batch_of_place = {  # logs of older versions name sources as they were typed
        (name if name == STDIN else os.path.realpath(name), place): number
        for number, line in scored.items()
        for name, places in line["places"].items()
        for place in places
    }
    pieces: dict[int, list[PreparedBatch]] = {}
    for batch in batches_of(session, sources, labelled=True):
        found: dict[int, list[int]] = {}
        for i, origin in enumerate(batch.origins):
            key = sources[origin.source].key
            # What came through a pipe may be in a file now.
            number = batch_of_place.get(
                (key, origin.place), batch_of_place.get((STDIN, origin.place))
            )
            if number is not None:
                found.setdefault(number, []).append(i)
        for number, rows in found.items():
            pieces.setdefault(number, []).append(batch.select(rows))
            line = scored[number]
            n_records = sum(len(places) for places in line["places"].values())
            if sum(len(piece) for piece in pieces[number]) == n_records:
                whole = join_batches(pieces.pop(number))
                now = score_of(session.model, whole)
                if now is not None:
                    yield ScoredBatch(number, line["time"], n_records, line["score_after"], now)
