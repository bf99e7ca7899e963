"""An engine of worker processes, on this machine or on many, by way of Dask.

Data travel to the workers once and stay; a step sends what the tasks share and brings back sums.
Additions are made in the order of the local engines, so the bits are the same, whichever worker did
what. A worker that is lost costs the work it had: data that were on it are sent again.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import cloudpickle
import dask
import distributed
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from everlearn.core.errors import ClusterError
from everlearn.core.stats import Summable, total
from everlearn.inference.engine import Engine, Handle, Piece, summed, together
from everlearn.runtime.engine.local import one_blas_thread, open_local

S = TypeVar("S", bound=Summable)
T = TypeVar("T")
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")
_TASKS_PER_WORKER = 2
_ATTEMPTS = 5
_SMALL = 16_384
"""Bytes that are sent with each task rather than once to each worker."""
_PATIENCE = 30.0
"""Seconds to wait for a scheduler, or for the first worker."""
_LOST = (CancelledError, KilledWorker, CommClosedError, OSError)
log = logging.getLogger("everlearn.engine")


class _Remote:
    """A handle of something on a worker, and how to make it again if the worker is lost."""

    def __init__(self, engine: DaskEngine, make: Callable[[], Any]) -> None:
        self._engine, self._make, self._future = engine, make, make()

    def future(self) -> Any:
        """The future, made again if what it stood for is lost."""
        if self._future.status in ("cancelled", "lost"):
            self._future = self._make()
        return self._future

    def fetch(self) -> Any:
        return self._engine.patiently(lambda: self._engine.client.gather(self.future()))


class DaskEngine:
    """Runs tasks on the workers of a Dask cluster."""

    def __init__(self, client: Any, here: Engine) -> None:
        self.client, self._here = client, here
        self._held: dict[Any, Any] = {}
        self._sources: list[Any] = []  # alive, so that no other object gets the same identity
        self.n_workers = max(1, sum(client.nthreads().values()))

    @property
    def here(self) -> Engine:
        return self._here

    # ------------------------------------------------------------------ the engine

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        if not items:
            return []
        groups = self._grouped(items)
        found = self._results(_each, groups, (task, shared))
        return [info for infos in found for info in infos]

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        groups = self._grouped(items)
        found = self._results(_sum, groups, (task, shared))
        return total(part for part, _ in found), [info for _, infos in found for info in infos]

    def map_sum_kept(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        groups = self._grouped(items)
        call = _Call(self.client, (task, shared))

        def made(group: list[list[Any]]) -> Callable[[], Any]:
            return lambda: self._submitted(_sum, [group], call)[0]

        handles = [_Remote(self, made(group)) for group in groups]
        sums = self.patiently(
            lambda: self.client.gather(
                [self.client.submit(_first, h.future(), pure=False) for h in handles]
            )
        )
        infos: list[Handle] = []
        for group, handle in zip(groups, handles, strict=True):
            start = 0
            for run in group:
                infos.append(_Remote(self, self._part_of(handle, start, start + len(run))))
                start += len(run)
        return total(sums), infos

    def as_they_come(
        self,
        task: Callable[[Shared, Item], Info],
        items: Sequence[Any],
        shared: Callable[[], Shared],
    ) -> Iterator[tuple[int, Info]]:
        waiting = list(reversed(range(len(items))))
        running: dict[Any, int] = {}

        def send() -> Any:
            number = waiting.pop()
            groups = [[[items[number]]]]
            future = self._submitted(_each, groups, _Call(self.client, (task, shared())))[0]
            running[future] = number
            return future

        first = [send() for _ in range(min(2 * self.n_workers, len(items)))]
        ready = distributed.as_completed(first, loop=self.client.loop)
        for future in ready:
            number = running.pop(future)
            try:
                (found,) = future.result()
            except _LOST as error:
                self._check_scheduler(error)
                waiting.append(number)
            else:
                yield number, found
            if waiting:
                ready.add(send())

    # ------------------------------------------------------------------ data on workers

    def hold(self, chunks: Sequence[Any], check: Callable[[Any], tuple[Any, Info]]) -> Any:
        """Handles of what `check` makes of the chunks of a collection, and what it tells of each.

        `check` runs where a chunk is, and returns what stays there and what comes here.
        """
        raw = self.client.compute([dask.delayed(chunk) for chunk in chunks])

        def made(future: Any) -> Callable[[], Any]:
            return lambda: self.client.submit(_checked, check, future, pure=False)

        checked = [_Remote(self, made(future)) for future in raw]
        infos = self.patiently(
            lambda: self.client.gather(
                [self.client.submit(_second, h.future(), pure=False) for h in checked]
            )
        )
        firsts = [_Remote(self, self._first_of(handle)) for handle in checked]
        return firsts, infos

    def bring(self, collection: Any) -> Any:
        """The whole of a small collection, in this process."""
        return self.patiently(lambda: self.client.compute(collection).result())

    def close(self) -> None:
        """Let go of all data that were sent."""
        self._held.clear()
        self._sources.clear()

    def patiently(self, work: Callable[[], T]) -> T:
        """The result of work that may be done again, as it must be when a worker is lost."""
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except _LOST as error:
                self._check_scheduler(error)
                if attempt + 1 == _ATTEMPTS:
                    raise ClusterError(
                        f"{_ATTEMPTS} times in a row a worker was lost during the same step: "
                        f"{error}. Workers may have too little memory for their chunks."
                    ) from error
                log.info("a worker was lost, its work is done again: %s", error)
        raise AssertionError

    def _first_of(self, handle: _Remote) -> Callable[[], Any]:
        return lambda: self.client.submit(_first, handle.future(), pure=False)

    def _part_of(self, handle: _Remote, start: int, stop: int) -> Callable[[], Any]:
        return lambda: self.client.submit(_part, handle.future(), start, stop, pure=False)

    def _check_scheduler(self, error: BaseException) -> None:
        if self.client.status == "running" and "scheduler" not in str(error):
            return
        raise ClusterError(
            f"the connection to the Dask scheduler was lost ({error}). The model is as it was "
            "before this call; go on from it, or from its last checkpoint, on another cluster."
        ) from error

    # ------------------------------------------------------------------ tasks

    def _grouped(self, items: Sequence[Any]) -> list[list[list[Any]]]:
        """Runs of items that are held together, in groups that are sent to one worker each.

        Groups have a power of two of runs, so that sums of groups are nodes of the tree of
        additions: the bits do not depend on how many groups there are.
        """
        alone = together(items)
        most = _TASKS_PER_WORKER * self.n_workers
        size = 1
        while size * most < len(alone):
            size *= 2
        return [alone[i : i + size] for i in range(0, len(alone), size)]

    def _results(self, work: Any, groups: list[list[list[Any]]], shared: Any) -> list[Any]:
        call = _Call(self.client, shared)
        found = self.patiently(lambda: self.client.gather(self._submitted(work, groups, call)))
        return list(found)

    def _submitted(self, work: Any, groups: list[list[list[Any]]], call: _Call) -> list[Any]:
        self._bring([run for group in groups for run in group])
        argument = call.argument()
        futures = []
        for group in groups:
            slots: list[Any] = []
            recipe = [[self._packed(item, slots) for item in run] for run in group]
            futures.append(self.client.submit(work, argument, recipe, *slots, pure=False))
        return futures

    def _bring(self, groups: list[list[Any]]) -> None:
        """Send the chunks that are not on a worker, or no longer."""
        missing = {}
        for run in groups:
            piece = run[0]
            if isinstance(piece, Piece) and piece.chunk is not None:
                held = self._held.get(piece.home)
                if held is None or held.status in ("cancelled", "lost"):
                    missing[piece.home] = piece
        if not missing:
            return
        chunks = [piece.source[piece.chunk] for piece in missing.values()]
        for piece, future in zip(
            missing.values(), self.client.scatter(chunks, hash=False), strict=True
        ):
            self._held[piece.home] = future
            self._sources.append(piece.source)

    def _packed(self, item: Any, slots: list[Any]) -> Any:
        """The item with numbers of slots for what is on workers already."""
        if isinstance(item, Piece):
            if item.chunk is None:
                future = item.source.future()
            else:
                future = self._held[item.home]
            return _InSlot(_slot(slots, future), item.where, item.along)
        if isinstance(item, _Remote):
            return _InSlot(_slot(slots, item.future()))
        if type(item) is tuple:
            return tuple(self._packed(part, slots) for part in item)
        return item


def _slot(slots: list[Any], future: Any) -> int:
    for number, known in enumerate(slots):
        if known is future:
            return number
    slots.append(future)
    return len(slots) - 1


class _InSlot:
    """Stands for what is held on the worker: all of it, or a run of it with something along."""

    def __init__(self, slot: int, where: slice | None = None, along: Any = None) -> None:
        self.slot, self.where, self.along = slot, where, along

    def unpacked(self, held: Sequence[Any]) -> Any:
        whole = held[self.slot]
        if self.where is None:
            return whole
        return Piece(None, None, self.where, self.along).of(whole)


class _Call:
    """Task and what is shared, sent with every task if small, else once to each worker."""

    def __init__(self, client: Any, call: tuple[Any, Any]) -> None:
        self._client, self._packed = client, cloudpickle.dumps(call, 5)
        self._future: Any = None

    def argument(self) -> Any:
        if len(self._packed) <= _SMALL:
            return self._packed
        if self._future is None or self._future.status in ("cancelled", "lost"):
            # A task, not scattered data: what the scheduler knows how to make, it makes again.
            self._future = self._client.submit(_unpacked, self._packed, pure=False)
        return self._future


# ------------------------------------------------------------------ on the workers


def _unpacked(call: bytes) -> Any:
    return cloudpickle.loads(call)


def _items(recipe: list[list[Any]], held: tuple[Any, ...]) -> list[list[Any]]:
    def whole(item: Any) -> Any:
        if isinstance(item, _InSlot):
            return item.unpacked(held)
        return tuple(whole(part) for part in item) if type(item) is tuple else item

    return [[whole(item) for item in run] for run in recipe]


def _each(call: Any, recipe: list[list[Any]], *held: Any) -> list[Any]:
    task, shared = _unpacked(call) if isinstance(call, bytes) else call
    with one_blas_thread():
        return [task(shared, item) for run in _items(recipe, held) for item in run]


def _sum(call: Any, recipe: list[list[Any]], *held: Any) -> tuple[Any, list[Any]]:
    task, shared = _unpacked(call) if isinstance(call, bytes) else call
    results = (task(shared, item) for run in _items(recipe, held) for item in run)
    with one_blas_thread():
        return summed(results, [len(run) for run in recipe])


def _checked(check: Callable[[Any], tuple[Any, Any]], chunk: Any) -> tuple[Any, Any]:
    with one_blas_thread():
        return check(chunk)


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _part(pair: tuple[Any, list[Any]], start: int, stop: int) -> list[Any]:
    return pair[1][start:stop]


# ------------------------------------------------------------------ opening


@contextmanager
def open_cluster(engine: Any, most_workers: int | None = None) -> Iterator[DaskEngine]:
    """An engine on the cluster meant by "dask", an address or a client, for one call.

    "dask" takes the client that is open in this process, or starts workers on this machine and
    stops them after the call.
    """
    with ExitStack() as stack:
        here = stack.enter_context(open_local(None, most_workers))
        client = _client(engine, stack)
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError as error:
            raise ClusterError(f"{client!r} has no worker after {_PATIENCE:g} seconds") from error
        found = DaskEngine(client, here)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def open_client(engine: Any) -> Iterator[Any]:
    """The client that `open_cluster` would use, for many calls."""
    with ExitStack() as stack:
        yield _client(engine, stack)


def _client(engine: Any, stack: ExitStack) -> Any:
    if isinstance(engine, distributed.Client):
        if engine.status != "running":
            raise ClusterError(f"the client given as engine is {engine.status}")
        return engine
    if engine == "dask":
        try:
            return distributed.default_client()
        except ValueError:
            return stack.enter_context(_local_cluster())
    try:
        return stack.enter_context(
            distributed.Client(engine, timeout=_PATIENCE, set_as_default=False)
        )
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {engine!r}: {error}") from error


@contextmanager
def _local_cluster() -> Iterator[Any]:
    """One worker process for each core, with one thread each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Port .* is already in use")
        cluster = distributed.LocalCluster(
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client
