"""Engines within one process.

Linear algebra runs on one thread while an engine is open, and blocks of rows are what is
parallel: every block is computed in the same way whoever does it, so results do not depend
on the number of threads.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from everlearn.core.stats import Summable, total
from everlearn.inference.engine import Engine

S = TypeVar("S", bound=Summable)
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")


def _collected(results: Iterable[tuple[S, Info]]) -> tuple[S, list[Info]]:
    """Sums are added as they come, so that they do not pile up."""
    infos: list[Info] = []

    def sums() -> Iterator[S]:
        for part, info in results:
            infos.append(info)
            yield part

    return total(sums()), infos


class SerialEngine:
    """One block after the other."""

    n_workers = 1

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Item], shared: Shared
    ) -> list[Info]:
        return [task(shared, item) for item in items]

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Item],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        return _collected(task(shared, item) for item in items)


class ThreadEngine:
    """Blocks side by side; the heavy work releases the interpreter lock."""

    def __init__(self, pool: ThreadPoolExecutor, n_workers: int) -> None:
        self._pool = pool
        self.n_workers = n_workers

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Item], shared: Shared
    ) -> list[Info]:
        """The caller takes the first item and then, from the last on, what nobody has begun.

        Nobody waits for a thread to wake up that way while there is something to do.
        """
        futures = [self._pool.submit(task, shared, item) for item in items[1:]]
        try:
            mine = [task(shared, item) for item in items[:1]]
            own: list[Info] = []
            while futures and futures[-1].cancel():
                futures.pop()
                own.append(task(shared, items[1 + len(futures)]))
            return [*mine, *(future.result() for future in futures), *reversed(own)]
        finally:
            for future in futures:
                future.cancel()

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Item],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        if len(items) == 1:
            return SerialEngine().map_sum(task, items, shared)
        return _collected(self._pool.map(partial(task, shared), items))


@contextmanager
def open_engine(name: str | None, most_workers: int | None = None) -> Iterator[Engine]:
    """An engine for the time of one call: "serial", "threads", or None for what the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = min(cores or 1, most_workers or sys.maxsize)
    with _one_blas_thread():
        if name == "serial" or (name is None and workers == 1):
            yield SerialEngine()
            return
        with ThreadPoolExecutor(workers, thread_name_prefix="everlearn") as pool:
            yield ThreadEngine(pool, workers)


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
def _one_blas_thread() -> Iterator[None]:
    _BLAS_LIMIT.enter()
    try:
        yield
    finally:
        _BLAS_LIMIT.leave()


@cache
def _linear_algebra() -> ThreadpoolController:
    return ThreadpoolController()
