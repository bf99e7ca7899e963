"""One writer at a time: a lock that the system gives up when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


class LockedError(RuntimeError):
    """Somebody else is learning into the same file."""


@contextmanager
def only_writer(model: Path) -> Iterator[None]:
    """Hold the lock of a model file, or refuse at once."""
    lock = FileLock(f"{model.resolve()}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise LockedError(f"another process is learning into {str(model)!r}") from error
    try:
        yield
    finally:
        lock.release()
