"""Open the engine that the `engine` parameter selects, for one call."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from everlearn.engine.local import open_local
from everlearn.engine.protocol import Engine

LOCAL: Final = (None, "serial", "threads")
_ADDRESS = re.compile(r"(tcp|tls|ucx|ucxx|ws|wss)://\S+")


class ClusterClient(Protocol):
    """A `distributed.Client`, described here because Dask may not be installed."""

    @property
    def status(self) -> str: ...

    def nthreads(self) -> Mapping[str, int]: ...


EngineChoice: TypeAlias = str | ClusterClient | None
"""The `engine` parameter of estimators: None, "serial", "threads", "dask", the address of a
scheduler, or a client."""


def is_client(value: Any) -> bool:
    """Whether the value is a client of a Dask cluster. Does not import Dask."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(value, distributed.Client)


def is_collection(value: Any) -> bool:
    """Whether the value is a Dask array, data frame, bag or the like."""
    return callable(getattr(value, "__dask_graph__", None)) and not isinstance(value, type)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A constraint: a cluster by its client or by its scheduler's address."""

    def allows(self, value: Any) -> bool:
        """Whether the value is one of the two."""
        return is_client(value) or (isinstance(value, str) and bool(_ADDRESS.fullmatch(value)))

    def __str__(self) -> str:
        return 'a distributed.Client, or the address of a scheduler such as "tcp://host:8786"'


def plain_engine(value: EngineChoice) -> str | None:
    """What a file or a pickle keeps: a cluster belongs to one process, and becomes None."""
    return value if value in ("serial", "threads", "dask") else None


def local_engine(value: EngineChoice) -> str | None:
    """The engine in this process, for work that is not worth sending: clusters become None."""
    return value if value in ("serial", "threads") else None


@contextmanager
def open_engine(engine: EngineChoice, most_workers: int | None = None) -> Iterator[Engine]:
    """An engine for the time of one call, at most `most_workers` of it in this process.

    None, "serial" and "threads" run in this process; "dask", an address or a client on a cluster.
    """
    if engine in LOCAL:
        with open_local(engine, most_workers) as local:
            yield local
        return
    with _clusters(engine).open_cluster(engine, most_workers) as cluster:
        yield cluster


@contextmanager
def keep_engine(engine: EngineChoice) -> Iterator[EngineChoice]:
    """The engine as a parameter for many calls: connects to a cluster, or starts one, only once."""
    if engine == "dask" or (isinstance(engine, str) and Cluster().allows(engine)):
        with _clusters(engine).open_client(engine) as client:
            yield client
        return
    yield engine


def _clusters(engine: EngineChoice) -> Any:
    """The module that imports Dask, or an error that says how to install it."""
    try:
        return importlib.import_module("everlearn.engine.dask")
    except ImportError as error:
        raise ImportError(
            f"engine={engine!r} needs the extra 'dask' (pip install 'everlearn[dask]'): {error}"
        ) from error
