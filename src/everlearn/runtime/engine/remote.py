"""Things on workers: handles that survive the loss of a worker, and calls that travel lightly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import cloudpickle

from everlearn.inference.engine import Piece
from everlearn.runtime.engine import worker
from everlearn.runtime.engine.worker import InSlot

T = TypeVar("T")
_SMALL = 262_144
"""Bytes that are sent with the tasks of a step, in all, without a task of their own."""
_GONE = ("cancelled", "error", "lost")


class Patient(Protocol):
    """Who fetches things, and does it again if a worker is lost."""

    def gathered(self, futures: Sequence[Any]) -> list[Any]:
        """The results of futures, within work that may be done again."""

    def patiently(self, work: Callable[[], T]) -> T:
        """The result of work that may be done again."""


class Remote:
    """A handle of something on a worker, and how to make it: when asked for, and when lost."""

    def __init__(
        self,
        engine: Patient,
        make: Callable[[], Any],
        home: str | None = None,
        future: Any = None,
    ) -> None:
        self._engine, self._make, self._future = engine, make, future
        self.home = home
        """The worker, as far as is known."""

    def future(self) -> Any:
        """The future, made again if what it stood for is lost."""
        if self._future is None or self._future.status in _GONE:
            self._future = self._make()
        return self._future

    def fetch(self) -> Any:
        return self._engine.patiently(lambda: self._engine.gathered([self.future()]))[0]


class Part:
    """A handle of some of the second results that were kept, of the task whose handle is given."""

    def __init__(self, kept: Remote, start: int, stop: int) -> None:
        self.kept, self.start, self.stop = kept, start, stop

    def fetch(self) -> Any:
        return self.kept.fetch()[1][self.start : self.stop]


def remote_in(item: Any) -> Remote | None:
    """What an item has on a worker, if anything."""
    if isinstance(item, Piece):
        item = item.source
    if isinstance(item, Part):
        item = item.kept
    if type(item) is tuple:
        return next((found for part in item if (found := remote_in(part)) is not None), None)
    return item if isinstance(item, Remote) else None


def by_home(items: Iterable[T], home: Callable[[T], str | None]) -> list[tuple[Any, list[T]]]:
    """The items of each worker."""
    found: dict[str | None, list[T]] = {}
    for item in items:
        found.setdefault(home(item), []).append(item)
    return list(found.items())


class Recipe:
    """Runs of items for a worker, packed, with numbers of slots for what is on workers already.

    slots : futures of what is there; `held` has those of data of this process
    """

    def __init__(self, runs: list[list[Any]], held: Mapping[tuple[int, int], Any]) -> None:
        self.slots: list[Any] = []
        self._held = held
        self.runs = cloudpickle.dumps([[self._packed(item) for item in run] for run in runs])

    def _packed(self, item: Any) -> Any:
        if isinstance(item, Piece):
            future = item.source.future() if item.chunk is None else self._held[item.home]
            return InSlot(self._slot_of(future), item.where, item.along)
        if isinstance(item, Part):
            return InSlot(
                self._slot_of(item.kept.future()), slice(item.start, item.stop), kept=True
            )
        if isinstance(item, Remote):
            return InSlot(self._slot_of(item.future()))
        if type(item) is tuple:
            return tuple(self._packed(part) for part in item)
        return item

    def _slot_of(self, future: Any) -> int:
        """The slot of a future, a new one if it has none."""
        for number, known in enumerate(self.slots):
            if known is future:
                return number
        self.slots.append(future)
        return len(self.slots) - 1


class Call:
    """Task and what is shared, sent with every one of so many tasks if that is little.

    If not, it is sent once, and workers get it from one another.
    """

    def __init__(self, client: Any, call: tuple[Any, Any], n_tasks: int) -> None:
        self._client, self.packed = client, cloudpickle.dumps(call, 5)
        self._small = len(self.packed) * n_tasks <= _SMALL
        self._future: Any = None

    def argument(self) -> Any:
        """What is given to the tasks."""
        if self._small:
            return self.packed
        if self._future is None or self._future.status in _GONE:
            # A task, not scattered data: what the scheduler knows how to make, it makes again.
            self._future = self._client.submit(worker.unpacked, self.packed, pure=False)
        return self._future
