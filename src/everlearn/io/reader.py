"""Reading ahead: one thread reads and prepares batches while another learns from them."""

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
_AHEAD: Final = 1
_POLL: Final = 0.05
_GATHER: Final = 0.02
"""Seconds during which batches are gathered for who learns several at once."""


@dataclass(frozen=True, slots=True)
class Arrived(Generic[P]):
    """A batch, what was made of it, and how far its sources are once it is learned."""

    prepared: P
    progress: tuple[Progress, ...]


class Preparer(Protocol[M]):
    """What is done with records before they are learned, in the order in which they come."""

    def read(self, chunk: Chunk) -> Chunk:
        """The chunk with what a model takes instead of records."""

    def join(self, batch: Batch) -> M:
        """Such chunks as one batch."""


class Reader(Generic[P]):
    """Batches of the sources, one after the other, from where the ledger says on.

    Parameters
    ----------
    sources : the sources in the order in which they are read
    ledger : what was learned of them before
    size : records in a batch
    preparer : what the reading thread does with records
    idle : seconds after which records of a pipe that has fallen silent make a batch
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
        self._ready: queue.Queue[list[Arrived[P]] | BaseException | None] = queue.Queue(_AHEAD)
        self._gathered: list[Arrived[P]] = []
        self._handed_over = 0.0
        self._at_once = 1
        self._closing = threading.Event()
        self._abandoned = threading.Event()
        self._waiting_since: float | None = None
        self._current = 0

    def batches(self) -> Iterator[Arrived[P]]:
        """Batches until the sources end."""
        for group in self.groups(threading.Event(), lambda: 1):
            yield from group

    def groups(
        self, stop: threading.Event, most: Callable[[], int]
    ) -> Iterator[Sequence[Arrived[P]]]:
        """Batches until the sources end, or until `stop` is set, `most` of those that wait at once.

        There are none in a group while nothing comes. Batches that come quickly are gathered for a
        moment if several are taken at once. What a file holds beyond the last batch can be read
        again, and is left; what came through a pipe cannot, and makes a last batch.
        """
        thread = threading.Thread(target=self._run, name="everlearn-reader", daemon=True)
        thread.start()
        try:
            while not (stop.is_set() and self._rewinds()):
                if stop.is_set():
                    self._closing.set()
                try:
                    arrived = self._ready.get(timeout=_POLL)
                except queue.Empty:
                    arrived = self._take_gathered()
                if arrived == []:
                    rest = self._take_rest() if stop.is_set() or self._silent() else None
                    yield [] if rest is None else [rest]
                    if rest is None and stop.is_set() and self._settled():
                        return
                    continue
                if isinstance(arrived, BaseException):
                    raise arrived
                if arrived is None:
                    return
                while arrived and not (stop.is_set() and self._rewinds()):
                    n = most()
                    self._at_once = max(self._at_once, n)
                    yield arrived[:n]
                    arrived = arrived[n:]
        finally:
            self._abandoned.set()

    def _rewinds(self) -> bool:
        """Whether everything that is read now can be read again."""
        return all(source.rewinds for source in self._sources[: self._current + 1])

    def _silent(self) -> bool:
        """Whether records of a pipe have waited long enough for their batch to be full."""
        since = self._waiting_since
        return not self._rewinds() and since is not None and time.monotonic() - since > self._idle

    def _settled(self) -> bool:
        """Whether the reader waits for a pipe, and nothing that has come is still to be learned."""
        waits = self._sources[self._current].is_waiting()
        return waits and self._ready.empty() and not (self._gathered or self._batcher.pending)

    def _take_gathered(self) -> list[Arrived[P]]:
        """The batches that are gathered, unless some are handed over now."""
        if not self._lock.acquire(timeout=_POLL):
            return []
        try:
            if not self._ready.empty():
                return []
            gathered, self._gathered = self._gathered, []
            return gathered
        finally:
            self._lock.release()

    def _take_rest(self) -> Arrived[P] | None:
        """The records that wait for a batch to be full, once nothing else is on its way."""
        if not self._sources[self._current].is_waiting() or not self._lock.acquire(timeout=_POLL):
            return None
        try:
            if not self._ready.empty() or self._gathered or not self._batcher.pending:
                return None
            self._waiting_since = None
            return self._arrived(self._batcher.rest())
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
                    self._gathered.append(self._arrived(self._batcher.rest()))
                self._hand_over()
            self._put(None)
        except BaseException as error:
            error.add_note(self._sources[self._current].name)  # told beside what it says
            with self._lock:
                self._hand_over()
            self._put(error)

    def _take(self, chunk: Chunk) -> None:
        with self._lock:
            if full := [self._arrived(batch) for batch in self._batcher.add(chunk)]:
                self._waiting_since = None
                self._gathered += full
                waited = time.monotonic() - self._handed_over
                if len(self._gathered) >= self._at_once or waited > _GATHER:
                    self._hand_over()
            if self._batcher.pending and self._waiting_since is None:
                self._waiting_since = time.monotonic()

    def _hand_over(self) -> None:
        """Let the batches be learned that are gathered."""
        if self._gathered:
            self._put(self._gathered)
        self._gathered, self._handed_over = [], time.monotonic()

    def _arrived(self, batch: Batch) -> Arrived[P]:
        touched = {}
        for chunk in batch:
            source = self._sources[chunk.source]
            progress = source.advanced(self._progress[chunk.source], chunk.places)
            self._progress[chunk.source] = touched[chunk.source] = progress
        return Arrived(self._preparer.join(batch), tuple(touched.values()))

    def _put(self, item: list[Arrived[P]] | BaseException | None) -> None:
        while not self._abandoned.is_set():
            try:
                self._ready.put(item, timeout=_POLL)
                return
            except queue.Full:
                continue
