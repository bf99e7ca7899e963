"""Where local steps run: the few things learners ask of an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, TypeVar

from everlearn.attic.inference_shifts import Shift
from everlearn.core.stats import Summable, total

S = TypeVar("S", bound=Summable)
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")
Part = Callable[[], object]
Share = Callable[[Part], None]
"""Calls a part of some work, which others may call at the same time, until all of it is done."""
_MOMENT = 1e-4
"""Seconds between looks at whether others are done."""
CHUNK_ROWS = 8192
"""Rows of data in this process that an engine moves together, and adds up first."""


def alone(part: Part) -> None:
    """Work that nobody takes part in."""
    part()


def among(engine: LocalEngine, most: int) -> Share:
    """Shares the work of up to `most` calls out among the threads of an engine."""
    return lambda part: engine.join(_call, part, most)


def _call(part: Part) -> None:
    part()


def wait_until(done: Callable[[], bool], check: Part = lambda: None) -> None:
    """Wait for others; `check` raises an error if one of them has failed."""
    while not done():
        check()
        time.sleep(_MOMENT)


class Handle(Protocol):
    """Something that an engine holds; where, is the engine's business.

    Tasks get what is held in place of the handle, also where it is one of the parts of a tuple.
    """

    def fetch(self) -> Any:
        """What is held, brought into this process."""


class Sliceable(Protocol):
    """Rows, documents, arrays: whatever has runs."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A run of data that stay where they are from step to step; tasks get the run.

    Attributes
    ----------
    source : the data, or a handle of them; an engine may hold data elsewhere while it is open,
        and knows them again by their identity
    chunk : the part of the data that is held in one place; None if a handle holds all of it
    where : the run, counted from the beginning of the chunk
    along : what the task gets beside the run, as a pair, unless it is None
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
        """Pieces with the same one are held together."""
        return id(self.source), 0 if self.chunk is None else self.chunk.start

    def of(self, held: Any) -> Any:
        """What the task gets, out of the chunk."""
        run = held[self.where]
        return run if self.along is None else (run, self.along)

    def here(self) -> Any:
        """What the task gets, if the data are in this process."""
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
    """Runs of at most `size`, none of which crosses the border of a chunk.

    `along` tells what goes with a run of the source.
    """
    found = []
    for chunk in runs(len(source), CHUNK_ROWS):
        for where in runs(chunk.stop - chunk.start, size):
            whole = slice(chunk.start + where.start, chunk.start + where.stop)
            found.append(Piece(source, chunk, where, None if along is None else along(whole)))
    return found


def together(items: Sequence[Any]) -> list[list[Any]]:
    """Runs of items that are held in one place; any item that is no piece is alone."""
    homes = (
        item.home if isinstance(item, Piece) else (-1, number) for number, item in enumerate(items)
    )
    pairs = zip(homes, items, strict=True)
    return [[item for _, item in run] for _, run in groupby(pairs, key=lambda pair: pair[0])]


def summed(results: Iterable[tuple[S, Info]], sizes: Iterable[int]) -> tuple[S, list[Info]]:
    """Sum of the first results, in runs of these sizes and then over the runs; the second ones.

    Sums are added as they come, so that they do not pile up.
    """
    infos: list[Info] = []
    remaining = iter(results)

    def run(size: int) -> Iterator[S]:
        for _ in range(size):
            part, info = next(remaining)
            infos.append(info)
            yield part

    return total(total(run(size)) for size in sizes), infos


class Engine(Protocol):
    """Runs pure tasks and gives back what they return, in the order of the items."""

    @property
    def n_workers(self) -> int:
        """How many tasks run side by side."""

    @property
    def here(self) -> LocalEngine:
        """An engine within this process, for tasks that write into its arrays."""

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
        """Sum of the first results, and the second results in the order of `items`.

        The order of the additions depends on the items alone: first over pieces that are held
        together, then over these sums.
        """

    def map_sum_kept(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Any],
        shared: Shared,
    ) -> tuple[S, list[Handle]]:
        """As `map_sum`, but the second results stay where they are made.

        There is a handle for each run of pieces that are held together, of a list.
        """

    def as_they_come(
        self,
        task: Callable[[Shared, Item], Info],
        items: Sequence[Any],
        shared: Callable[[], Shared],
    ) -> Generator[tuple[int, Info], None, None]:
        """Positions of items and their results, in the order in which they are ready.

        Each task gets what is shared at the moment when it is sent off. Whoever stops before the
        last closes it, so that nobody goes on.
        """


class LocalEngine(Engine, Protocol):
    """An engine whose workers see the memory of this process."""

    def shift(self) -> Shift:
        """The turns of the next piece of work, for which workers may linger already."""

    def join(self, task: Callable[[Shared], None], shared: Shared, most: int) -> None:
        """Call `task(shared)` at once in up to `most` workers, of which the caller is one.

        Calls must take turns at the parts of the work until none is left (`kernels.turns`):
        those that nobody has begun by then are left out.
        """

    def joined(
        self,
        task: Callable[[Shared], None],
        shared: Shared,
        most: int,
        done: Callable[[], bool] | None = None,
    ) -> AbstractContextManager[Callable[[], None]]:
        """As `join`, with something that the caller does first while others have begun.

        What it gets raises the error of a call that has failed: nobody waits for that one's part.
        With `done`, it is waited until that says that no part is left, and not until calls end.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """A handle of something in this process."""

    value: Any

    def fetch(self) -> Any:
        return self.value


def brought(item: Any) -> Any:
    """What a task in this process gets for an item."""
    if isinstance(item, Piece):
        return item.here()
    if isinstance(item, Here):
        return item.value
    if type(item) is tuple:
        return tuple(brought(part) for part in item)
    return item
