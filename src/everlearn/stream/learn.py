"""Learn a stream into a model file: the loop that `everlearn learn` and services run.

`learn_stream` is one run. It reads batches, learns each of them once, writes checkpoints, and
keeps a log and a quarantine beside the model. It prints nothing and handles no signals: callers
get the lines of the log by `on_batch`, and set an event to stop.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from everlearn.core.text import counted
from everlearn.engine.local import one_blas_thread
from everlearn.engine.opening import keep_engine
from everlearn.errors import BadRecordError, SourceError, UsageError
from everlearn.io.batches import MAX_REASON, BadRecord
from everlearn.io.dialects import FEW
from everlearn.io.folders import FolderSource
from everlearn.io.formats import LineFormat
from everlearn.io.ledger import Progress
from everlearn.io.lock import COMPANIONS, only_writer
from everlearn.io.log import BatchLog
from everlearn.io.opening import open_sources
from everlearn.io.reader import Reader, ReadyBatch
from everlearn.io.sources import STDIN, Source
from everlearn.store.archive import remove_leftovers
from everlearn.stream.class_topics import class_topics
from everlearn.stream.events import Structure
from everlearn.stream.kinds import constructor_params
from everlearn.stream.labels import find_classes
from everlearn.stream.layout import CHANGEABLE, Layout
from everlearn.stream.models import (
    StreamModel,
    allows_missing,
    allows_texts,
    has_bound,
    has_classes,
    has_components,
    learns_batch_by_batch,
    learns_row_by_row,
)
from everlearn.stream.prepared import (
    BadRecords,
    Origin,
    PreparedBatch,
    apply_to_good,
    join_batches,
)
from everlearn.stream.records import RecordPreparer
from everlearn.stream.session import Session, open_session

MAX_BATCHES_PER_CALL: Final = 16
"""Queued batches that one call may learn. A stop has to wait for the call."""
MAX_CALL_SECONDS: Final = 0.25
"""Longest call for several batches, estimated from earlier batches."""
_MAX_REASONS: Final = 100
"""Different reasons of bad records of a source that are counted."""
SCORED: Final = 64
"""Records of a batch that are scored before it is learned, at most."""
OnBatch: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Called with each line of the run log, after it was written."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often to save and to score.

    Attributes
    ----------
    every_seconds : seconds between two checkpoints
    every_batches : batches between two checkpoints; None means by `every_seconds`
    score_every : batches from one to the next that an audit can score again; 0 scores none. The
        others are scored before they are learned only, on `SCORED` records.
    idle : seconds until the records of a silent pipe are learned as a smaller batch
    """

    every_seconds: float = 30.0
    every_batches: int | None = None
    score_every: int = 20
    idle: float = 60.0


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """What to learn, from where, into which file.

    Attributes
    ----------
    model : the model file; if it exists, learning goes on
    sources : list of files, folders, or "-" for standard input
    options : how to read records, by names of `Layout`; a new model needs `kind`
    params : parameters of the estimator
    schedule : how often to save and to score
    stdin_format : what the lines of standard input are
    strict : whether a bad record ends the run
    """

    model: Path
    sources: Sequence[str]
    options: Mapping[str, Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule = Schedule()
    stdin_format: LineFormat = "jsonl"
    strict: bool = False


def learn_stream(
    request: LearnRequest,
    *,
    stop: threading.Event | None = None,
    on_batch: OnBatch = lambda line: None,
) -> Session:
    r"""Learn what is new in the sources, and return what the model file holds at the end.

    Nothing is learned twice: the file knows how far each source was learned. A run that was
    killed goes on from its last checkpoint.

    Parameters
    ----------
    request : what to learn, from where, into which file
    stop : set it, from another thread or a signal handler, to end the run with everything saved
    on_batch : called with each line of the run log, such as {"batch": 3, "records": 768, ...}

    Raises
    ------
    UsageError, SourceError, MemoryBudgetError
        An option, a parameter or a source cannot be used. A source of which no record could be
        learned is an error too; what others gave is saved.
    CheckpointError
        The model file is damaged, or was not written by `learn_stream`.
    LockedError
        Another process is learning into the file.
    BadRecordError
        A record cannot be learned, and the request is strict.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = Path(folder, "rows.csv")
    ...     n_bytes = rows.write_text("x,y\n" + "1,2\n3,4\n" * 50)
    ...     request = LearnRequest(Path(folder, "m.evl"), [str(rows)], {"kind": "mixture"})
    ...     first = learn_stream(request)
    ...     again = learn_stream(request)  # nothing is new
    >>> first.ledger.records, again.ledger.records
    (100, 100)
    """
    path = Path(request.model)  # callers without a type checker may give a string
    if isinstance(request.sources, str):
        raise UsageError(
            f"the sources must be a list of files or folders, got the text {request.sources!r}; "
            f"write [{request.sources!r}]"
        )
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {str(path.parent)!r} for the model; create it first")
    with only_writer(path), keep_engine(request.params.get("engine")) as engine:
        remove_leftovers(path)
        params = {**request.params, **({} if engine is None else {"engine": engine})}
        session = open_session(path, request.options, params)
        layout = session.layout
        sources = open_sources(
            request.sources,
            stdin_format=request.stdin_format,
            label=layout.label,
            writing=layout.writing,
        )
        session = session.reading_as(sources, request.options)
        learner = StreamLearner(
            path,
            session,
            sources,
            request.sources,
            params={"random_state": 0, **params},
            schedule=request.schedule,
            strict=request.strict,
            on_batch=on_batch,
            stop=threading.Event() if stop is None else stop,
        )
        session = learner.run()
        is_changed = bool(request.params or CHANGEABLE & request.options.keys())
        if is_changed and session.model_or_none is not None:
            session.save(path)  # parameters may have changed without a new record
        learner.refuse_fruitless()
    return session


class LearnedBatch(NamedTuple):
    """A batch that is in the model.

    `batch.bad` has the records that the model refused too, `changes` what the log says about it.
    """

    batch: PreparedBatch
    progress: tuple[Progress, ...]
    changes: dict[str, Any]


@dataclass(slots=True)
class SourceCount:
    """Records of one source in one run, and why bad ones were bad, most of all."""

    good: int = 0
    bad: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add_bad(self, bad: BadRecord) -> None:
        """Count a bad record."""
        self.bad += 1
        if len(self.reasons) < _MAX_REASONS:
            self.reasons[bad.reason] += 1


@dataclass(slots=True)
class StreamLearner:
    """The learning loop of one run. `learn_stream` prepares it and holds the lock of the file.

    Attributes
    ----------
    path : the model file
    session : what the next checkpoint will hold
    sources : where records come from
    names : how the sources were given; a folder may be many of them
    params : parameters of a new model
    schedule : how often to save and to score
    strict : whether a bad record ends the run
    on_batch : called with each line of the run log
    stop : ends the run when it is set
    """

    path: Path
    session: Session
    sources: Sequence[Source]
    names: Sequence[str]
    params: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule = Schedule()
    strict: bool = False
    on_batch: OnBatch = lambda line: None
    stop: threading.Event = field(default_factory=threading.Event)
    _log: BatchLog = field(init=False)
    _quarantine: BatchLog = field(init=False)
    _saved_batches: int = field(init=False)
    _saved_at: float = field(init=False)
    _seconds_per_batch: float = np.inf
    _model_is_ahead: bool = False
    """Whether the model has learned records that the ledger does not have yet."""
    _fruitless: list[str] = field(default_factory=list)
    """What is to be said about sources without a good record."""
    _counts_of: dict[int, SourceCount] = field(default_factory=lambda: defaultdict(SourceCount))

    def __post_init__(self) -> None:
        self._saved_batches = self.session.ledger.batches
        self._log = BatchLog(log_path(self.path), self._saved_batches)
        self._quarantine = BatchLog(quarantine_path(self.path), self._saved_batches)

    def run(self) -> Session:
        """Learn until the sources end or `stop` is set, and save at the end."""
        try:
            # One thread for linear algebra during the whole run: setting it in every step takes
            # time, and BLAS threads that wait for work slow down the thread that reads.
            with one_blas_thread(), self._log, self._quarantine:
                self._log.cut()
                self._quarantine.cut()
                self._saved_at = time.monotonic()
                try:
                    self._learn_all()
                    if not self.stop.is_set():
                        self._forget_fruitless()
                finally:
                    # Also after an error: what came through a pipe cannot be read again. But if the
                    # error came between model and ledger, the next run would learn records twice.
                    is_new = self.session.ledger.batches > self._saved_batches
                    if is_new and not self._model_is_ahead:
                        self._save()
        finally:
            if not self.path.exists():  # the next run begins anew, with the same records
                self._log.remove()
                self._quarantine.remove()
        return self.session

    def refuse_fruitless(self) -> None:
        """Raise SourceError if a source that was given has not one good record, or no more."""
        if not self._fruitless:
            return
        n_new = sum(count.good for count in self._counts_of.values())
        first, *others = self._fruitless
        parts = [first + (f" (and {len(others)} more sources like this)" if others else "")]
        if self.session.model_or_none is None:
            parts.append(f"{str(self.path)!r} was not written")
        elif any(count.bad for count in self._counts_of.values()):
            parts.append(f"bad records are in {str(self._quarantine.path)!r}")
        if n_new:
            parts.append(f"learned {counted(n_new, 'new record')} of other sources")
        raise SourceError("; ".join(parts))

    def _forget_fruitless(self) -> None:
        """Note the sources without a good record, and forget how far they were read.

        So they can be learned as soon as an option or the file is mended. A source that was given
        may be a folder of many files.
        """
        forgotten: set[str] = set()
        for name in self.names:
            members = [i for i, source in enumerate(self.sources) if _is_within(source.name, name)]
            counts = [self._counts_of[i] for i in members]
            n_bad = sum(count.bad for count in counts)
            keys = {self.sources[i].key for i in members}
            is_known = any(self.session.ledger.of(key).learned for key in keys)
            if any(count.good for count in counts) or (is_known and n_bad < FEW):
                continue
            called = "standard input" if name == STDIN else repr(name)
            if n_bad:
                reasons = sum((count.reasons for count in counts), Counter[str]())
                self._fruitless.append(
                    f"none of {counted(n_bad, 'new record')} of {called} could be learned, mostly "
                    f"because: {reasons.most_common(1)[0][0]}"
                )
            else:
                self._fruitless.append(f"{called} holds no records")
            forgotten |= set() if is_known else keys
        if forgotten & self.session.ledger.sources.keys():
            ledger = self.session.ledger.without(forgotten)
            self.session = replace(self.session, ledger=ledger)
            self._saved_batches = -1  # save it, also right after a checkpoint

    def _learn_all(self) -> None:
        ledger = self.session.ledger.with_keys(source.key for source in self.sources)
        layout = self.session.layout
        if layout.kind_of_model.target == "class" and layout.classes is None:
            classes = find_classes(self.sources, ledger, layout, self.stop)
            if self.stop.is_set():
                return
            layout = replace(layout, classes=classes)
        self.session = replace(self.session, ledger=ledger, layout=layout)
        preparer = RecordPreparer(layout, self._allows_missing, allows_texts=self._allows_texts)
        reader = Reader(self.sources, ledger, layout.batch, preparer, self.schedule.idle)
        for group in reader.groups(self.stop, self._max_group_size):
            # A group is empty while a pipe is silent: a checkpoint may be due all the same.
            if not self._learn_in_one_call(group):
                for ready in group:
                    self._learn_batch(ready)
            if self._checkpoint_is_due():
                self._save()

    # ------------------------------------------------------------------ one batch

    def _learn_batch(self, ready: ReadyBatch[PreparedBatch]) -> None:
        """Learn the good records of a batch, score it if a score is due, and log it."""
        start, batch = time.perf_counter(), ready.prepared
        if self.strict and batch.bad:
            raise self._bad_record_error(*batch.bad[0])
        if not len(batch):
            self._record([LearnedBatch(batch, ready.progress, {})], start)
            return
        model, ledger = self._model_for(batch.layout), self.session.ledger
        before = Structure() if self.session.model_or_none is None else Structure.of(model)
        changes: dict[str, Any] = {}
        score_every = self.schedule.score_every
        is_audited = score_every > 0 and ledger.batches % score_every == 0
        if score_every and ledger.batches:
            changes["score_before"] = score_of(model, sample_of(batch, SCORED))
        # Topics of classes change most at the beginning: log them at batches 1, 2, 4, 8, ... too.
        if is_audited or (score_every > 0 and ledger.batches.bit_count() == 1):
            changes |= class_topics(model, batch.X, batch.y, ledger.records)
        model, learned, refused = self._learn_good_records(model, batch)
        self.session = self.session.with_model(model)
        if is_audited and len(learned):
            changes["score_after"] = score_of(model, learned)
            changes |= self._whereabouts(learned, refused)
        changes |= before.changes(model)
        learned = replace(learned, bad=[*batch.bad, *refused])
        self._record([LearnedBatch(learned, ready.progress, changes)], start)

    def _learn_good_records(
        self, model: StreamModel, batch: PreparedBatch
    ) -> tuple[StreamModel, PreparedBatch, BadRecords]:
        """Learn a batch, except for records that the model refuses. It must not refuse all."""
        try:
            partial_fit(model, batch)
        except ValueError:
            # A strict run may end below, and must not leave half of a batch in the model.
            model = copy.deepcopy(model) if self.strict else model
        else:
            self._model_is_ahead = True
            return model, batch, []
        self._model_is_ahead = not self.strict
        _, refused = apply_to_good(batch, lambda part: partial_fit(model, part))
        if len(refused) == len(batch) and not self.session.ledger.records:
            raise UsageError(f"the model refuses all records: {refused[0][1].reason}")
        if self.strict and refused:
            raise self._bad_record_error(*refused[0])
        bad = {origin for origin, _ in refused}
        good = [i for i, origin in enumerate(batch.origins) if origin not in bad]
        return model, batch.select(good), refused

    # ------------------------------------------------------------------ queued batches

    def _max_group_size(self) -> int:
        """How many queued batches one call may learn, with no checkpoint between them.

        A call costs more than the rows of a small batch. Several batches are learned in one call
        if the result is the same.
        """
        model = self.session.model_or_none
        n_learned, schedule = self.session.ledger.batches, self.schedule
        if schedule.score_every or model is None:  # each batch is scored before it is learned
            return 1
        if not (learns_row_by_row(model) or learns_batch_by_batch(model)):
            return 1
        sizes = [MAX_BATCHES_PER_CALL, int(MAX_CALL_SECONDS / max(self._seconds_per_batch, 1e-6))]
        if schedule.every_batches is not None:
            sizes.append(self._saved_batches + schedule.every_batches - n_learned)
        return max(1, min(sizes))

    def _learn_in_one_call(self, group: Sequence[ReadyBatch[PreparedBatch]]) -> bool:
        """Learn several batches in one call; False, and nothing learned, if that is not possible.

        Batches with bad or refused records go one by one, so that the right records are set aside.
        """
        start, batches = time.perf_counter(), [ready.prepared for ready in group]
        if len(group) < 2 or any(batch.bad or not len(batch) for batch in batches):
            return False
        model = self.session.model
        try:
            if learns_batch_by_batch(model):
                model.partial_fit_each([batch.X for batch in batches])
            else:
                partial_fit(model, join_batches(batches))
        except ValueError:  # the estimator is as it was before
            return False
        self._model_is_ahead = True
        self._record([LearnedBatch(one.prepared, one.progress, {}) for one in group], start)
        return True

    # ------------------------------------------------------------------ log and checkpoint

    def _record(self, learned: Sequence[LearnedBatch], start: float) -> None:
        """Note batches that the model has learned since `start`: in ledger, quarantine and log."""
        self._seconds_per_batch = (time.perf_counter() - start) / len(learned)
        lines = []
        # The ledger first, for all of them: writing may fail, and the model has them already.
        for batch, progress, changes in learned:
            ledger = self.session.ledger
            counts = Counter(batch.origins.sources.tolist())
            good = {self.sources[number].key: n for number, n in counts.items()}
            updates = [
                replace(p, learned=ledger.of(p.name).learned + good.get(p.name, 0))
                for p in progress
            ]
            ledger = ledger.after(updates, len(batch), len(batch.bad))
            self.session = replace(self.session, ledger=ledger, layout=batch.layout)
            new = {"new": len(batch), "new_bad": len(batch.bad)}
            lines.append({"batch": ledger.batches, **new, **changes, **self._counts()})
            for number, n in counts.items():
                self._counts_of[number].good += n
            for origin, bad in batch.bad:
                self._counts_of[origin.source].add_bad(bad)
        self._model_is_ahead = False
        for (batch, _, _), line in zip(learned, lines, strict=True):
            for origin, bad in batch.bad:
                self._quarantine.write({"batch": line["batch"], **self._describe(origin, bad)})
            self._log.write(line)
        for line in lines:  # last, because a callback may raise
            self.on_batch(line)

    def _counts(self) -> dict[str, Any]:
        model, ledger = self.session.model_or_none, self.session.ledger
        counts = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "records": ledger.records,
            "bad": ledger.bad,
            "seconds": round(self._seconds_per_batch, 4),
        }
        if model is not None and has_components(model):
            counts["components"] = int(model.n_components_)
        if model is not None and has_bound(model):
            counts["bound"] = float(model.bound_)
        return counts

    def _describe(self, origin: Origin, bad: BadRecord) -> dict[str, Any]:
        """A bad record and its reason, as a line of the quarantine."""
        source = self.sources[origin.source]
        return {
            "source": source.name,
            **({} if bad.start is None else {"start": bad.start}),
            "place": source.where(origin.place),
            "reason": bad.reason,
            "record": bad.record,
            **({"cut": True} if bad.is_cut else {}),
        }

    def _bad_record_error(self, origin: Origin, bad: BadRecord) -> BadRecordError:
        source = self.sources[origin.source]
        return BadRecordError(
            f"bad record in {source.name!r}, place {source.where(origin.place)}: {bad.reason}. It "
            f"is: {bad.record[:MAX_REASON]}"
        )

    def _whereabouts(self, batch: PreparedBatch, refused: BadRecords) -> dict[str, Any]:
        """Where the records of a scored batch are, so that an audit finds them again.

        The first and the last place by source, the marks of files by folder, and the places between
        of records that the model refused.
        """
        found: dict[str, dict[str, list[int]]] = {"places": {}, "files": {}, "refused": {}}
        for number in np.unique(batch.origins.sources):
            source = self.sources[number]
            places = batch.origins.places[batch.origins.sources == number].tolist()
            if isinstance(source, FolderSource):
                found["files"][source.key] = places
            else:
                found["places"][source.key] = [places[0], places[-1]]
        for origin, _ in refused:
            found["refused"].setdefault(self.sources[origin.source].key, []).append(origin.place)
        return {name: by_source for name, by_source in found.items() if by_source}

    def _checkpoint_is_due(self) -> bool:
        batches = self.session.ledger.batches - self._saved_batches
        if self.schedule.every_batches is not None:
            return batches >= self.schedule.every_batches
        return batches > 0 and time.monotonic() - self._saved_at >= self.schedule.every_seconds

    def _save(self) -> None:
        self._saved_batches, self._saved_at = self.session.ledger.batches, time.monotonic()
        if self.session.model_or_none is None:
            return
        try:
            # The logs first: lines that the checkpoint does not know are cut off at the next start.
            self._log.flush()
            self._quarantine.flush()
            self.session.save(self.path)
        except OSError as error:
            intact = "; the last checkpoint is intact" if self.path.exists() else ""
            raise OSError(error.errno, f"{error.strerror}{intact}", str(self.path)) from error

    def _allows_missing(self, layout: Layout) -> bool:
        """Whether the model takes rows with missing numbers."""
        return layout.form == "rows" and allows_missing(self._model_for(layout))

    def _allows_texts(self, layout: Layout) -> bool:
        """Whether the model takes rows with columns of text."""
        return allows_texts(self._model_for(layout))

    def _model_for(self, layout: Layout) -> StreamModel:
        """The model, or a new one for records of this layout."""
        if self.session.model_or_none is not None:
            return self.session.model_or_none
        if layout.form is None:
            raise UsageError("no record could be read, so there is nothing to learn from")
        estimator = layout.kind_of_model.estimator(layout.form)
        return estimator(**constructor_params(estimator, self.params))


def _is_within(name: str, given: str) -> bool:
    """Whether a source is one that was given, or in a folder that was given."""
    given = os.path.normpath(given)
    return os.path.normpath(name) == given or name.startswith(os.path.join(given, ""))


def partial_fit(model: StreamModel, batch: PreparedBatch) -> None:
    """Learn a batch. A classifier gets all classes, because the batch may not have them all."""
    if batch.y is None:
        model.partial_fit(batch.X)
    elif has_classes(model):
        model.partial_fit(batch.X, batch.y, classes=list(batch.layout.classes or ()))
    else:
        model.partial_fit(batch.X, batch.y)


def sample_of(batch: PreparedBatch, n: int) -> PreparedBatch:
    """About `n` records of a batch, evenly spaced; all if it is small."""
    step = -(-len(batch) // n)
    return batch if step < 2 else batch.select(range(0, len(batch), step))


def score_of(model: StreamModel, batch: PreparedBatch) -> float | None:
    """How well the model explains the batch; None if it cannot be scored."""
    try:
        score = model.score(batch.X) if batch.y is None else model.score(batch.X, batch.y)
    except ValueError:
        return None
    return float(score) if np.isfinite(score) else None


def log_path(model: Path) -> Path:
    """The run log of a model file."""
    return _beside(model, COMPANIONS[0])


def quarantine_path(model: Path) -> Path:
    """The records that could not be learned, and why."""
    return _beside(model, COMPANIONS[1])


def _beside(model: Path, ending: str) -> Path:
    """A file beside a model; beside the model itself, if a link to it is given."""
    model = model.resolve() if model.is_symlink() else model
    return model.with_name(f"{model.name}{ending}")
