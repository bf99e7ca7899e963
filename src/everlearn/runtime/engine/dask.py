"""An engine of worker processes, on this machine or on many, by way of Dask.

Data travel to the workers once and stay; a step sends what the tasks share and brings back sums.
Additions are made in the order of the local engines, so the bits are the same, whichever worker did
what. A worker that is lost costs the work it had: data that were on it are sent again.
"""

from __future__ import annotations

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from itertools import pairwise, zip_longest
from typing import Any, TypeVar
from uuid import uuid4

import dask
import distributed
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from everlearn.core.errors import ClusterError
from everlearn.core.stats import Summable, total
from everlearn.inference.engine import Handle, LocalEngine, Piece
from everlearn.runtime.engine import worker
from everlearn.runtime.engine.groups import Group, grouped
from everlearn.runtime.engine.remote import Call, Part, Recipe, Remote, by_home, remote_in

S = TypeVar("S", bound=Summable)
T = TypeVar("T")
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")
_ATTEMPTS = 5
_LOST = (CancelledError, KilledWorker, CommClosedError, OSError)
log = logging.getLogger("everlearn.engine")


class _TaskError(Exception):
    """A task of the user's raised an error, whatever its type: the cluster is well."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _failed(future: Any) -> bool:
    """Whether the task itself raised an error; one that was lost with its worker did not."""
    return future.status == "error" and not isinstance(future.exception(), KilledWorker)


class DaskEngine:
    """Runs tasks on the workers of a Dask cluster."""

    def __init__(self, client: Any, here: LocalEngine) -> None:
        self.client, self._here = client, here
        self._held: dict[tuple[int, int], Any] = {}
        self._homes: dict[tuple[int, int], str] = {}
        self._sources: dict[int, Any] = {}  # alive, or watched until they are gone
        self._look_around()

    @property
    def here(self) -> LocalEngine:
        return self._here

    def _look_around(self) -> None:
        """Which workers there are."""
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
        found = self._results(worker.each, self._grouped(items), (task, shared))
        return [info for infos in found for info in infos]

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        groups = self._grouped(items)
        found = self._results(worker.added, groups, (task, shared))
        whole = total((part for part, _ in found), [group.height for group in groups])
        return whole, [info for _, infos in found for info in infos]

    def map_sum_kept(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        groups = self._grouped(items)
        call = Call(self.client, (task, shared), len(groups))

        def made(group: Group) -> Callable[[], Any]:
            return lambda: self._submitted(worker.added, [group], call)[0]

        futures = self.patiently(lambda: self._submitted(worker.added, groups, call))
        handles = [
            Remote(self, made(group), group.home, future)
            for group, future in zip(groups, futures, strict=True)
        ]
        sums = self._told(worker.first, handles)
        infos: list[Handle] = []
        for group, handle in zip(groups, handles, strict=True):
            start = 0
            for run in group.runs:
                infos.append(Part(handle, start, start + len(run)))
                start += len(run)
        return total(sums, [group.height for group in groups]), infos

    def as_they_come(
        self,
        task: Callable[[Shared, Item], Info],
        items: Sequence[Any],
        shared: Callable[[], Shared],
    ) -> Iterator[tuple[int, Info]]:
        waiting = list(reversed(range(len(items))))
        running: dict[Any, int] = {}
        losses: Counter[int] = Counter()

        def send() -> Any:
            number = waiting.pop()
            item = items[number]
            home = self._home(item) or self._workers[number % len(self._workers)]
            group = Group([[item]], home)
            self._settle([group])
            call = Call(self.client, (task, shared()), 1)
            future = self._submitted(worker.each, [group], call)[0]
            running[future] = number
            return future

        first = [send() for _ in range(min(2 * self.n_workers, len(items)))]
        ready = distributed.as_completed(first, loop=self.client.loop)
        for future in ready:
            number = running.pop(future)
            try:
                (found,) = future.result()
            except _LOST as error:
                if _failed(future):
                    raise
                losses[number] += 1
                self._after_loss(error, losses[number])
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
        raw = self._computed([dask.delayed(chunk) for chunk in chunks])

        def made(future: Any) -> Callable[[], Any]:
            return lambda: self.client.submit(worker.checked, check, future, pure=False)

        def stays(handle: Remote) -> Callable[[], Any]:
            return lambda: self.client.submit(worker.first, handle.future(), pure=False)

        checked = [Remote(self, made(future)) for future in raw]
        infos = self._told(worker.second, checked)
        firsts = [Remote(self, stays(handle)) for handle in checked]
        where = self.patiently(lambda: self.client.who_has([handle.future() for handle in checked]))
        for handle, source in zip(firsts, checked, strict=True):
            handle.home = next(iter(where.get(source.future().key, ())), None)
        return firsts, infos

    def _computed(self, chunks: list[Any]) -> list[Any]:
        """Futures of the chunks: where they are, or else each worker has a run of neighbours.

        Batches take every so many chunks, so that then all workers have as much of each batch.
        """
        if distributed.futures_of(chunks):
            return list(self.client.compute(chunks))
        edges = [len(chunks) * i // len(self._workers) for i in range(len(self._workers) + 1)]
        futures = []
        for address, run in zip(self._workers, pairwise(edges), strict=True):
            some = chunks[slice(*run)]
            futures += self.client.compute(some, workers=[address], allow_other_workers=True)
        return futures

    def brought(self, chunks: Sequence[Any]) -> Iterator[Any]:
        """The chunks of a collection in this process, one after the other."""
        handles = [
            Remote(self, partial(self.client.compute, chunk), future=future)
            for chunk, future in zip(chunks, self._computed(list(chunks)), strict=True)
        ]
        handles.reverse()
        while handles:
            yield handles.pop().fetch()

    def close(self) -> None:
        """Let go of all data that were sent."""
        for kept in (self._held, self._homes, self._sources):
            kept.clear()

    def patiently(self, work: Callable[[], T]) -> T:
        """The result of work that may be done again, as it must be when a worker is lost."""
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except _TaskError as failed:
                raise failed.error from None
            except _LOST as error:
                self._after_loss(error, attempt + 1)
        raise AssertionError

    def gathered(self, futures: Sequence[Any]) -> list[Any]:
        """The results, within work that is done patiently."""
        try:
            return list(self.client.gather(futures))
        except _LOST as error:
            if any(_failed(future) for future in futures):
                raise _TaskError(error) from error
            raise

    def _told(self, what: Callable[[Any], Any], handles: Sequence[Remote]) -> list[Any]:
        """A part of what each handle stands for, brought here."""

        def told() -> Any:
            return self.client.map(what, [handle.future() for handle in handles], pure=False)

        return self.patiently(lambda: self.gathered(told()))

    def _after_loss(self, error: BaseException, times: int) -> None:
        """Look which workers are left, or give up."""
        if self.client.status != "running" or _by_scheduler(error):
            raise scheduler_lost(error) from error
        if times >= _ATTEMPTS:
            raise ClusterError(
                f"{_ATTEMPTS} times a worker was lost during the same step: {error}. Workers may "
                "have too little memory for their chunks."
            ) from error
        log.info("a worker was lost, its work is done again: %s", error)
        self._look_around()

    # ------------------------------------------------------------------ tasks

    def _grouped(self, items: Sequence[Any]) -> list[Group]:
        groups = grouped(items, self._workers, self.n_workers, self._home)
        self._settle(groups)
        return groups

    def _settle(self, groups: Sequence[Group]) -> None:
        """Remember which workers get the chunks of data that are in this process."""
        for group in groups:
            for run in group.runs:
                if isinstance(run[0], Piece) and run[0].chunk is not None:
                    self._homes[run[0].home] = group.home

    def _home(self, item: Any) -> str | None:
        """The worker that holds what an item needs, if one does and is still there."""
        remote = remote_in(item)
        home = remote.home if remote is not None else None
        if remote is None and isinstance(item, Piece):
            home = self._homes.get(item.home)
        return home if home in self._workers else None

    def _results(self, work: Any, groups: list[Group], shared: Any) -> list[Any]:
        call = Call(self.client, shared, len(groups))

        return self.patiently(lambda: self.gathered(self._submitted(work, groups, call)))

    def _submitted(self, work: Any, groups: list[Group], call: Call) -> list[Any]:
        """Futures of the tasks, sent as one message: a second one would wait for more to say."""
        self._send_missing([run for group in groups for run in group.runs])
        argument = call.argument()
        recipes = [Recipe(group.runs, self._held) for group in groups]
        columns = zip_longest(*(recipe.slots for recipe in recipes))
        keys = [f"{work.__name__}-{uuid4().hex}" for _ in groups]
        homes = {key: [group.home] for key, group in zip(keys, groups, strict=True)}
        # Nobody is meant to fetch data in order to be busy; elsewhere only if it must be.
        with dask.annotate(workers=homes.__getitem__, allow_other_workers=True):
            given = [[argument] * len(groups), [recipe.runs for recipe in recipes], *columns]
            return list(self.client.map(work, *given, key=keys, pure=False))

    def _send_missing(self, groups: list[list[Any]]) -> None:
        """Send the chunks that are not on a worker, or no longer."""
        missing = {}
        for run in groups:
            piece = run[0]
            if isinstance(piece, Piece) and piece.chunk is not None:
                held = self._held.get(piece.home)
                if held is None or held.status in ("cancelled", "lost"):
                    missing[piece.home] = piece
        for home, some in by_home(missing.values(), self._home):
            chunks = [piece.source[piece.chunk] for piece in some]
            workers = None if home is None else [home]
            sent = self.client.scatter(chunks, workers=workers, hash=False)
            for piece, future in zip(some, sent, strict=True):
                self._held[piece.home] = future
                self._watch(piece.source)

    def _watch(self, source: Any) -> None:
        """Let go of what was sent of some data when nobody has the data any more."""
        number = id(source)
        if number in self._sources:
            return

        def forget(_: Any) -> None:
            self._sources.pop(number, None)
            for kept in (self._held, self._homes):
                for home in [home for home in kept if home[0] == number]:
                    del kept[home]

        try:
            self._sources[number] = weakref.ref(source, forget)
        except TypeError:  # alive, so that no other object gets the same identity
            self._sources[number] = source


def _by_scheduler(error: BaseException) -> bool:
    """Whether futures were cancelled because their scheduler is gone."""
    groups = getattr(error, "error_groups", [error])
    return any(str(getattr(group, "reason", "")).startswith("scheduler") for group in groups)


def scheduler_lost(error: BaseException) -> ClusterError:
    """What the caller is told."""
    return ClusterError(
        f"the connection to the Dask scheduler was lost ({error}). The model is as it was before "
        "this call; go on from it, or from its last checkpoint, on another cluster."
    )
