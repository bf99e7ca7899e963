"""Engines in this process: one task after the other, or several threads."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from functools import cache
from itertools import islice
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

from everlearn.core.stats import Summable
from everlearn.engine.protocol import Engine, Handle, LocalHandle, add_up, by_chunk, resolve


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
    """Runs one task after the other."""

    n_workers = 1

    @property
    def local(self) -> Engine:
        return self

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        return [task(shared, resolve(item)) for item in items]

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        return add_up((task(shared, resolve(item)) for item in items), by_chunk(items))

    def map_sum_and_keep(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        whole, infos = self.map_sum(task, items, shared)
        return whole, _handles(infos, items)


class ThreadEngine:
    """Runs tasks on a pool of threads. Kernels and BLAS release the interpreter lock.

    After an error or Ctrl-C no further task begins, and those that run are waited for: they may
    write into arrays that the caller is about to restore.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._pools = [self._new_pool()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for pool in self._pools:
            pool.shutdown(wait=True, cancel_futures=True)

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_workers, thread_name_prefix="everlearn")

    @property
    def local(self) -> Engine:
        return self

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        with closing(self._results(task, items, shared)) as results:
            return list(results)

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        with closing(self._results(task, items, shared)) as results:
            return add_up(results, by_chunk(items))

    def map_sum_and_keep(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        whole, infos = self.map_sum(task, items, shared)
        return whole, _handles(infos, items)

    def _results(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> Generator[Info, None, None]:
        """Results in the order of the items, as soon as they are ready."""
        if len(items) == 1:  # waking a thread takes longer than a small task
            yield task(shared, resolve(items[0]))
            return
        pool, futures, all_submitted = self._pools[-1], deque[Future[Info]](), False
        try:
            for item in items:
                futures.append(pool.submit(_run, task, shared, item))
            all_submitted = True
            while futures:
                result = futures[0].result()
                futures.popleft()
                yield result
        finally:
            for future in futures:
                future.cancel()
            wait(futures)
            futures.clear()  # an error refers to this frame: no cycle may keep both alive
            if not all_submitted:
                # Ctrl-C between `submit` and `append` leaves a task without a future here. It ends
                # with its pool.
                self._pools.append(self._new_pool())
                pool.shutdown(wait=True, cancel_futures=True)


def _run(task: Callable[[Shared, Item], Info], shared: Shared, item: Any) -> Info:
    return task(shared, resolve(item))


def _handles(infos: list[Any], items: Sequence[Any]) -> list[Handle]:
    """A handle for each chunk, of the list of its results."""
    remaining = iter(infos)
    return [LocalHandle(list(islice(remaining, len(chunk)))) for chunk in by_chunk(items)]


@contextmanager
def open_local(name: str | None, most_workers: int | None = None) -> Iterator[Engine]:
    """An engine in this process: "serial", "threads", or None for what the machine has."""
    workers = min(usable_cores(), most_workers or sys.maxsize)
    with one_blas_thread():
        if name == "serial" or (name is None and workers == 1):
            yield SerialEngine()
            return
        with ThreadEngine(workers) as engine:
            yield engine


class _BlasLimit:
    """One BLAS thread while any call needs that. The setting belongs to the whole process."""

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
