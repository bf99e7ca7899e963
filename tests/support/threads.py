"""Which threads there are, bare ones among them."""

import sys
import time


def running() -> set[int]:
    """Numbers of all threads of this process."""
    return set(sys._current_frames())


def assert_gone(threads: set[int]) -> None:
    """A thread that has said its last word is there for another moment."""
    end = time.monotonic() + 30
    while threads & running() and time.monotonic() < end:
        time.sleep(0.001)
    assert not threads & running()
