"""Engines run local steps: one by one, in threads or on a cluster. All give the same bits."""

from everlearn.engine.local import SerialEngine, ThreadEngine, one_blas_thread
from everlearn.engine.opening import (
    Cluster,
    EngineChoice,
    is_client,
    is_collection,
    nearby,
    open_engine,
    plain_engine,
    standing,
)

__all__ = [
    "Cluster",
    "EngineChoice",
    "SerialEngine",
    "ThreadEngine",
    "is_client",
    "is_collection",
    "nearby",
    "one_blas_thread",
    "open_engine",
    "plain_engine",
    "standing",
]
