"""Dask clusters of real worker processes, which tests of several files share."""

import gc
from contextlib import ExitStack
from typing import Any

import dask

from everlearn.engine.dask import local_workers

_CLIENTS: dict[int, Any] = {}
_STACK = ExitStack()


def shared_client(n_workers: int) -> Any:
    """A client of so many worker processes with one thread each; there is one until `close`.

    Workers take seconds to start and to load the library, so they are kept from file to file.
    """
    if n_workers not in _CLIENTS:
        # A worker that is killed twice within this time, after which it counts as lost, would be
        # given up by the cluster while it starts again. So it is longer than all tests.
        _STACK.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}))
        _CLIENTS[n_workers] = _STACK.enter_context(local_workers(n_workers))
    return _CLIENTS[n_workers]


def close() -> None:
    """End the clusters: other tests watch threads, memory and warnings."""
    if _CLIENTS:
        _CLIENTS.clear()
        _STACK.close()
        gc.collect()
