"""Memory that is freed and soon needed again stays with the process."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What ``malloc.h`` calls the two settings."""
LARGEST: Final = 1 << 24
"""Bytes of what is kept, one by one."""
KEPT: Final = 1 << 26
"""Bytes that are kept, together."""


def keep_freed_memory() -> bool:
    """Let glibc keep what is freed, for all of this process; whether it does.

    By default it gives back to the system what an array of a megabyte took, and the next batch
    gets the same from there again, page by page, each cleared first, which a model that learns a
    record in a few microseconds feels.
    """
    if sys.platform != "linux":
        return False
    with suppress(AttributeError, OSError):  # another C library
        change = ctypes.CDLL(None).mallopt
        return bool(change(_MMAP_THRESHOLD, LARGEST) and change(_TRIM_THRESHOLD, KEPT))
    return False
