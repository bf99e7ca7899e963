"""Memory that is free, back to the system."""

import ctypes
from functools import cache
from typing import Any


def release() -> None:
    """Let go of memory that was freed but is still held for later, where the C library can.

    Between a step that makes many arrays of all sizes and one that makes few large ones: these do
    not fit into what the others leave behind, and both would be resident.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """The function of glibc that does it; None in other systems."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
