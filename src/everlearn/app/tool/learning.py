"""The loop of `everlearn learn`: batch after batch, exactly once, into one file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from everlearn.app.tool.class_topics import class_topics
from everlearn.app.tool.kinds import UsageError, check_settings
from everlearn.app.tool.layout import Layout
from everlearn.app.tool.prepared import Origin, Prepared, Refused, by_halves
from everlearn.app.tool.records import RecordPreparer, checked_label, field_of, with_form
from everlearn.app.tool.session import Session, begun
from everlearn.core.arrays import IntVec
from everlearn.runtime.stream.chunks import Bad
from everlearn.runtime.stream.reading import Reader
from everlearn.runtime.stream.runlog import BatchLog
from everlearn.runtime.stream.sources import Source

_NONE: Final = np.empty(0, np.int64)


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

    def run(self) -> Session:
        """Learn until the sources end or `stop` is set; the file is written at the end too."""
        last = self.session.ledger.batches
        with (
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
            raise UsageError(
                f"none of {self.session.ledger.bad:,} records could be learned; "
                f"{str(quarantine.path)!r} says why"
            )
        return self.session

    def _loop(self, log: BatchLog, quarantine: BatchLog) -> None:
        self._saved, self._saved_at = self.session.ledger.batches, time.monotonic()
        for learned in self._batches():
            if learned is not None:
                done, line = learned
                batch = self.session.ledger.batches
                for origin, fault in done.bad:
                    quarantine.write(batch, self._fault(origin, fault))
                log.write(batch, line)
                self.on_batch({"batch": batch, **line})
            if self._due():
                self._save(log, quarantine)

    def _save(self, log: BatchLog, quarantine: BatchLog) -> None:
        self._saved, self._saved_at = self.session.ledger.batches, time.monotonic()
        if self.session.model is not None:
            log.flush()
            quarantine.flush()
            self.session.save(self.path)

    def _due(self) -> bool:
        batches = self.session.ledger.batches - self._saved
        if self.pace.every_batches is not None:
            return batches >= self.pace.every_batches
        return batches > 0 and time.monotonic() - self._saved_at >= self.pace.every_seconds

    def _fault(self, origin: Origin, fault: Bad) -> dict[str, Any]:
        source = self.sources[origin.source]
        return {
            "source": source.name,
            "place": source.where(origin.place),
            "reason": fault.reason,
            "record": fault.record,
        }

    # ------------------------------------------------------------------ batches

    def _batches(self) -> Iterator[tuple[Prepared, dict[str, Any]] | None]:
        """Each batch once it is learned, with its line of the log; None while nothing comes."""
        ledger = self.session.ledger.with_keys(source.key for source in self.sources)
        self.session = replace(self.session, ledger=ledger)
        layout = self.session.layout
        if layout.kind_of_model.target == "class" and layout.classes is None:
            layout = replace(layout, classes=self._scanned_classes())
            self.session = replace(self.session, layout=layout)
        preparer = RecordPreparer(layout, self._allows_missing)
        reader = Reader(self.sources, self.session.ledger, layout.batch, preparer, self.pace.idle)
        for arrived in reader.batches(self.stop):
            if arrived is None:
                yield None
                continue
            start = time.perf_counter()
            done, line = self._learn(arrived.prepared)
            if self.strict and done.bad:
                origin, fault = done.bad[0]
                where = self._fault(origin, fault)
                raise BadRecordError(
                    f"{where['source']}, at {where['place']}: {fault.reason}: {fault.record}"
                )
            ledger = self.session.ledger.after(arrived.progress, len(done), len(done.bad))
            self.session = replace(self.session, ledger=ledger, layout=done.layout)
            yield done, line | self._counts(time.perf_counter() - start)

    def _allows_missing(self, layout: Layout) -> bool:
        if layout.form != "rows":
            return False
        model = self.session.model
        if model is None:
            estimator = layout.kind_of_model.estimator(layout.form)
            check_settings(estimator, self.params)
            model = estimator(**self.params)
        return bool(model.__sklearn_tags__().input_tags.allow_nan)

    def _scanned_classes(self) -> tuple[str, ...]:
        """All labels of the sources that can be read twice, in order."""
        found: set[str] = set()
        if not all(source.rewinds for source in self.sources):
            raise UsageError("labels of a pipe are not known in advance; name them by --classes")
        for number, source in enumerate(self.sources):
            start = source.resume(self.session.ledger.of(source.key))
            for chunk in source.read(number, start):
                if self.stop.is_set():
                    raise UsageError("stopped while the sources were searched for labels")
                layout = with_form(chunk, self.session.layout)
                parsed = chunk.parsed()
                for i, row in enumerate(parsed.rows):
                    if i not in parsed.bad:
                        found.update(_label_names(row, chunk.names, layout))
        if len(found) < 2:
            raise UsageError(
                f"a classifier needs at least two labels in the field "
                f"{self.session.layout.label!r}, found {sorted(found)}"
            )
        return tuple(sorted(found))

    def _learn(self, batch: Prepared) -> tuple[Prepared, dict[str, Any]]:
        """The batch with the records that the model refused, and what happened to the model."""
        if not len(batch):
            return batch, {}
        if self.session.model is None:
            self.session = begun(replace(self.session, layout=batch.layout), self.params)
        model = self.session.model
        before, moves = _ids(model), _n_moves(model)
        number = self.session.ledger.batches
        scored = self.pace.score_every and number % self.pace.score_every == 0
        line: dict[str, Any] = {}
        if scored and number:
            line["score_before"] = score_of(model, batch)
        if scored or (self.pace.score_every and number.bit_count() == 1):  # more at the beginning
            line |= class_topics(model, batch.X, batch.y, self.session.ledger.records)
        refused = self._feed(batch)
        if scored:
            line |= {"score_after": score_of(model, batch), "places": self._places(batch)}
        line |= _changes(before, _ids(model)) | _moves(model, moves)
        if not refused:
            return batch, line
        gone = {origin for origin, _ in refused}
        kept = [i for i, origin in enumerate(batch.origins) if origin not in gone]
        return replace(batch.taken(kept), bad=[*batch.bad, *refused]), line

    def _feed(self, batch: Prepared) -> Refused:
        """Learn a batch but for the records that the model refuses; it must not refuse all."""
        model = self.session.model
        _, refused = by_halves(batch, lambda part: _partial_fit(model, part))
        if len(refused) == len(batch) and not self.session.ledger.records:
            raise UsageError(f"the model refuses the data: {refused[0][1].reason}")
        return refused

    def _places(self, batch: Prepared) -> dict[str, list[int]]:
        """Where the records of a scored batch are, so that an audit finds them again."""
        places: dict[str, list[int]] = {}
        for origin in batch.origins:
            places.setdefault(self.sources[origin.source].name, []).append(origin.place)
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
    return model.with_name(f"{model.name}.log.jsonl")


def quarantine_path(model: Path) -> Path:
    """The records that could not be learned, and why."""
    return model.with_name(f"{model.name}.quarantine.jsonl")


def _partial_fit(model: Any, batch: Prepared) -> None:
    if batch.y is None:
        model.partial_fit(batch.X)
    elif batch.layout.kind_of_model.target == "class":
        model.partial_fit(batch.X, batch.y, classes=list(batch.layout.classes or ()))
    else:
        model.partial_fit(batch.X, batch.y)


def score_of(model: Any, batch: Prepared) -> float | None:
    """How well the model explains the batch, as far as it can say."""
    try:
        score = model.score(batch.X) if batch.y is None else model.score(batch.X, batch.y)
    except (AttributeError, ValueError):
        return None
    return float(score) if np.isfinite(score) else None


def _ids(model: Any) -> IntVec:
    try:
        return np.asarray(model.component_ids_, np.int64)
    except AttributeError:
        return _NONE


def _changes(before: IntVec, after: IntVec) -> dict[str, Any]:
    if np.array_equal(before, after):
        return {}
    born, gone = np.setdiff1d(after, before), np.setdiff1d(before, after)
    line: dict[str, Any] = {}
    if len(born):
        line["born"] = born.tolist()
    if len(gone):
        line["gone"] = gone.tolist()
    return line


def _n_moves(model: Any) -> int:
    """Moves that the model has accepted so far."""
    counts = getattr(getattr(model, "history_", None), "counts", {})
    return sum(n for name, n in counts.items() if name.endswith("accepted"))


def _moves(model: Any, before: int) -> dict[str, Any]:
    """The moves that the model has accepted since then, if it keeps a record of them."""
    new = _n_moves(model) - before
    if not new:
        return {}
    latest = model.history_.moves[-new:]
    return {
        "moves": [
            {"kind": m.kind, "removed": list(m.removed), "added": list(m.added), "gain": m.gain}
            for m in latest
        ]
    }


def _label_names(row: Any, names: tuple[str, ...] | None, layout: Any) -> list[str]:
    try:
        label = checked_label(field_of(row, layout.label, names), layout)
    except ValueError:
        return []
    return label if isinstance(label, list) else [label]
