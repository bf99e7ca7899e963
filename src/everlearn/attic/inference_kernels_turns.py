"""Threads that share work out among themselves, without the interpreter.

The parts of a piece of work are numbered, and a counter says how many are taken. Whoever is ready
takes the next ones, so a thread that began late does less and all end together:

    part = taken(turns, 1)
    while part < n_parts:
        ...
        ended(turns, 1)
        part = taken(turns, 1)
    if all_ended(turns, n_parts):
        ...  # what needs all of the parts

Parts write to different places, hence results do not depend on who did what.
"""

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.extending import intrinsic

from everlearn.attic.inference_shifts import ENDED, TAKEN
from everlearn.core.arrays import IntVec
from everlearn.kernels.jit import kernel

_AT_ONCE, _SINGLY = 4, 32
"""Parts of a run, and how many at the end are taken one by one."""
_PATIENCE, _LINGERING = 20_000, 200_000
"""Looks at a counter; ten thousand take some 60 microseconds, or more if others look at it too."""


def _atomic_add(place: int) -> Callable[[IntVec, int], int]:
    def typed(_: Any, turns: Any, n: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, given[0])
            counter = builder.gep(array.data, [context.get_constant(types.intp, place)])
            return builder.atomic_rmw("add", counter, given[1], "seq_cst")

        return types.int64(turns, types.int64), generate

    return cast(Callable[[IntVec, int], int], intrinsic(typed))


taken = _atomic_add(TAKEN)
"""Take the next `n` parts, and return the number of the first; for kernels only."""
ended = _atomic_add(ENDED)
"""Say that `n` parts more are done, and return how many were before; for kernels only."""


@kernel(inline=True)
def run_of(turn: int, n_parts: int) -> tuple[int, int]:
    """The first part of a turn, and the one behind its last; `n_parts` and more for none.

    Several at first, since two threads that write to places side by side wait for each other's
    cache lines; one at the end, so that nobody waits long for the last.
    """
    n_runs = max(n_parts - _SINGLY, 0) // _AT_ONCE
    if turn < n_runs:
        return turn * _AT_ONCE, (turn + 1) * _AT_ONCE
    first = n_runs * _AT_ONCE + turn - n_runs
    return first, first + 1


@kernel()
def all_ended(turns: IntVec, n_parts: int) -> bool:
    """Whether all parts are done; it waits a little for others, and not for one that sleeps."""
    left = _PATIENCE
    while left > 0 and ended(turns, 0) < n_parts:
        left -= 1
    return left > 0


@kernel()
def linger(coming: IntVec) -> bool:
    """Wait a little for the first turn of the piece of work to come; whether it was taken."""
    left = _LINGERING
    while left > 0 and taken(coming, 0) == 0:
        left -= 1
    return left > 0
