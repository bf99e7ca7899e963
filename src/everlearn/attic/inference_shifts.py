"""Counters by which threads share a piece of work out; `kernels.turns` says how."""

from typing import Final, NamedTuple

import numpy as np

from everlearn.core.arrays import IntVec

TAKEN: Final = 0
ENDED: Final = 8
"""Places of the counters: on different cache lines, so that who looks at one disturbs no other."""
_SIZE: Final = 16


def new_turns() -> IntVec:
    """Counters of a piece of work of which nothing is taken."""
    return np.zeros(_SIZE, np.int64)


def have_ended(turns: IntVec, n_parts: int) -> bool:
    """Whether all parts are done now; nobody is waited for."""
    return bool(turns[ENDED] >= n_parts)


class Shift(NamedTuple):
    """The turns of a piece of work, and those of the piece that comes after it.

    Whoever is done with the one may linger for the other: to wake a thread takes as long as to draw
    the topics of several documents.
    """

    turns: IntVec
    coming: IntVec
