"""Things on workers: handles that survive the loss of a worker, and calls that travel lightly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import cloudpickle

from everlearn.inference.engine import Piece
from everlearn.runtime.engine import worker
from everlearn.runtime.engine.worker import InSlot

T = TypeVar("T")
_SMALL = 16_384
"""Bytes that are sent with each task rather than once to each worker."""
_GONE = ("cancelled", "error", "lost")


class Patient(Protocol):
    """Who fetches things, and does it again if a worker is lost."""

    client: Any

    def patiently(self, work: Callable[[], T]) -> T:
        """The result of work that may be done again."""


class Remote:
    """A handle of something on a worker, and how to make it: when asked for, and when lost."""

    def __init__(self, engine: Patient, make: Callable[[], Any], home: str | None = None) -> None:
        self._engine, self._make = engine, make
        self._future: Any = None
        self.home = home
        """The worker, as far as is known."""

    def future(self) -> Any:
        """The future, made again if what it stood for is lost."""
        if self._future is None or self._future.status in _GONE:
            self._future = self._make()
        return self._future

    def fetch(self) -> Any:
        return self._engine.patiently(lambda: self._engine.client.gather(self.future()))


def remote_in(item: Any) -> Remote | None:
    """What an item has on a worker, if anything."""
    if isinstance(item, Piece):
        item = item.source
    if type(item) is tuple:
        return next((found for part in item if (found := remote_in(part)) is not None), None)
    return item if isinstance(item, Remote) else None


def by_home(items: Iterable[T], home: Callable[[T], str | None]) -> list[tuple[Any, list[T]]]:
    """The items of each worker."""
    found: dict[str | None, list[T]] = {}
    for item in items:
        found.setdefault(home(item), []).append(item)
    return list(found.items())


def packed(item: Any, slots: list[Any], held: Mapping[tuple[int, int], Any]) -> Any:
    """The item with numbers of slots for what is on workers already; `held` is of local data."""
    if isinstance(item, Piece):
        future = item.source.future() if item.chunk is None else held[item.home]
        return InSlot(_slot_of(slots, future), item.where, item.along)
    if isinstance(item, Remote):
        return InSlot(_slot_of(slots, item.future()))
    if type(item) is tuple:
        return tuple(packed(part, slots, held) for part in item)
    return item


def _slot_of(slots: list[Any], future: Any) -> int:
    """The slot of a future, a new one if it has none."""
    for number, known in enumerate(slots):
        if known is future:
            return number
    slots.append(future)
    return len(slots) - 1


class Call:
    """Task and what is shared, sent with every task if small, else once to each worker."""

    def __init__(self, client: Any, call: tuple[Any, Any]) -> None:
        self._client, self._packed = client, cloudpickle.dumps(call, 5)
        self._future: Any = None

    def argument(self) -> Any:
        """What is given to the tasks."""
        if len(self._packed) <= _SMALL:
            return self._packed
        if self._future is None or self._future.status in _GONE:
            # A task, not scattered data: what the scheduler knows how to make, it makes again.
            self._future = self._client.submit(worker.unpacked, self._packed, pure=False)
        return self._future
