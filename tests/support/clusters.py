"""A Dask cluster of real worker processes."""

import gc
from contextlib import contextmanager

import dask

from everlearn.engine.dask import local_workers


@contextmanager
def open_client(n_workers: int):
    """Its threads and sockets are gone when other tests watch memory and warnings.

    A worker that is killed twice within the time after which it counts as lost would be given
    up by the cluster while it starts again, so that time is longer than all tests.
    """
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}),
        local_workers(n_workers) as client,
    ):
        yield client
    gc.collect()
