"""Engines run local steps: one by one, in threads or on a cluster. All give the same bits."""

from everlearn.engine.local import SerialEngine, ThreadEngine, one_blas_thread
from everlearn.engine.opening import (
    Cluster,
    EngineChoice,
    is_client,
    is_collection,
    keep_engine,
    local_engine,
    open_engine,
    plain_engine,
)

__all__ = [
    "Cluster",
    "EngineChoice",
    "SerialEngine",
    "ThreadEngine",
    "is_client",
    "is_collection",
    "keep_engine",
    "local_engine",
    "one_blas_thread",
    "open_engine",
    "plain_engine",
]
