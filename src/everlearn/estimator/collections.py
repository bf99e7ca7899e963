"""Dask collections as input: chunks stay on their workers, where they are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from everlearn.engine.chunks import Chunk, ChunkedRows
from everlearn.engine.opening import EngineChoice, is_collection, open_engine
from everlearn.engine.protocol import ClusterEngine, Engine, Handle
from everlearn.engine.rows import Rows

_LOCAL = ("serial", "threads")
Info = TypeVar("Info")


class CollectionReader(Protocol):
    """An estimator that takes collections."""

    @property
    def engine(self) -> EngineChoice:
        """The `engine` parameter."""


class RowReader(CollectionReader, Protocol):
    """An estimator of rows. The first chunk sets its number of features."""

    n_features_in_: int


@dataclass(frozen=True, slots=True)
class RowInfo:
    """What this process knows of a chunk; `head` is its first row, unchecked."""

    n_rows: int
    mass: float
    nbytes: int
    missing: bool
    head: Any

    @classmethod
    def of(cls, rows: Rows | None, head: Any) -> RowInfo:
        """That of the rows, if there are any that count."""
        if rows is None:
            return cls(0, 0.0, 0, False, head)
        return cls(len(rows), rows.mass, rows.nbytes, rows.missing, head)


@dataclass(frozen=True, slots=True)
class RowCheck:
    """Checks a chunk where it is: a twin of the estimator reads it as it would read an array."""

    twin: BaseEstimator
    read: Callable[..., Rows]

    def __call__(self, chunk: tuple[Any, Any]) -> tuple[Rows | None, RowInfo | None]:
        """The rows, which stay, and a report on them; a chunk may be empty, or have no weight."""
        table, weights = as_rows(chunk[0]), chunk[1]
        n_rows = n_rows_of(table)
        if weights is not None and np.shape(weights) != (n_rows,):
            raise ValueError(
                f"'sample_weight' of {type(self.twin).__name__} must be chunked as X is. Got "
                f"weights of the shape {np.shape(weights)} for a chunk of {n_rows} rows."
            )
        if n_rows == 0:
            return None, None
        if weights is not None and not np.any(weights):  # checked like others, then left out
            self.read(self.twin, table, reset=True)
            return None, RowInfo.of(None, table[:1])
        rows = self.read(self.twin, table, reset=True, sample_weight=weights)
        return rows, RowInfo.of(rows, table[:1])


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows on workers for the time of one call, and the engine that holds them."""

    engine: Engine
    rows: ChunkedRows


@contextmanager
def open_rows(
    estimator: RowReader, X: Any, sample_weight: Any, read: Callable[..., Rows]
) -> Iterator[OpenRows]:
    """The rows of a collection, checked on their workers by `read`.

    Sets `n_features_in_` and, if columns have names, `feature_names_in_`.
    """
    chunks = row_chunks(estimator, X, sample_weight)
    with open_collection(estimator) as engine:
        known = held_chunks(
            estimator, engine, chunks, RowCheck(portable_clone(estimator), read), "row"
        )
        for _, info in known:
            read(estimator, info.head, reset=info is known[0][1])
        parts = tuple(Chunk(h, i.n_rows, i.mass, i.nbytes) for h, i in known if i.n_rows)
        if not parts:
            raise ValueError(
                f"'sample_weight' of {type(estimator).__name__} must have a positive entry. Got "
                "zeros."
            )
        missing = any(info.missing for _, info in known)
        yield OpenRows(engine, ChunkedRows(parts, int(estimator.n_features_in_), missing))


def held_chunks(
    estimator: object,
    engine: ClusterEngine,
    chunks: list[Any],
    check: Callable[[Any], tuple[Any, Info | None]],
    unit: str,
) -> list[tuple[Handle, Info]]:
    """Handles of what `check` keeps of the chunks that are not empty, and its reports."""
    handles, infos = engine.hold(chunks, check)
    known = [(h, i) for h, i in zip(handles, infos, strict=True) if i is not None]
    if not known:
        raise ValueError(f"X of {type(estimator).__name__} must have a {unit}. Got none.")
    return known


def as_rows(chunk: Any) -> Any:
    """A chunk in a form that estimators take: sparse chunks as CSR, parts of a bag as a list."""
    if sparse.issparse(chunk):
        return chunk.tocsr()
    return chunk if hasattr(chunk, "shape") else list(chunk)


def n_rows_of(table: Any) -> int:
    """Rows or documents of a table, which may be sparse, or of a list."""
    return int(table.shape[0]) if hasattr(table, "shape") else len(table)


def portable_clone(estimator: BaseEstimator) -> Any:
    """An estimator with the same parameters that may travel."""
    return clone(estimator).set_params(engine=None)


@contextmanager
def open_collection(estimator: CollectionReader) -> Iterator[ClusterEngine]:
    """The engine of a collection: that of the estimator, which must be a cluster."""
    if estimator.engine in _LOCAL:
        raise ValueError(
            f"the 'engine' parameter of {type(estimator).__name__} must be None, 'dask', a client "
            f"or an address for a Dask collection. Got {estimator.engine!r} instead."
        )
    with open_engine("dask" if estimator.engine is None else estimator.engine) as engine:
        yield cast(ClusterEngine, engine)  # None, "serial" and "threads" are excluded above


def row_chunks(estimator: object, X: Any, sample_weight: Any) -> list[tuple[Any, Any]]:
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
    """The parts of a collection, each of whole rows. Data without parts is a single part."""
    if not hasattr(type(collection), "to_delayed"):
        return [collection]
    parts = np.asarray(collection.to_delayed(), dtype=object)
    across = int(np.prod(parts.shape[1:]))
    if across > 1:
        whole = ", ".join(f"{axis}: -1" for axis in range(1, parts.ndim))
        raise ValueError(
            f"{argument!r} of {owner} must be chunked by rows only: use rechunk({{{whole}}}). "
            f"Got {across} chunks side by side."
        )
    return list(parts.ravel())


@contextmanager
def open_chunks(estimator: CollectionReader, X: Any) -> Iterator[Iterator[Any]]:
    """The chunks of a collection in this process, one after the other; workers hold the others.

    For models that see each record once, in order. This process needs memory for one chunk only.
    """
    parts = parts_of(type(estimator).__name__, "X", X)
    with open_collection(estimator) as engine:
        yield map(as_rows, engine.fetch_chunks(parts))


def fetch_collections(
    estimator: CollectionReader, engine: ClusterEngine | None = None, /, **given: Any
) -> list[Any]:
    """The arguments, of which collections are brought into this process as a whole.

    For models that visit records in an order of their own, in one process: they learn what they
    would from the same rows or documents in memory, and this process needs the memory for them.
    """
    far = {name: value for name, value in given.items() if is_collection(value)}
    if far:
        parts = {name: parts_of(type(estimator).__name__, name, far[name]) for name in far}
        with open_collection(estimator) if engine is None else nullcontext(engine) as opened:
            given |= {name: joined(far[name], opened.fetch_chunks(parts[name])) for name in far}
    return list(given.values())


def joined(collection: Any, chunks: Iterable[Any]) -> Any:
    """What the collection is when it is computed, from its chunks."""
    finish, more = collection.__dask_postcompute__()
    nested, depth = collection.__dask_keys__()[0], 0
    while isinstance(nested, list):  # once for each axis of an array but the first
        nested, depth = nested[0], depth + 1

    def at_depth(chunk: Any) -> Any:
        for _ in range(depth):
            chunk = [chunk]
        return chunk

    return finish([at_depth(chunk) for chunk in chunks], *more)
