"""Group tasks by the workers that hold their data, and send data that no worker holds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar

import cloudpickle

from everlearn.core.stats import LAST
from everlearn.engine.local import one_blas_thread
from everlearn.engine.protocol import Piece, add_up, by_chunk

TASKS_PER_THREAD = 2
"""Tasks per thread for items that no worker holds yet. Several even out the load of workers."""


class Group(NamedTuple):
    """Runs of items that are one task.

    home : the worker that the task is meant for
    start : number of runs of the groups before it
    height : height of the sum of its runs in the tree of additions, for `total`
    """

    runs: list[list[Any]]
    home: str
    start: int = 0
    height: int = 0


def grouped(
    items: Sequence[Any],
    workers: Sequence[str],
    n_threads: int,
    home: Callable[[Any], str | None],
) -> list[Group]:
    """Runs of items that are held together, in groups that are sent to one worker each.

    Groups have a power of two of runs, so that their sums are nodes of the tree of additions: the
    bits do not depend on how many groups there are. Runs that different workers hold, as `home`
    says of their first items, are in different groups; runs that no worker holds are dealt out.
    What a worker of one thread holds is as few groups as the tree allows.
    """
    alone = by_chunk(items)
    settled = n_threads == len(workers) and all(home(run[0]) is not None for run in alone)
    most = 1 if settled else TASKS_PER_THREAD * n_threads
    size = 1
    while size * most < len(alone):
        size *= 2
    found: list[list[list[Any]]] = []
    for i in range(0, len(alone), size):
        found += _halved(alone[i : i + size], size, home)
    starts = accumulate(map(len, found), initial=0)
    heights = [len(runs).bit_length() - 1 for runs in found[:-1]] + [LAST]
    return [
        Group(runs, home(runs[0][0]) or workers[number % len(workers)], start, height)
        for number, (runs, start, height) in enumerate(zip(found, starts, heights, strict=False))
    ]


def _halved(
    runs: list[list[Any]], size: int, home: Callable[[Any], str | None]
) -> list[list[list[Any]]]:
    """The runs as one group if one worker holds them, else in two halves, and so on."""
    if size == 1 or len({home(run[0]) for run in runs}) <= 1:
        return [runs]
    half = size // 2
    parts = [part for part in (runs[:half], runs[half:]) if part]
    return [group for part in parts for group in _halved(part, half, home)]


class InSlot:
    """A placeholder for data that the worker holds: all of them, or a run with its companion.

    slot : position of the data among those that the worker has for the task
    where : the run; None means all data
    along : if not None, the task gets the pair (run, along)
    kept : the data are a pair of a sum and of results that were kept; the run is one of the latter
    """

    def __init__(
        self, slot: int, where: slice | None = None, along: Any = None, kept: bool = False
    ) -> None:
        self.slot, self.where, self.along, self.kept = slot, where, along, kept

    def unpacked(self, held: Sequence[Any]) -> Any:
        """What the task gets. `held` is what the worker has, by slot."""
        whole = held[self.slot][1] if self.kept else held[self.slot]
        if self.where is None:
            return whole
        return Piece(None, None, self.where, self.along).of(whole)


def unpacked(packed: bytes) -> Any:
    """A task and what it shares, or runs of items."""
    return cloudpickle.loads(packed)


def each(call: Any, recipe: bytes, *held: Any) -> tuple[None, list[Any]]:
    """No sum, and the results of all items."""
    task, shared = unpacked(call) if isinstance(call, bytes) else call
    with one_blas_thread():
        return None, [task(shared, item) for run in _items(recipe, held) for item in run]


def added(call: Any, recipe: bytes, *held: Any) -> tuple[Any, list[Any]]:
    """The sum of the first results, and the second ones."""
    task, shared = unpacked(call) if isinstance(call, bytes) else call
    runs = _items(recipe, held)
    with one_blas_thread():
        results = (task(shared, item) for run in runs for item in run)
        return add_up(results, runs)


def checked(check: Callable[[Any], tuple[Any, Any]], chunk: Any) -> tuple[Any, Any]:
    """What the worker keeps of a chunk, and the report on it."""
    with one_blas_thread():
        return check(chunk)


def first(pair: tuple[Any, Any]) -> Any:
    """The first of two."""
    return pair[0]


def second(pair: tuple[Any, Any]) -> Any:
    """The second of two."""
    return pair[1]


def _items(recipe: bytes, held: tuple[Any, ...]) -> list[list[Any]]:
    def whole(item: Any) -> Any:
        if isinstance(item, InSlot):
            return item.unpacked(held)
        return tuple(whole(p) for p in item) if type(item) is tuple else item

    return [[whole(item) for item in run] for run in unpacked(recipe)]


T = TypeVar("T")
_SMALL = 262_144
"""Bytes that are sent with the tasks of a step, in all, without a task of their own."""
_GONE = ("cancelled", "error", "lost")


class Retrying(Protocol):
    """An engine that fetches results, and repeats work if a worker is lost."""

    def gathered(self, futures: Sequence[Any]) -> list[Any]:
        """The results of futures, within work that may be done again."""

    def with_retries(self, work: Callable[[], T]) -> T:
        """The result of work that may be done again."""


class Remote:
    """A handle of a value on a worker. It is computed on first use, and again if it is lost."""

    def __init__(
        self,
        engine: Retrying,
        make: Callable[[], Any],
        home: str | None = None,
        future: Any = None,
    ) -> None:
        self._engine, self._make, self._future = engine, make, future
        self.home = home
        """The worker, if it is known."""

    def future(self) -> Any:
        """The future, made again if what it stood for is lost."""
        if self._future is None or self._future.status in _GONE:
            self._future = self._make()
        return self._future

    def fetch(self) -> Any:
        return self._engine.with_retries(lambda: self._engine.gathered([self.future()]))[0]


class Part:
    """A handle of some of the second results that a task left on its worker."""

    def __init__(self, kept: Remote, start: int, stop: int) -> None:
        self.kept, self.start, self.stop = kept, start, stop

    def fetch(self) -> Any:
        return self.kept.fetch()[1][self.start : self.stop]


def remote_in(item: Any) -> Remote | None:
    """The handle of what an item has on a worker, if anything."""
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
    """Runs of items for a worker, pickled. Data that are on workers already have an `InSlot`.

    slots : futures of the data on workers
    held : futures of chunks that this process has sent, by `Piece.home`
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
    """A task and what its calls share: sent with each of the `n_tasks` tasks if it is small.

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
            self._future = self._client.submit(unpacked, self.packed, pure=False)
        return self._future


class Sent:
    """Chunks that were sent, for as long as this process has the data.

    futures : of the chunks, by `Piece.home`
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.futures: dict[tuple[int, int], Any] = {}
        self._homes: dict[tuple[int, int], str] = {}
        self._sources: dict[int, Any] = {}  # alive, or watched until they are gone

    def clear(self) -> None:
        """Let go of all of them."""
        for kept in (self.futures, self._homes, self._sources):
            kept.clear()

    def settle(self, groups: Iterable[Group]) -> None:
        """Remember which workers get the chunks."""
        for group in groups:
            for run in group.runs:
                if isinstance(run[0], Piece) and run[0].chunk is not None:
                    self._homes[run[0].home] = group.home

    def home(self, piece: Piece) -> str | None:
        """The worker that has a chunk, or gets it."""
        return self._homes.get(piece.home)

    def send_missing(self, runs: Iterable[list[Any]], home: Callable[[Any], str | None]) -> None:
        """Send the chunks that are not on a worker, or no longer."""
        missing = {}
        for run in runs:
            piece = run[0]
            if isinstance(piece, Piece) and piece.chunk is not None:
                held = self.futures.get(piece.home)
                if held is None or held.status in ("cancelled", "lost"):
                    missing[piece.home] = piece
        for address, some in by_home(missing.values(), home):
            chunks = [piece.source[piece.chunk] for piece in some]
            workers = None if address is None else [address]
            try:
                sent = self._client.scatter(chunks, workers=workers, hash=False)
            except KeyError as error:
                raise ConnectionError(f"the scheduler has lost {address}") from error
            for piece, future in zip(some, sent, strict=True):
                self.futures[piece.home] = future
                self._watch(piece.source)

    def _watch(self, source: Any) -> None:
        """Forget the chunks of some data as soon as this process has dropped the data."""
        number = id(source)
        if number in self._sources:
            return

        def forget(_: Any) -> None:
            self._sources.pop(number, None)
            for kept in (self.futures, self._homes):
                for home in [home for home in kept if home[0] == number]:
                    del kept[home]

        try:
            self._sources[number] = weakref.ref(source, forget)
        except TypeError:  # alive, so that no other object gets the same identity
            self._sources[number] = source
