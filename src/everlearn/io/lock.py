"""One writer at a time: a lock that the operating system releases when its holder dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from everlearn.errors import LockedError

COMPANIONS = (".log.jsonl", ".quarantine.jsonl")
"""Endings of the run log and of the quarantine beside a model."""


@contextmanager
def only_writer(model: Path) -> Iterator[None]:
    """Hold the lock of a model file, or raise at once. A run that wrote nothing leaves no lock."""
    target = str(model.resolve())
    lock = FileLock(f"{target}.lock")
    try:
        lock.acquire(timeout=0)
        if not os.path.exists(lock.lock_file):  # its last holder removed it while we opened it
            lock.release()
            lock.acquire(timeout=0)
    except Timeout as error:
        raise LockedError(
            f"another process is learning into {str(model)!r}; wait for it or stop it"
        ) from error
    except OSError as error:
        intact = "; the model is unchanged" if model.exists() else ""
        raise OSError(error.errno, f"{error.strerror}{intact}", str(model)) from error
    try:
        yield
    finally:
        if not any(os.path.exists(f"{target}{ending}") for ending in ("", *COMPANIONS)):
            with suppress(OSError):
                os.unlink(lock.lock_file)
        lock.release()
