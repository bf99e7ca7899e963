"""One writer at a time: a lock that the system gives up when its holder dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

COMPANIONS = (".log.jsonl", ".quarantine.jsonl")
"""What the names of the files beside a model end with, apart from its lock."""


class LockedError(RuntimeError):
    """Somebody else is learning into the same file."""


@contextmanager
def only_writer(model: Path) -> Iterator[None]:
    """Hold the lock of a model file, or refuse at once; if nothing was begun, no lock is left."""
    target = str(model.resolve())
    lock = FileLock(f"{target}.lock")
    try:
        lock.acquire(timeout=0)
        if not os.path.exists(lock.lock_file):  # its last holder removed it as we opened it
            lock.release()
            lock.acquire(timeout=0)
    except Timeout as error:
        raise LockedError(f"another process is learning into {str(model)!r}") from error
    except OSError as error:
        intact = "; the model is as it was" if model.exists() else ""
        raise OSError(error.errno, f"{error.strerror}{intact}", str(model)) from error
    try:
        yield
    finally:
        if not any(os.path.exists(f"{target}{ending}") for ending in ("", *COMPANIONS)):
            with suppress(OSError):
                os.unlink(lock.lock_file)
        lock.release()
