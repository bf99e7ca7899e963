"""Engines: where local steps run. Serial and threads give the same bits."""

from everlearn.runtime.engine.local import SerialEngine, ThreadEngine, open_engine

__all__ = ["SerialEngine", "ThreadEngine", "open_engine"]
