"""A batch as an estimator takes it, and where each of its records came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec
from everlearn.errors import MemoryBudgetError, UsageError
from everlearn.io.batches import BadRecord, Batch
from everlearn.stream.layout import Layout

R = TypeVar("R")
Picked: TypeAlias = Sequence[int] | IntVec
"""Positions of records."""
_MAX_BASE_RATIO: Final = 16
"""A batch that is a view may keep an array of this many times its size in memory."""


class Origin(NamedTuple):
    """Where a record came from: the number of its source, and the place after the record."""

    source: int
    place: int


BadRecords: TypeAlias = list[tuple[Origin, BadRecord]]
"""Records that cannot be learned, and why."""


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Where records came from: an entry of `sources` and one of `places` for each."""

    sources: IntVec
    places: NDArray[np.uint64]

    @classmethod
    def of(cls, batch: Batch) -> Origins:
        """Origins of all records of a batch, in order."""
        sizes = [len(chunk) for chunk in batch]
        places = [np.asarray(chunk.places, np.uint64) for chunk in batch]
        return cls(
            np.repeat(np.array([chunk.source for chunk in batch], np.int64), sizes),
            np.concatenate([*places, np.empty(0, np.uint64)]),
        )

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: int) -> Origin:
        return Origin(int(self.sources[i]), int(self.places[i]))

    def __iter__(self) -> Iterator[Origin]:
        return map(Origin, self.sources.tolist(), self.places.tolist())

    def select(self, picked: Picked) -> Origins:
        """Origins of some of the records."""
        return Origins(self.sources[picked], self.places[picked])


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Records of a chunk as an estimator takes them: `X`, a list or a table, and their `labels`."""

    X: Any
    labels: NDArray[np.object_]

    def __getitem__(self, picked: IntVec | slice) -> Values:
        return Values(select_values(self.X, picked), self.labels[picked])


@dataclass(frozen=True, slots=True, eq=False)
class PreparedBatch:
    """A batch as an estimator takes it.

    Attributes
    ----------
    X, y : good records and their labels; `y` is None without labels
    origins : where each good record came from
    bad : the other records, with the reason
    order : origins of good and bad records together, in the order of the stream
    layout : how records are read from now on
    """

    X: Any
    y: NDArray[Any] | None
    origins: Origins
    bad: BadRecords
    order: Origins
    layout: Layout

    def __len__(self) -> int:
        return len(self.origins)

    def select(self, picked: Picked) -> PreparedBatch:
        """Some of the good records."""
        y = None if self.y is None else self.y[picked]
        X, origins = select_values(self.X, picked), self.origins.select(picked)
        return replace(self, X=X, y=y, origins=origins, bad=[])


def join_batches(batches: Sequence[PreparedBatch]) -> PreparedBatch:
    """The good records of several batches as one batch."""
    labels = [batch.y for batch in batches if batch.y is not None]
    origins = Origins(
        np.concatenate([batch.origins.sources for batch in batches]),
        np.concatenate([batch.origins.places for batch in batches]),
    )
    X = join_values([batch.X for batch in batches])
    return replace(batches[-1], X=X, y=np.concatenate(labels) if labels else None, origins=origins)


def apply_to_good(
    batch: PreparedBatch, function: Callable[[PreparedBatch], R]
) -> tuple[list[R], BadRecords]:
    """Results of a function that may refuse records, and the records that it refused.

    A batch that is refused is halved, and so on, until single records are left.
    """
    try:
        return [function(batch)], []
    except (MemoryBudgetError, UsageError):  # no record is to blame
        raise
    except ValueError as error:
        if len(batch) == 1:
            return [], [(batch.origins[0], BadRecord.of(str(error), batch.X[0]))]
    half = len(batch) // 2
    results, bad = apply_to_good(batch.select(range(half)), function)
    more_results, more_bad = apply_to_good(batch.select(range(half, len(batch))), function)
    return results + more_results, bad + more_bad


def select_values(values: Any, picked: Picked | slice) -> Any:
    """Some entries of a list, or rows of a table."""
    if isinstance(values, list) and not isinstance(picked, slice):
        return [values[i] for i in picked]
    return values[picked]


def join_values(parts: list[Any]) -> Any:
    """Lists or tables, one after the other."""
    if len({type(part).__name__ for part in parts}) > 1:
        raise UsageError(
            "a model learns either texts or tables of word counts; the sources hold both"
        )
    if not parts or isinstance(parts[0], list):
        return [value for part in parts for value in part]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts))
    if len(parts) == 1 and _may_stay_a_view(parts[0]):
        return parts[0]
    return np.concatenate(parts)


def _may_stay_a_view(part: NDArray[Any]) -> bool:
    """Whether a batch may keep the array alive that it is a view of, or must be copied."""
    base: Any = part if part.base is None else part.base
    return isinstance(base, np.ndarray) and base.nbytes <= _MAX_BASE_RATIO * part.nbytes
