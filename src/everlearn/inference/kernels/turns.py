"""Threads that share work out among themselves, without the interpreter.

The parts of a piece of work are numbered, and a counter says how many are taken. Whoever is ready
takes the next ones, so a thread that began late does less and all end together:

    part = taken(turns, 1)
    while part < n_parts:
        ...
        part = taken(turns, 1)

Parts write to different places, hence results do not depend on who did what.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import types
from numba.extending import intrinsic

from everlearn.core.arrays import IntVec


def new_turns() -> IntVec:
    """A counter, (1,), of a piece of work of which nothing is taken."""
    return np.zeros(1, np.int64)


def _atomic_add(_: Any, turns: Any, n: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, given[0])
        return builder.atomic_rmw("add", array.data, given[1], "seq_cst")

    return types.int64(turns, types.int64), generate


taken = cast(Callable[[IntVec, int], int], intrinsic(_atomic_add))
"""Take the next `n` parts, and return the number of the first; for kernels only."""
