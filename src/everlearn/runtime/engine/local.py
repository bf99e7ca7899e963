"""Engines within one process.

Linear algebra runs on one thread while an engine is open, and blocks of rows are what is
parallel: every block is computed in the same way whoever does it, so results do not depend
on the number of threads.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

from everlearn.core.stats import Summable
from everlearn.inference.engine import (
    Handle,
    Here,
    LocalEngine,
    brought,
    summed,
    together,
    wait_until,
)
from everlearn.inference.shifts import Shift, new_turns
from everlearn.runtime.cores import usable_cores
from everlearn.runtime.engine.crew import Call, Crew, end_all

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
    ) -> Iterator[tuple[int, Info]]:
        for number, item in enumerate(items):
            yield number, task(shared(), brought(item))


class ThreadEngine:
    """Blocks side by side; the heavy work releases the interpreter lock."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._pool = ThreadPoolExecutor(n_workers, thread_name_prefix="everlearn")
        self._crew = Crew(n_workers - 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._crew.close()
        finally:
            self._pool.shutdown()

    def shift(self) -> Shift:
        return self._crew.next_shift()

    @property
    def here(self) -> LocalEngine:
        return self

    def join(self, task: Callable[[Shared], None], shared: Shared, most: int) -> None:
        self._crew.dismiss()
        with self.joined(task, shared, most):
            pass

    @contextmanager
    def joined(
        self,
        task: Callable[[Shared], None],
        shared: Shared,
        most: int,
        done: Callable[[], bool] | None = None,
    ) -> Iterator[Callable[[], None]]:
        calls = [Call(task, shared) for _ in range(min(most, self.n_workers) - 1)]

        def check() -> None:
            for call in calls:
                if call.error is not None:
                    raise call.error

        waits = True
        try:
            self._crew.send(calls)
            yield check
            task(shared)
            if done is not None:
                wait_until(done, check)
                waits = False
        finally:
            end_all(calls, waits)
        if waits:
            check()

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        """The caller takes the first item and then, from the last on, what nobody has begun.

        Nobody waits for a thread to wake up that way while there is something to do.
        """
        self._crew.dismiss()
        work = partial(_worked, task, shared)
        futures = [self._pool.submit(work, item) for item in items[1:]]
        try:
            mine = [work(item) for item in items[:1]]
            own: list[Info] = []
            while futures and futures[-1].cancel():
                futures.pop()
                own.append(work(items[1 + len(futures)]))
            return [*mine, *(future.result() for future in futures), *reversed(own)]
        finally:
            for future in futures:
                future.cancel()

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        self._crew.dismiss()
        if len(items) == 1:
            return SerialEngine().map_sum(task, items, shared)
        sizes = [len(run) for run in together(items)]
        return summed(self._pool.map(partial(_worked, task, shared), items), sizes)

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
    ) -> Iterator[tuple[int, Info]]:
        self._crew.dismiss()
        waiting = iter(enumerate(items))
        first = [next(waiting) for _ in range(min(self.n_workers, len(items)))]
        running = {self._pool.submit(_worked, task, shared(), item): n for n, item in first}
        try:
            while running:
                ready, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield running.pop(future), future.result()
                    for number, item in islice(waiting, 1):
                        again = self._pool.submit(_worked, task, shared(), item)
                        running[again] = number
        finally:
            for future in running:
                future.cancel()


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
            self._users += 1
            if self._users == 1:
                self._limit = _linear_algebra().limit(limits=1, user_api="blas")

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
