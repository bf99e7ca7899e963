"""Read ahead: one thread reads and prepares batches while another learns from them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from everlearn.io.batches import Batch, Batcher, Chunk
from everlearn.io.ledger import Ledger, Progress
from everlearn.io.sources import Source

P = TypeVar("P")
M = TypeVar("M", covariant=True)
_QUEUE_SIZE: Final = 1
"""Groups of batches that wait to be learned."""
_POLL_SECONDS: Final = 0.05
_GATHER_SECONDS: Final = 0.02
"""How long batches are gathered, if the learner takes several in one call."""


@dataclass(frozen=True, slots=True)
class ReadyBatch(Generic[P]):
    """A prepared batch, and how far its sources are once it is learned."""

    prepared: P
    progress: tuple[Progress, ...]


class Preparer(Protocol[M]):
    """Turns records into what a model takes, in the order of the stream."""

    def read(self, chunk: Chunk) -> Chunk:
        """The chunk with what a model takes instead of records."""

    def join(self, batch: Batch) -> M:
        """Chunks that were read as one batch."""


class Reader(Generic[P]):
    """Reads batches of all sources in turn, from the places in the ledger on.

    Parameters
    ----------
    sources : the sources, in the order in which to read them
    ledger : how far they were learned before
    size : records of a batch
    preparer : turns records into what a model takes, in the reading thread
    idle : seconds until the records of a silent pipe make a smaller batch
    """

    def __init__(
        self,
        sources: Sequence[Source],
        ledger: Ledger,
        size: int,
        preparer: Preparer[P],
        idle: float,
    ) -> None:
        self._sources, self._ledger, self._preparer, self._idle = sources, ledger, preparer, idle
        self._progress: dict[int, Progress] = {}
        self._batcher = Batcher(size)
        self._lock = threading.Lock()
        self._queue: queue.Queue[list[ReadyBatch[P]] | BaseException | None] = queue.Queue(
            _QUEUE_SIZE
        )
        self._gathered: list[ReadyBatch[P]] = []
        self._handed_over = 0.0
        self._group_size = 1
        self._closing = threading.Event()
        self._abandoned = threading.Event()
        self._waiting_since: float | None = None
        self._current = 0

    def batches(self) -> Iterator[ReadyBatch[P]]:
        """Batches until the sources end."""
        for group in self.groups(threading.Event(), lambda: 1):
            yield from group

    def groups(
        self, stop: threading.Event, max_size: Callable[[], int]
    ) -> Iterator[Sequence[ReadyBatch[P]]]:
        """Groups of up to `max_size()` batches, until the sources end or `stop` is set.

        A group is empty while nothing comes. If `max_size` allows several batches, those that come
        quickly are gathered for a moment. After a stop, the rest of a file is left for the next
        run. What came through a pipe cannot be read again, and makes a last batch.
        """
        thread = threading.Thread(target=self._run, name="everlearn-reader", daemon=True)
        thread.start()
        try:
            while not (stop.is_set() and self._rewinds()):
                if stop.is_set():
                    self._closing.set()
                try:
                    group = self._queue.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    group = self._take_gathered()
                if group == []:
                    rest = self._take_rest() if stop.is_set() or self._is_silent() else None
                    yield [] if rest is None else [rest]
                    if rest is None and stop.is_set() and self._is_drained():
                        return
                    continue
                if isinstance(group, BaseException):
                    raise group
                if group is None:
                    return
                while group and not (stop.is_set() and self._rewinds()):
                    n = max_size()
                    self._group_size = max(self._group_size, n)
                    yield group[:n]
                    group = group[n:]
        finally:
            self._abandoned.set()

    def _rewinds(self) -> bool:
        """Whether all that was read so far can be read again."""
        return all(source.rewinds for source in self._sources[: self._current + 1])

    def _is_silent(self) -> bool:
        """Whether records of a pipe have waited for `idle` seconds to fill their batch."""
        since = self._waiting_since
        return not self._rewinds() and since is not None and time.monotonic() - since > self._idle

    def _is_drained(self) -> bool:
        """Whether a pipe is awaited, and all that came has been handed over."""
        waits = self._sources[self._current].is_waiting()
        return waits and self._queue.empty() and not (self._gathered or self._batcher.pending)

    def _take_gathered(self) -> list[ReadyBatch[P]]:
        """The gathered batches, unless others are in the queue before them."""
        if not self._lock.acquire(timeout=_POLL_SECONDS):
            return []
        try:
            if not self._queue.empty():
                return []
            gathered, self._gathered = self._gathered, []
            return gathered
        finally:
            self._lock.release()

    def _take_rest(self) -> ReadyBatch[P] | None:
        """The records of an incomplete batch, once nothing else is before them."""
        if not self._sources[self._current].is_waiting() or not self._lock.acquire(
            timeout=_POLL_SECONDS
        ):
            return None
        try:
            if not self._queue.empty() or self._gathered or not self._batcher.pending:
                return None
            self._waiting_since = None
            return self._ready_batch(self._batcher.flush())
        finally:
            self._lock.release()

    def _run(self) -> None:
        try:
            for number, source in enumerate(self._sources):
                self._current = number
                start = source.resume(self._ledger.of(source.key))
                self._progress[number] = start
                for chunk in source.read(number, start):
                    self._take(self._preparer.read(chunk))
                    if self._abandoned.is_set() or self._closing.is_set():
                        break
                if self._abandoned.is_set() or self._closing.is_set():
                    break
            with self._lock:
                if self._batcher.pending:
                    self._gathered.append(self._ready_batch(self._batcher.flush()))
                self._hand_over()
            self._put(None)
        except BaseException as error:
            error.add_note(self._sources[self._current].name)  # messages name the source
            with self._lock:
                self._hand_over()
            self._put(error)

    def _take(self, chunk: Chunk) -> None:
        with self._lock:
            if full := [self._ready_batch(batch) for batch in self._batcher.add(chunk)]:
                self._waiting_since = None
                self._gathered += full
                waited = time.monotonic() - self._handed_over
                if len(self._gathered) >= self._group_size or waited > _GATHER_SECONDS:
                    self._hand_over()
            if self._batcher.pending and self._waiting_since is None:
                self._waiting_since = time.monotonic()

    def _hand_over(self) -> None:
        """Put the gathered batches into the queue."""
        if self._gathered:
            self._put(self._gathered)
        self._gathered, self._handed_over = [], time.monotonic()

    def _ready_batch(self, batch: Batch) -> ReadyBatch[P]:
        touched = {}
        for chunk in batch:
            source = self._sources[chunk.source]
            progress = source.advanced(self._progress[chunk.source], chunk.places)
            self._progress[chunk.source] = touched[chunk.source] = progress
        return ReadyBatch(self._preparer.join(batch), tuple(touched.values()))

    def _put(self, item: list[ReadyBatch[P]] | BaseException | None) -> None:
        while not self._abandoned.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
                return
            except queue.Full:
                continue
