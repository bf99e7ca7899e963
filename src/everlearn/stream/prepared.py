"""A batch as an estimator takes it, and where each of its records came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec
from everlearn.errors import MemoryBudgetError, UsageError
from everlearn.io.batches import Bad, Batch
from everlearn.stream.layout import Layout

R = TypeVar("R")
Picked = Sequence[int] | IntVec
_MOST_TIMES: Final = 16
"""So much larger may be what a batch is cut from and holds on to."""


class Origin(NamedTuple):
    """Where a record came from: number of its source, and place after it."""

    source: int
    place: int


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Where records came from, one entry of `sources` and `places` a record."""

    sources: IntVec
    places: NDArray[np.uint64]

    @classmethod
    def of(cls, batch: Batch) -> Origins:
        """Those of all records of a batch, in order."""
        if len(batch) == 1:
            (chunk,) = batch
            return cls(np.full(len(chunk), chunk.source), np.array(chunk.places, np.uint64))
        sizes = [len(chunk) for chunk in batch]
        places = [np.asarray(chunk.places, np.uint64) for chunk in batch]
        return cls(
            np.repeat([chunk.source for chunk in batch], sizes),
            np.concatenate(places) if places else np.empty(0, np.uint64),
        )

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: int) -> Origin:
        return Origin(int(self.sources[i]), int(self.places[i]))

    def __iter__(self) -> Iterator[Origin]:
        return map(Origin, self.sources.tolist(), self.places.tolist())

    def taken(self, picked: Picked) -> Origins:
        """Some of them."""
        return Origins(self.sources[picked], self.places[picked])


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """What an estimator takes of some records: `X`, a list or a table, and their `labels`."""

    X: Any
    labels: NDArray[Any]

    def __getitem__(self, picked: IntVec | slice) -> Values:
        return Values(taken_values(self.X, picked), self.labels[picked])


Refused = list[tuple[Origin, Bad]]
"""Records that cannot be learned, and why."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A batch as an estimator takes it.

    Attributes
    ----------
    X, y : good records and their labels (None without)
    origins : where each good record came from
    bad : the others, with the reason
    order : where all the records came from, in the order in which they came
    layout : how records are read from now on
    """

    X: Any
    y: Any
    origins: Origins
    bad: Refused
    order: Origins
    layout: Layout

    def __len__(self) -> int:
        return len(self.origins)

    def taken(self, picked: Picked) -> Prepared:
        """Some of the good records."""
        y = None if self.y is None else self.y[picked]
        X, origins = taken_values(self.X, picked), self.origins.taken(picked)
        return replace(self, X=X, y=y, origins=origins, bad=[])


def joined(batches: Sequence[Prepared]) -> Prepared:
    """Several batches as one."""
    y = None if batches[0].y is None else np.concatenate([b.y for b in batches])
    origins = Origins(
        np.concatenate([b.origins.sources for b in batches]),
        np.concatenate([b.origins.places for b in batches]),
    )
    return replace(batches[-1], X=joined_values([b.X for b in batches]), y=y, origins=origins)


def by_halves(batch: Prepared, act: Callable[[Prepared], R]) -> tuple[list[R], Refused]:
    """What `act` gives for a batch, or for its parts, down to records that it refuses."""
    try:
        return [act(batch)], []
    except MemoryBudgetError:  # no record is to blame
        raise
    except ValueError as error:
        if len(batch) == 1:
            return [], [(batch.origins[0], Bad.of(str(error), batch.X[0]))]
    half = len(batch) // 2
    first, refused = by_halves(batch.taken(range(half)), act)
    second, more = by_halves(batch.taken(range(half, len(batch))), act)
    return first + second, refused + more


def taken_values(values: Any, picked: Picked | slice) -> Any:
    """Some entries of a list, or rows of a table."""
    if isinstance(values, list) and not isinstance(picked, slice):
        return [values[i] for i in picked]
    return values[picked]


def joined_values(parts: list[Any]) -> Any:
    """Lists or tables, one after the other."""
    kinds = {type(part).__name__ for part in parts}
    if len(kinds) > 1:
        raise UsageError("texts and counts of words cannot be learned by one model")
    if not parts or isinstance(parts[0], list):
        return [value for part in parts for value in part]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts))
    if len(parts) == 1 and _is_most(parts[0]):
        return parts[0]
    return np.concatenate(parts)


def _is_most(part: NDArray[Any]) -> bool:
    """Whether a batch may hold on to what it is cut from: the batch is no small part of it."""
    whole: Any = part if part.base is None else part.base
    return isinstance(whole, np.ndarray) and whole.nbytes <= _MOST_TIMES * part.nbytes
