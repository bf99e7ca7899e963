"""What runs on a worker: a task over the runs of items that were sent there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from everlearn.inference.engine import Piece, summed
from everlearn.runtime.engine.local import one_blas_thread


class InSlot:
    """Stands for what is held on the worker: all of it, or a run of it with something along.

    kept : it is a pair of a sum and of results that were kept, and the run is one of these
    """

    def __init__(
        self, slot: int, where: slice | None = None, along: Any = None, kept: bool = False
    ) -> None:
        self.slot, self.where, self.along, self.kept = slot, where, along, kept

    def unpacked(self, held: Sequence[Any]) -> Any:
        """What the task gets; `held` is what the worker has, by slot."""
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
        return summed(results, [len(run) for run in runs])


def checked(check: Callable[[Any], tuple[Any, Any]], chunk: Any) -> tuple[Any, Any]:
    """What stays of a chunk, and what is told of it."""
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
