"""An engine of worker processes, on this machine or on many, with Dask.

Data go to the workers once and stay there. A step is one Dask task for each group of chunks. The
task gets the shared arguments and returns a sum. Sums are added in the order of the local engines,
so the bits are the same on any number of workers. If a worker dies, its chunks are sent again and
its tasks run on another one.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import accumulate, pairwise, zip_longest
from typing import Any, TypeVar
from uuid import uuid4

import dask
import distributed
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from everlearn.core.stats import Summable, total
from everlearn.engine import dask_data as worker
from everlearn.engine.dask_data import (
    Call,
    Group,
    Part,
    Recipe,
    Remote,
    Sent,
    grouped,
    remote_in,
)
from everlearn.engine.local import open_local
from everlearn.engine.opening import EngineChoice
from everlearn.engine.protocol import Engine, Handle, Piece
from everlearn.errors import ClusterError

S = TypeVar("S", bound=Summable)
T = TypeVar("T")
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")
_ATTEMPTS = 5
_LOST = (CancelledError, KilledWorker, CommClosedError, OSError)
log = logging.getLogger("everlearn.engine")


class _TaskError(Exception):
    """An error of any type that a task itself raised. The cluster is not at fault."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _failed(future: Any) -> bool:
    """Whether the task itself raised an error. One that was lost with its worker did not."""
    return future.status == "error" and not isinstance(future.exception(), KilledWorker)


class DaskEngine:
    """Runs tasks on the workers of a Dask cluster."""

    def __init__(self, client: Any, local: Engine) -> None:
        self.client, self._local = client, local
        self._sent = Sent(client)
        self._find_workers()

    @property
    def local(self) -> Engine:
        return self._local

    def _find_workers(self) -> None:
        """Find out which workers there are."""
        if self.client.status != "running":
            raise scheduler_lost(CommClosedError(f"the client is {self.client.status}"))
        try:
            threads = self.client.nthreads()
        except (CommClosedError, OSError) as error:
            raise scheduler_lost(error) from error
        self._workers = sorted(threads)
        self.n_workers = max(1, sum(threads.values()))

    # ------------------------------------------------------------------ the engine

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        if not items:
            return []
        _, infos = self._results(worker.each, self._grouped(items), (task, shared))
        return infos

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        groups = self._grouped(items)
        sums, infos = self._results(worker.added, groups, (task, shared))
        return total(sums, [group.height for group in groups]), infos

    def map_sum_and_keep(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        groups = self._grouped(items)
        call = Call(self.client, (task, shared), len(groups))
        futures = self.with_retries(lambda: self._submitted(worker.added, groups, call))

        def again(group: Group) -> Callable[[], Any]:
            return lambda: self._submitted(worker.added, [group], call)[0]

        handles = [
            Remote(self, again(group), group.home, future)
            for group, future in zip(groups, futures, strict=True)
        ]
        sums = self._fetched(worker.first, handles)
        return total(sums, [group.height for group in groups]), _parts(groups, handles)

    # ------------------------------------------------------------------ data on workers

    def hold(
        self, chunks: Sequence[Any], check: Callable[[Any], tuple[Any, Info]]
    ) -> tuple[Sequence[Handle], list[Info]]:
        """Check each chunk on its worker. Return handles of the results, and the reports.

        `check` runs on the worker that has the chunk. It returns two values: the first stays on
        the worker, the second is a report for this process.
        """
        raw = self._computed([dask.delayed(chunk) for chunk in chunks])

        def made(future: Any) -> Callable[[], Any]:
            return lambda: self.client.submit(worker.checked, check, future, pure=False)

        def stays(handle: Remote) -> Callable[[], Any]:
            return lambda: self.client.submit(worker.first, handle.future(), pure=False)

        checked = [Remote(self, made(future)) for future in raw]
        infos = self._fetched(worker.second, checked)
        firsts = [Remote(self, stays(handle)) for handle in checked]
        where = self.with_retries(
            lambda: self.client.who_has([handle.future() for handle in checked])
        )
        for handle, source in zip(firsts, checked, strict=True):
            handle.home = next(iter(where.get(source.future().key, ())), None)
        return firsts, infos

    def _computed(self, chunks: list[Any]) -> list[Any]:
        """Futures of the chunks. Chunks on workers stay there. The others are sent out in runs.

        A batch takes every n-th chunk, so all workers have the same share of it.
        """
        if distributed.futures_of(chunks):
            return list(self.client.compute(chunks))
        edges = [len(chunks) * i // len(self._workers) for i in range(len(self._workers) + 1)]
        futures = []
        for address, run in zip(self._workers, pairwise(edges), strict=True):
            some = chunks[slice(*run)]
            futures += self.client.compute(some, workers=[address], allow_other_workers=True)
        return futures

    def fetch_chunks(self, chunks: Sequence[Any]) -> Iterator[Any]:
        """The chunks of a collection in this process, one after the other."""
        handles = [
            Remote(self, partial(self.client.compute, chunk), future=future)
            for chunk, future in zip(chunks, self._computed(list(chunks)), strict=True)
        ]
        handles.reverse()
        while handles:
            yield handles.pop().fetch()

    def close(self) -> None:
        """Release all data that were sent to workers."""
        self._sent.clear()

    def with_retries(self, work: Callable[[], T]) -> T:
        """The result of work that is repeated if a worker is lost."""
        # Tasks are pure, so repeating them is safe. Sums keep their order, so the result has the
        # same bits. The limit stops a task that kills every worker it runs on.
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except _TaskError as failed:
                raise failed.error from None
            except _LOST as error:
                self._after_loss(error, attempt + 1)
        raise AssertionError

    def gathered(self, futures: Sequence[Any]) -> list[Any]:
        """The results of futures, within work that `with_retries` repeats."""
        try:
            return list(self.client.gather(futures))
        except _LOST as error:
            if any(_failed(future) for future in futures):
                raise _TaskError(error) from error
            raise

    def _fetched(self, what: Callable[[Any], Any], handles: Sequence[Remote]) -> list[Any]:
        """Fetch a part of each handle's value into this process."""

        def parts() -> Any:
            return self.client.map(what, [handle.future() for handle in handles], pure=False)

        return self.with_retries(lambda: self.gathered(parts()))

    def _after_loss(self, error: BaseException, times: int) -> None:
        """Find the remaining workers, or raise a ClusterError."""
        if self.client.status != "running" or _by_scheduler(error):
            raise scheduler_lost(error) from error
        if times >= _ATTEMPTS:
            raise ClusterError(
                f"{_ATTEMPTS} times a worker was lost during the same step: {error}. Workers may "
                "have too little memory for their chunks."
            ) from error
        log.info("a worker was lost, its work is done again: %s", error)
        self._find_workers()

    # ------------------------------------------------------------------ tasks

    def _grouped(self, items: Sequence[Any]) -> list[Group]:
        groups = grouped(items, self._workers, self.n_workers, self._home)
        self._sent.settle(groups)
        return groups

    def _home(self, item: Any) -> str | None:
        """The worker that holds what an item needs, if one does and is still there."""
        remote = remote_in(item)
        home = remote.home if remote is not None else None
        if remote is None and isinstance(item, Piece):
            home = self._sent.home(item)
        return home if home in self._workers else None

    def _results(
        self, work: Callable[..., Any], groups: list[Group], call: tuple[Any, Any]
    ) -> tuple[list[Any], list[Any]]:
        """A sum of each group, and the second results of all items."""
        sent = Call(self.client, call, len(groups))
        results = self.with_retries(lambda: self.gathered(self._submitted(work, groups, sent)))
        sums = [part for part, _ in results]
        return sums, [info for _, infos in results for info in infos]

    def _submitted(self, work: Any, groups: list[Group], call: Call) -> list[Any]:
        """Futures of the tasks, sent as one message: Dask holds back a second one for a moment."""
        self._sent.send_missing((run for group in groups for run in group.runs), self._home)
        recipes = [Recipe(group.runs, self._sent.futures) for group in groups]
        argument = call.argument()
        columns = zip_longest(*(recipe.slots for recipe in recipes))
        keys = [f"{work.__name__}-{uuid4().hex}" for _ in groups]
        homes = {key: [group.home] for key, group in zip(keys, groups, strict=True)}
        # An idle worker must not fetch data just to be busy. Others help only if this one is lost.
        with dask.annotate(workers=homes.__getitem__, allow_other_workers=True):
            given = [[argument] * len(groups), [recipe.runs for recipe in recipes], *columns]
            return list(self.client.map(work, *given, key=keys, pure=False))


def _parts(groups: Sequence[Group], handles: Sequence[Remote]) -> list[Handle]:
    """A handle for each run of each group: its part of what the worker keeps."""
    found: list[Handle] = []
    for group, handle in zip(groups, handles, strict=True):
        ends = accumulate(map(len, group.runs), initial=0)
        found += [Part(handle, start, stop) for start, stop in pairwise(ends)]
    return found


def _by_scheduler(error: BaseException) -> bool:
    """Whether futures were cancelled because their scheduler is gone."""
    groups = getattr(error, "error_groups", [error])
    return any(str(getattr(group, "reason", "")).startswith("scheduler") for group in groups)


def scheduler_lost(error: BaseException) -> ClusterError:
    """The error for a lost connection: it says that the model is as it was."""
    return ClusterError(
        f"the connection to the Dask scheduler was lost ({error}). The model is as it was before "
        "this call; go on from it, or from its last checkpoint, on another cluster."
    )


_PATIENCE = 30.0
"""Seconds to wait for a scheduler, or for the first worker."""
_SETTINGS = {
    # Idle workers must not fetch chunks from others: chunks would travel again and again.
    "distributed.scheduler.work-stealing": False,
    # Steps allocate and free blocks of a few megabytes. By default workers return each one to the
    # system and get it again page by page, which takes a quarter of the time of a step.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 * 2**20,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 * 2**20,
    # No dashboard is open, and profiling for it takes a seventh of a core.
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "500ms",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


@contextmanager
def open_cluster(engine: EngineChoice, most_workers: int | None = None) -> Iterator[DaskEngine]:
    """An engine on the cluster meant by "dask", an address or a client, for one call.

    "dask" takes the client that is open in this process, or starts workers on this machine and
    stops them after the call.
    """
    with ExitStack() as stack:
        local = stack.enter_context(open_local(None, most_workers))
        client = _client(engine, stack)
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError as error:
            raise ClusterError(f"{client!r} has no worker after {_PATIENCE:g} seconds") from error
        except (CommClosedError, OSError) as error:
            raise scheduler_lost(error) from error
        found = DaskEngine(client, local)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def open_client(engine: EngineChoice) -> Iterator[Any]:
    """The client that `open_cluster` would use, for many calls."""
    with ExitStack() as stack:
        yield _client(engine, stack)


def _client(engine: EngineChoice, stack: ExitStack) -> Any:
    if isinstance(engine, distributed.Client):
        if engine.status == "connecting":  # again: a new client waits for its scheduler
            raise scheduler_lost(CommClosedError("the client given as engine is connecting"))
        if engine.status != "running":
            raise ClusterError(f"the client given as engine is {engine.status}")
        return _synchronous(engine)
    if engine == "dask":
        try:
            return _synchronous(distributed.default_client())
        except ValueError:
            return stack.enter_context(local_workers())
    try:
        return stack.enter_context(
            distributed.Client(engine, timeout=_PATIENCE, set_as_default=False)
        )
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {engine!r}: {error}") from error


def _synchronous(client: Any) -> Any:
    """The client, or an error if its calls return before they are done."""
    if client.asynchronous:
        raise ClusterError(
            f"{client!r} is asynchronous, and learning waits for its steps: open a client without "
            "asynchronous=True, or learn in a thread of its own"
        )
    return client


@contextmanager
def local_workers(n_workers: int | None = None, *, processes: bool = True) -> Iterator[Any]:
    """A client of workers on this machine, with one thread each. None means one for each core.

    With `processes=False` they are threads of this process: quick to start, for tests.
    """
    with warnings.catch_warnings(), dask.config.set(_SETTINGS):
        warnings.filterwarnings("ignore", message="Port .* is already in use")
        try:
            cluster = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=processes,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:
            raise ClusterError(
                f"worker processes could not be started ({error}). They read the file of the "
                'program too: a script must learn below `if __name__ == "__main__":`.'
            ) from error
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client
