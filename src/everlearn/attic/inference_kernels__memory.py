"""Bytes at an address, for kernels that look at every byte of a text.

An array that is passed from kernel to kernel is counted at every call, which takes longer than
reading a number does; an address is not. Who passes one keeps the array and stays within it.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from everlearn.kernels.jit import kernel


def _load(kind: Any) -> Any:
    """What reads one number of a kind at an address, which need not be aligned."""

    def typed(context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], context.get_value_type(kind).as_pointer())
            return builder.load(pointer, align=1)

        return kind(types.intp), code

    return intrinsic(typed)


byte_at = _load(types.uint8)
_word_at = _load(types.uint64)


@kernel(inline=True)
def signed(n: np.uint64) -> int:
    """An unsigned number as one that can be reckoned with."""
    return np.int64(n)  # type: ignore[return-value]


@kernel(inline=True)
def address_of(data: NDArray[Any]) -> int:
    """Where an array begins in memory."""
    return np.int64(data.ctypes.data)  # type: ignore[return-value]


@kernel()
def _last_word_at(at: int, end: int) -> np.uint64:
    word = np.uint64(0)
    for k in range(end - at):
        word |= np.uint64(byte_at(at + k)) << np.uint64(8 * k)
    return word


@kernel(inline=True)
def word_at(at: int, end: int) -> np.uint64:
    """Eight bytes from an address on, the first one lowest; zeros for those from `end` on."""
    return _word_at(at) if at + 8 <= end else _last_word_at(at, end)
