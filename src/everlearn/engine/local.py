"""How many cores there are for this process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import islice
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

from everlearn.attic.inference_shifts import Shift, new_turns
from everlearn.attic.runtime_engine_crew import Call, Crew, Ending
from everlearn.core.stats import Summable
from everlearn.engine.protocol import (
    Handle,
    Here,
    LocalEngine,
    brought,
    summed,
    together,
    wait_until,
)


def usable_cores() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


S = TypeVar("S", bound=Summable)
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")


class SerialEngine:
    """One block after the other."""

    n_workers = 1

    @property
    def here(self) -> LocalEngine:
        return self

    def shift(self) -> Shift:
        return Shift(new_turns(), new_turns())

    def join(self, task: Callable[[Shared], None], shared: Shared, most: int) -> None:
        task(shared)

    @contextmanager
    def joined(
        self,
        task: Callable[[Shared], None],
        shared: Shared,
        most: int,
        done: Callable[[], bool] | None = None,
    ) -> Iterator[Callable[[], None]]:
        yield lambda: None
        task(shared)

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        return [task(shared, brought(item)) for item in items]

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        sizes = [len(run) for run in together(items)]
        return summed((task(shared, brought(item)) for item in items), sizes)

    def map_sum_kept(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        whole, infos = self.map_sum(task, items, shared)
        return whole, kept_here(infos, items)

    def as_they_come(
        self,
        task: Callable[[Shared, Item], Info],
        items: Sequence[Any],
        shared: Callable[[], Shared],
    ) -> Generator[tuple[int, Info], None, None]:
        for number, item in enumerate(items):
            yield number, task(shared(), brought(item))


class ThreadEngine:
    """Blocks side by side; the heavy work releases the interpreter lock."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._crew = Crew(n_workers - 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.close()

    def shift(self) -> Shift:
        return self._crew.next_shift()

    @property
    def here(self) -> LocalEngine:
        return self

    def join(self, task: Callable[[Shared], None], shared: Shared, most: int) -> None:
        self._crew.dismiss()
        ending = self._ending(task, shared, most)
        with ending, ending:
            self._crew.send(ending.calls)
            task(shared)
        ending.check()

    @contextmanager
    def joined(
        self,
        task: Callable[[Shared], None],
        shared: Shared,
        most: int,
        done: Callable[[], bool] | None = None,
    ) -> Iterator[Callable[[], None]]:
        ending = self._ending(task, shared, most)
        with ending, ending:
            self._crew.send(ending.calls)
            yield ending.check
            task(shared)
            if done is not None:
                wait_until(done, ending.check)
                ending.waits = False
        if ending.waits:
            ending.check()

    def _ending(self, task: Callable[[Shared], None], shared: Shared, most: int) -> Ending:
        """Of the calls of other threads; the caller makes one more."""
        return Ending([Call(task, shared) for _ in range(min(most, self.n_workers) - 1)])

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        return list(self._results(task, items, shared))

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        sizes = [len(run) for run in together(items)]
        with closing(self._results(task, items, shared)) as results:
            return summed(results, sizes)

    def _results(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> Generator[Info, None, None]:
        self._crew.dismiss()
        yield from self._crew.results([Call(_worked, task, shared, item) for item in items])

    def map_sum_kept(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        whole, infos = self.map_sum(task, items, shared)
        return whole, kept_here(infos, items)

    def as_they_come(
        self,
        task: Callable[[Shared, Item], Info],
        items: Sequence[Any],
        shared: Callable[[], Shared],
    ) -> Generator[tuple[int, Info], None, None]:
        """With threads of its own, because the caller has other things to do meanwhile."""
        self._crew.dismiss()
        waiting, running = iter(enumerate(items)), dict[int, Call[Info]]()
        ready: SimpleQueue[int] = SimpleQueue()

        def visit(number: int, given: Shared, item: Any) -> Info:
            try:
                return _worked(task, given, item)
            finally:
                ready.put(number)

        def send(crew: Crew, most: int) -> None:
            sent = {n: Call(visit, n, shared(), item) for n, item in islice(waiting, most)}
            running.update(sent)
            crew.send(list(sent.values()))

        ending = Ending(running.values())
        with closing(Crew(self.n_workers)) as crew, ending, ending:
            send(crew, self.n_workers)
            while running:
                number = ready.get()
                yield number, running.pop(number).result()
                send(crew, 1)


def _worked(task: Callable[[Shared, Item], Info], shared: Shared, item: Any) -> Info:
    return task(shared, brought(item))


def kept_here(infos: list[Any], items: Sequence[Any]) -> list[Handle]:
    """A handle for each run of items that are held together, of what belongs to it."""
    found = iter(infos)
    return [Here(list(islice(found, len(run)))) for run in together(items)]


@contextmanager
def open_local(name: str | None, most_workers: int | None = None) -> Iterator[LocalEngine]:
    """An engine in this process: "serial", "threads", or None for what the machine has."""
    workers = min(usable_cores(), most_workers or sys.maxsize)
    with one_blas_thread():
        if name == "serial" or (name is None and workers == 1):
            yield SerialEngine()
            return
        with ThreadEngine(workers) as engine:
            yield engine


class _BlasLimit:
    """One BLAS thread while anybody needs that; the setting belongs to the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limit = _linear_algebra().limit(limits=1, user_api="blas")
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


_BLAS_LIMIT = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Linear algebra on one thread, in the whole process."""
    _BLAS_LIMIT.enter()
    try:
        yield
    finally:
        _BLAS_LIMIT.leave()


@cache
def _linear_algebra() -> ThreadpoolController:
    return ThreadpoolController()
