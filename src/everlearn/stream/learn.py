"""The classes of a stream that can be read twice, before anything is learned from it."""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from everlearn.engine.local import one_blas_thread
from everlearn.errors import UsageError
from everlearn.io.batches import SHOWN, Bad, Chunk
from everlearn.io.lock import COMPANIONS
from everlearn.io.log import BatchLog, read_log
from everlearn.io.reader import Arrived, Reader
from everlearn.io.sources import Source
from everlearn.stream.class_topics import class_topics
from everlearn.stream.kinds import constructor_params
from everlearn.stream.layout import Layout
from everlearn.stream.prepared import Origin, Prepared, Refused, by_halves, joined
from everlearn.stream.records import RecordPreparer, checked_label, field_of, with_form
from everlearn.stream.session import Session, begun
from everlearn.stream.summary import Standing


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


_MOST_AT_ONCE: Final = 16
"""Batches that may be learned in one call, so that a stop is not far away."""
_LONGEST: Final = 0.25
"""Seconds that such a call takes at most, as far as the batches before tell."""


class BadRecordError(ValueError):
    """A bad record under ``--strict``."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When things happen: `every` seconds or batches a checkpoint, and how often to score.

    `every_batches` None means by seconds. `score_every` batches are scored before and after they
    are learned; 0 scores none. `idle` is what `Reader` calls so.
    """

    every_seconds: float = 30.0
    every_batches: int | None = None
    score_every: int = 20
    idle: float = 60.0


@dataclass(slots=True)
class Learning:
    """One run of learning into a model file.

    Attributes
    ----------
    path : the model file
    session : what it will hold at the next checkpoint
    sources : where records come from
    params : parameters of a model that is begun now
    pace : when to write and to score
    strict : whether a bad record ends the run
    on_batch : called with each line of the run log
    """

    path: Path
    session: Session
    sources: Sequence[Source]
    params: Mapping[str, Any]
    pace: Pace = Pace()
    strict: bool = False
    on_batch: Callable[[Mapping[str, Any]], None] = lambda line: None
    stop: threading.Event = field(default_factory=threading.Event)
    _saved: int = 0
    _saved_at: float = 0.0
    _seconds_each: float = np.inf

    def run(self) -> Session:
        """Learn until the sources end or `stop` is set; the file is written at the end too.

        Linear algebra has one thread all the while, as it has within every step: to set that for
        each of them takes time, and so do threads that wait for work beside the one that reads.
        """
        last = self.session.ledger.batches
        with (
            one_blas_thread(),
            BatchLog(log_path(self.path), last) as log,
            BatchLog(quarantine_path(self.path), last) as quarantine,
        ):
            log.cut()
            quarantine.cut()
            try:
                self._loop(log, quarantine)
            finally:
                # Also after an error: what is learned of a pipe would be lost otherwise.
                if self.session.ledger.batches > self._saved:
                    self._save(log, quarantine)
        if self.session.model is None and self.session.ledger.bad and not self.stop.is_set():
            reasons = Counter(str(line["reason"]) for line in read_log(quarantine.path))
            raise UsageError(
                f"none of {self.session.ledger.bad:,} records could be learned, mostly because: "
                f"{reasons.most_common(1)[0][0]}; {str(quarantine.path)!r} has all of them"
            )
        return self.session

    def _loop(self, log: BatchLog, quarantine: BatchLog) -> None:
        self._saved, self._saved_at = self.session.ledger.batches, time.monotonic()
        for learned in self._batches():
            for bad, line in learned:
                for origin, fault in bad:
                    quarantine.write({"batch": line["batch"], **self._fault(origin, fault)})
                log.write(line)
            for _, line in learned:  # whoever is told may end the run, and the log is written
                self.on_batch(line)
            if self._due():
                self._save(log, quarantine)

    def _save(self, log: BatchLog, quarantine: BatchLog) -> None:
        self._saved, self._saved_at = self.session.ledger.batches, time.monotonic()
        if self.session.model is None:
            return
        try:
            log.flush()
            quarantine.flush()
            self.session.save(self.path)
        except OSError as error:
            intact = "; the last checkpoint is as it was" if self.path.exists() else ""
            raise OSError(error.errno, f"{error.strerror}{intact}", str(self.path)) from error

    def _due(self) -> bool:
        batches = self.session.ledger.batches - self._saved
        if self.pace.every_batches is not None:
            return batches >= self.pace.every_batches
        return batches > 0 and time.monotonic() - self._saved_at >= self.pace.every_seconds

    def _fault(self, origin: Origin, fault: Bad) -> dict[str, Any]:
        source = self.sources[origin.source]
        start = {} if fault.start is None else {"start": fault.start}
        return {
            "source": source.name,
            **start,
            "place": source.where(origin.place),
            "reason": fault.reason,
            "record": fault.record,
            **({"cut": True} if fault.is_cut else {}),
        }

    # ------------------------------------------------------------------ batches

    def _batches(self) -> Iterator[list[tuple[Refused, dict[str, Any]]]]:
        """Batches once they are learned: their bad records, and their lines of the log.

        All of those that come at once are in the model and in the ledger.
        """
        ledger = self.session.ledger.with_keys(source.key for source in self.sources)
        self.session = replace(self.session, ledger=ledger)
        layout = self.session.layout
        if layout.kind_of_model.target == "class" and layout.classes is None:
            classes = classes_in(self.sources, self.session, self.stop)
            if self.stop.is_set():
                return
            layout = replace(layout, classes=classes)
            self.session = replace(self.session, layout=layout)
        preparer = RecordPreparer(layout, self._allows_missing)
        reader = Reader(self.sources, self.session.ledger, layout.batch, preparer, self.pace.idle)
        for group in reader.groups(self.stop, self._at_once):
            start = time.perf_counter()
            if self._learned_at_once([arrived.prepared for arrived in group]):
                seconds = (time.perf_counter() - start) / len(group)
                yield [self._noted(arrived, arrived.prepared, {}, seconds) for arrived in group]
                continue
            if not group:
                yield []
            for arrived in group:
                start = time.perf_counter()
                done, line = self._learn(arrived.prepared)
                yield [self._noted(arrived, done, line, time.perf_counter() - start)]

    def _noted(
        self, arrived: Arrived[Prepared], done: Prepared, line: dict[str, Any], seconds: float
    ) -> tuple[Refused, dict[str, Any]]:
        """Bad records and line of a batch that the model has learned, and the ledger has now."""
        ledger = self.session.ledger.after(arrived.progress, len(done), len(done.bad))
        self.session = replace(self.session, ledger=ledger, layout=done.layout)
        self._seconds_each = seconds
        return done.bad, {"batch": ledger.batches, **line, **self._counts(seconds)}

    def _at_once(self) -> int:
        """How many batches may be learned in one call, nothing being due between them.

        For a model that learns row by row that is the same, for others if they can be told where
        a batch ends, and a call costs more than the rows of a small batch.
        """
        model = self.session.model
        if not (getattr(model, "learns_row_by_row", False) or hasattr(model, "partial_fit_each")):
            return 1
        number, most = self.session.ledger.batches, _MOST_AT_ONCE
        most = min(most, int(_LONGEST / max(self._seconds_each, 1e-6)))
        if self.pace.score_every:
            most = min(most, -number % self.pace.score_every)
        if self.pace.every_batches is not None:
            most = min(most, self._saved + self.pace.every_batches - number)
        return max(1, most)

    def _allows_missing(self, layout: Layout) -> bool:
        if layout.form != "rows":
            return False
        model = self.session.model
        if model is None:
            estimator = layout.kind_of_model.estimator(layout.form)
            model = estimator(**constructor_params(estimator, self.params))
        return bool(model.__sklearn_tags__().input_tags.allow_nan)

    def _learned_at_once(self, batches: list[Prepared]) -> bool:
        """Learn several batches in one call, unless there is a record in the way; whether it did.

        An estimator that refuses a call is as it was before.
        """
        if len(batches) < 2 or any(batch.bad or not len(batch) for batch in batches):
            return False
        try:
            _partial_fit_each(self.session.model, batches)
        except ValueError:
            return False
        return True

    def _learn(self, batch: Prepared) -> tuple[Prepared, dict[str, Any]]:
        """The batch with the records that the model refused, and what happened to the model."""
        if self.strict and batch.bad:
            raise self._unfit(*batch.bad[0])
        if not len(batch):
            return batch, {}
        if self.session.model is None:
            self.session = begun(replace(self.session, layout=batch.layout), self.params)
        model = self.session.model
        before = Standing.of(model)
        number = self.session.ledger.batches
        scored = self.pace.score_every and number % self.pace.score_every == 0
        line: dict[str, Any] = {}
        if scored and number:
            line["score_before"] = score_of(model, batch)
        if scored or (self.pace.score_every and number.bit_count() == 1):  # more at the beginning
            line |= class_topics(model, batch.X, batch.y, self.session.ledger.records)
        refused = self._feed(batch)
        model, kept = self.session.model, batch
        if refused:
            gone = {origin for origin, _ in refused}
            kept = batch.taken([i for i, origin in enumerate(batch.origins) if origin not in gone])
        if scored and len(kept):
            line |= {"score_after": score_of(model, kept), "places": self._places(kept)}
        line |= before.changes(model)
        return replace(kept, bad=[*batch.bad, *refused]), line

    def _feed(self, batch: Prepared) -> Refused:
        """Learn a batch but for the records that the model refuses; it must not refuse all."""
        model = self.session.model
        try:
            _partial_fit(model, batch)
        except ValueError:
            # A strict run ends here, and what it leaves must not have learned half of a batch.
            model = copy.deepcopy(model) if self.strict else model
        else:
            return []
        _, refused = by_halves(batch, lambda part: _partial_fit(model, part))
        if len(refused) == len(batch) and not self.session.ledger.records:
            raise UsageError(f"the model refuses the data: {refused[0][1].reason}")
        if self.strict and refused:
            raise self._unfit(*refused[0])
        self.session = replace(self.session, model=model)
        return refused

    def _unfit(self, origin: Origin, fault: Bad) -> BadRecordError:
        where = self._fault(origin, fault)
        return BadRecordError(
            f"{where['source']}, at {where['place']}: {fault.reason}: {fault.record[:SHOWN]}"
        )

    def _places(self, batch: Prepared) -> dict[str, list[int]]:
        """Where the records of a scored batch are, so that an audit finds them again."""
        places: dict[str, list[int]] = {}
        for origin in batch.origins:
            places.setdefault(self.sources[origin.source].key, []).append(origin.place)
        return places

    def _counts(self, seconds: float) -> dict[str, Any]:
        model, ledger = self.session.model, self.session.ledger
        counts = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "records": ledger.records,
            "bad": ledger.bad,
            "seconds": round(seconds, 4),
        }
        if model is not None and hasattr(model, "n_components_"):
            counts["components"] = int(model.n_components_)
        if model is not None and hasattr(model, "bound_"):
            counts["bound"] = float(model.bound_)
        return counts


def log_path(model: Path) -> Path:
    """The run log of a model file."""
    return _beside(model, COMPANIONS[0])


def quarantine_path(model: Path) -> Path:
    """The records that could not be learned, and why."""
    return _beside(model, COMPANIONS[1])


def _beside(model: Path, ending: str) -> Path:
    """A file beside a model, and beside the model itself if a link to it is given."""
    model = model.resolve() if model.is_symlink() else model
    return model.with_name(f"{model.name}{ending}")


def _partial_fit(model: Any, batch: Prepared) -> None:
    if batch.y is None:
        model.partial_fit(batch.X)
    elif batch.layout.kind_of_model.target == "class":
        model.partial_fit(batch.X, batch.y, classes=list(batch.layout.classes or ()))
    else:
        model.partial_fit(batch.X, batch.y)


def _partial_fit_each(model: Any, batches: list[Prepared]) -> None:
    """Learn batches in one call, each as if it came alone."""
    if hasattr(model, "partial_fit_each"):
        model.partial_fit_each([batch.X for batch in batches])
    else:
        _partial_fit(model, joined(batches))


def score_of(model: Any, batch: Prepared) -> float | None:
    """How well the model explains the batch, as far as it can say."""
    try:
        score = model.score(batch.X) if batch.y is None else model.score(batch.X, batch.y)
    except (AttributeError, ValueError):
        return None
    return float(score) if np.isfinite(score) else None
