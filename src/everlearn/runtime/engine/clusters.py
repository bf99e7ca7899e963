"""Which cluster is meant by a parameter: one that is there, or one started for the user."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
import distributed
from distributed.comm import CommClosedError

from everlearn.core.errors import ClusterError
from everlearn.runtime.engine.dask import DaskEngine, scheduler_lost
from everlearn.runtime.engine.local import open_local

_PATIENCE = 30.0
"""Seconds to wait for a scheduler, or for the first worker."""
_SETTINGS = {
    # Idle workers are not to fetch chunks from others: they would travel again and again.
    "distributed.scheduler.work-stealing": False,
    # Blocks of a few megabytes come and go. By default workers hand each one back to the system
    # and get it again page by page, which takes a quarter of the time of a step.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 * 2**20,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 * 2**20,
    # What processes measure of themselves for a dashboard, which these have not, keeps a seventh
    # of a core busy.
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "500ms",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


@contextmanager
def open_cluster(engine: Any, most_workers: int | None = None) -> Iterator[DaskEngine]:
    """An engine on the cluster meant by "dask", an address or a client, for one call.

    "dask" takes the client that is open in this process, or starts workers on this machine and
    stops them after the call.
    """
    with ExitStack() as stack:
        here = stack.enter_context(open_local(None, most_workers))
        client = _client(engine, stack)
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError as error:
            raise ClusterError(f"{client!r} has no worker after {_PATIENCE:g} seconds") from error
        except (CommClosedError, OSError) as error:
            raise scheduler_lost(error) from error
        found = DaskEngine(client, here)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def open_client(engine: Any) -> Iterator[Any]:
    """The client that `open_cluster` would use, for many calls."""
    with ExitStack() as stack:
        yield _client(engine, stack)


def _client(engine: Any, stack: ExitStack) -> Any:
    if isinstance(engine, distributed.Client):
        if engine.status == "connecting":  # again: a new client waits for its scheduler
            raise scheduler_lost(CommClosedError("the client given as engine is connecting"))
        if engine.status != "running":
            raise ClusterError(f"the client given as engine is {engine.status}")
        return _waiting(engine)
    if engine == "dask":
        try:
            return _waiting(distributed.default_client())
        except ValueError:
            return stack.enter_context(local_workers())
    try:
        return stack.enter_context(
            distributed.Client(engine, timeout=_PATIENCE, set_as_default=False)
        )
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {engine!r}: {error}") from error


def _waiting(client: Any) -> Any:
    """The client, unless its calls return before they are done."""
    if client.asynchronous:
        raise ClusterError(
            f"{client!r} is asynchronous, and learning waits for its steps: open a client without "
            "asynchronous=True, or learn in a thread of its own"
        )
    return client


@contextmanager
def local_workers(n_workers: int | None = None) -> Iterator[Any]:
    """A client of worker processes on this machine, with one thread each; None: one a core."""
    with warnings.catch_warnings(), dask.config.set(_SETTINGS):
        warnings.filterwarnings("ignore", message="Port .* is already in use")
        try:
            cluster = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:
            raise ClusterError(
                f"worker processes could not be started ({error}). They read the file of the "
                'program too: a script must learn below `if __name__ == "__main__":`.'
            ) from error
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client
