"""The one decorator of all kernels, typed, because numba itself is not.

Numba's cache of a kernel notices edits of the kernel's own file only. If you change this file, or
one whose kernels other files call (`scalars`, `draws`), delete the cached files (`*.nbi`, `*.nbc`).
No flag ever denies NaN or infinity.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import overload

F = TypeVar("F", bound=Callable[..., Any])
EXACT: frozenset[str] = frozenset()
FUSED = frozenset({"contract"})
SUMMED = frozenset({"contract", "reassoc"})


def kernel(fastmath: frozenset[str] = EXACT, *, inline: bool = False) -> Callable[[F], F]:
    """Compile a function on its first call, free of the GIL, and keep the result on disk.

    A call passes every field of every array, which takes as long as a few dozen additions; small
    functions of inner loops are therefore written into their callers, and have their flags.
    """
    return cast(
        Callable[[F], F],
        numba.njit(
            nogil=True,
            cache=True,
            error_model="numpy",
            fastmath=set(fastmath),
            inline="always" if inline else "never",
        ),
    )


def by_precision(single: F, double: F) -> F:
    """One scalar kernel out of two: `single` for 32-bit arguments and `double` for 64-bit ones.

    Kernels call the result like any other; the choice is made when they are compiled. Both parts
    must be kernels.
    """

    def choose(x: Any) -> Any:
        return single(x) if x.dtype.itemsize == 4 else double(x)

    @overload(choose)
    def _implementation(x: Any) -> Callable[[Any], Any]:
        part = single if x.bitwidth == 32 else double

        def call(x: Any) -> Any:
            return part(x)

        return call

    return cast(F, choose)
