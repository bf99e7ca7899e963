"""The engine protocol: run tasks on pieces of data, and add up what they return.

All engines add in one order, which depends on the data alone: first within a chunk of 8,192 rows,
then over chunks. So results are the same to the bit, wherever the tasks run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, Protocol, TypeVar

from everlearn.core.stats import Summable, TreeSum

S = TypeVar("S", bound=Summable)
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")
CHUNK_ROWS = 8192
"""Rows that are kept together on one worker, and added up first."""


class Handle(Protocol):
    """Something that an engine holds, on this machine or on another.

    A task gets the thing itself where its item is a handle, or a tuple with handles.
    """

    def fetch(self) -> Any:
        """Bring it into this process."""


class Sliceable(Protocol):
    """Rows, documents or an array: anything with a length and slices."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A run of rows or documents: an item of which a task gets the rows themselves.

    An engine may copy the chunk to a worker, where it stays while the engine is open.

    Attributes
    ----------
    source : the data, or a handle of them
    chunk : the part of the data that one worker holds; None if the source is a handle
    where : the run, counted from the beginning of the chunk
    along : if not None, the task gets the pair (run, along)
    """

    source: Any
    chunk: slice | None
    where: slice
    along: Any = None

    @property
    def whole(self) -> slice:
        """The run, counted from the beginning of the source."""
        start = 0 if self.chunk is None else self.chunk.start
        return slice(start + self.where.start, start + self.where.stop)

    @property
    def home(self) -> tuple[int, int]:
        """A key that all pieces of a chunk share."""
        return id(self.source), 0 if self.chunk is None else self.chunk.start

    def of(self, held: Any) -> Any:
        """What the task gets. `held` is the chunk."""
        run = held[self.where]
        return run if self.along is None else (run, self.along)

    def load(self) -> Any:
        """What the task gets, if it runs in this process."""
        if self.chunk is None:
            return self.of(self.source.fetch())
        run = self.source[self.whole]
        return run if self.along is None else (run, self.along)


def runs(length: int, size: int) -> list[slice]:
    """Consecutive runs of at most `size`."""
    return [slice(i, min(i + size, length)) for i in range(0, length, size)]


def pieces(
    source: Sliceable, size: int, along: Callable[[slice], Any] | None = None
) -> list[Piece]:
    """Cut data into pieces of at most `size`, none of which crosses the border of a chunk.

    `along(run)` is what goes with a run of the source.
    """
    found = []
    for chunk in runs(len(source), CHUNK_ROWS):
        for where in runs(chunk.stop - chunk.start, size):
            whole = slice(chunk.start + where.start, chunk.start + where.stop)
            found.append(Piece(source, chunk, where, None if along is None else along(whole)))
    return found


def by_chunk(items: Sequence[Any]) -> list[list[Any]]:
    """Group consecutive pieces of the same chunk. Any other item is a group of its own."""
    homes = (
        item.home if isinstance(item, Piece) else (-1, number) for number, item in enumerate(items)
    )
    pairs = zip(homes, items, strict=True)
    return [[item for _, item in run] for _, run in groupby(pairs, key=lambda pair: pair[0])]


def add_up(
    results: Iterable[tuple[S, Info]], chunks: Iterable[Sequence[Any]]
) -> tuple[S, list[Info]]:
    """Sum the first results, within each chunk and then over chunks. List the second ones.

    Results are added as they arrive, so that few of them are in memory at the same time.
    """
    # Floating-point sums depend on their order. This one depends on the data alone, neither on
    # the engine nor on the number of workers: that is why all engines give the same bits.
    infos: list[Info] = []
    remaining = iter(results)
    whole = TreeSum[S]()
    for chunk in chunks:
        part_of_chunk = TreeSum[S]()
        for part, info in islice(remaining, len(chunk)):
            part_of_chunk.add(part)
            infos.append(info)
        whole.add(part_of_chunk.result())
    return whole.result(), infos


class Engine(Protocol):
    """Runs pure tasks `task(shared, item)`, and returns their results in the order of the items."""

    @property
    def n_workers(self) -> int:
        """How many tasks run at the same time."""

    @property
    def local(self) -> Engine:
        """An engine in this process, for tasks that are too small to send or write into arrays."""

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Any], shared: Shared
    ) -> list[Info]:
        """The results, in the order of `items`."""

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        """The sum of the first results, and the second results in the order of `items`."""

    def map_sum_and_keep(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        """As `map_sum`, but the second results stay on their workers.

        There is one handle for each chunk, of the list of its results.
        """


class ClusterEngine(Engine, Protocol):
    """An engine whose workers hold the chunks of a collection, such as a Dask array."""

    def hold(
        self, chunks: Sequence[Any], check: Callable[[Any], tuple[Any, Info]]
    ) -> tuple[Sequence[Handle], list[Info]]:
        """Handles of what `check` keeps of each chunk on its worker, and what it reports."""

    def fetch_chunks(self, chunks: Sequence[Any]) -> Iterator[Any]:
        """The chunks in this process, one after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalHandle:
    """A handle of something in this process."""

    value: Any

    def fetch(self) -> Any:
        return self.value


def resolve(item: Any) -> Any:
    """What a task in this process gets for an item."""
    if isinstance(item, Piece):
        return item.load()
    if isinstance(item, LocalHandle):
        return item.value
    if type(item) is tuple:
        return tuple(resolve(part) for part in item)
    return item
