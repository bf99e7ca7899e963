"""Dask collections as input: chunks stay on their workers, where they are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.inference.chunks import Chunk, ChunkedRows
from everlearn.inference.engine import Engine
from everlearn.inference.rows import Rows
from everlearn.runtime.engine import is_collection, open_engine

_LOCAL = ("serial", "threads")


@dataclass(frozen=True, slots=True)
class RowInfo:
    """What the coordinator knows of a chunk; `head` is its first row as it came."""

    n_rows: int
    mass: float
    nbytes: int
    missing: bool
    head: Any


@dataclass(frozen=True, slots=True)
class RowCheck:
    """Checks a chunk where it is: a twin of the estimator reads it as it would read an array."""

    twin: Any
    read: Callable[..., Rows]

    def __call__(self, chunk: tuple[Any, Any]) -> tuple[Rows | None, RowInfo]:
        """The rows, which stay, and what is told of them; a chunk may be empty."""
        table, weights = chunk
        if len(table) == 0 or (weights is not None and not np.any(weights)):
            return None, RowInfo(0, 0.0, 0, False, None)
        rows = self.read(self.twin, table, reset=True, sample_weight=weights)
        return rows, RowInfo(len(rows), rows.mass, rows.nbytes, rows.missing, table[:1])


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows on workers for the time of one call, and the engine that holds them."""

    engine: Engine
    rows: ChunkedRows


@contextmanager
def open_rows(
    estimator: Any, X: Any, sample_weight: Any, read: Callable[..., Rows]
) -> Iterator[OpenRows]:
    """The rows of a collection, checked on their workers by `read`.

    Sets `n_features_in_` and, if columns have names, `feature_names_in_`.
    """
    chunks = row_chunks(estimator, X, sample_weight)
    with open_collection(estimator) as engine:
        handles, infos = engine.hold(chunks, RowCheck(twin_of(estimator), read))
        known = [(h, i) for h, i in zip(handles, infos, strict=True) if i.n_rows]
        if not known:
            raise ValueError(f"X of {type(estimator).__name__} must have a row. Got none.")
        for _, info in known:
            read(estimator, info.head, reset=info is known[0][1])
        parts = tuple(Chunk(h, i.n_rows, i.mass, i.nbytes) for h, i in known)
        missing = any(info.missing for _, info in known)
        yield OpenRows(engine, ChunkedRows(parts, int(estimator.n_features_in_), missing))


def twin_of(estimator: Any) -> Any:
    """An estimator with the same parameters that may travel."""
    return clone(estimator).set_params(engine=None)


@contextmanager
def open_collection(estimator: Any) -> Iterator[Any]:
    """The engine of a collection: that of the estimator, which must be a cluster."""
    if estimator.engine in _LOCAL:
        raise ValueError(
            f"the 'engine' parameter of {type(estimator).__name__} must be None, 'dask', a client "
            f"or an address for a Dask collection. Got {estimator.engine!r} instead."
        )
    with open_engine("dask" if estimator.engine is None else estimator.engine) as engine:
        yield engine


def row_chunks(estimator: Any, X: Any, sample_weight: Any) -> list[tuple[Any, Any]]:
    """Chunks of rows with their weights, if there are any."""
    name = type(estimator).__name__
    parts = parts_of(name, "X", X)
    if sample_weight is None:
        return [(part, None) for part in parts]
    if not is_collection(sample_weight):
        raise ValueError(
            f"'sample_weight' of {name} must be a Dask array, chunked as X is. "
            f"Got {type(sample_weight).__name__}."
        )
    weights = parts_of(name, "sample_weight", sample_weight)
    if len(weights) != len(parts):
        raise ValueError(
            f"'sample_weight' of {name} must have the {len(parts)} chunks that X has. "
            f"Got {len(weights)}."
        )
    return list(zip(parts, weights, strict=True))


def parts_of(owner: str, argument: str, collection: Any) -> list[Any]:
    """The parts of a collection, each of whole rows."""
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{argument!r} of {owner} must be a Dask array, data frame or bag. "
            f"Got {type(collection).__name__}."
        )
    parts = np.asarray(collection.to_delayed(), dtype=object)
    if parts.ndim == 2 and parts.shape[1] != 1:
        raise ValueError(
            f"{argument!r} of {owner} must be chunked by rows only: use rechunk({{1: -1}}). "
            f"Got {parts.shape[1]} chunks side by side."
        )
    return list(parts.ravel())
