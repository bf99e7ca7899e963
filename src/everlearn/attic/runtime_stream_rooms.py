"""Room for what is read, which is used again once nobody looks at it any more.

Fresh memory is handed out by the system page by page, each cleared first, which takes longer than
reading into it does.
"""

from __future__ import annotations

from typing import Final

_KEPT: Final = 3
"""Rooms that are kept: one is read into, one is being looked at, and perhaps one was."""


class Rooms:
    """Rooms of one size for bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[bytearray] = []

    def free(self) -> bytearray:
        """A room that nobody looks at, with anything in it."""
        for room in self._kept:
            if not is_looked_at(room):
                return room
        room = bytearray(self._size)
        if len(self._kept) < _KEPT:
            self._kept.append(room)
        return room


def is_looked_at(room: bytearray) -> bool:
    """Whether there is a view of a room: one that there is forbids to change its size."""
    try:
        room.append(room.pop())
    except BufferError:
        return True
    return False
