"""Single instructions on words of 64 bits that numba has no names for."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

_TYPES: Any = types
_CODE: Any = cgutils
_WORD = _TYPES.uint64
_instruction: Any = intrinsic


def _product(context: Any, a: Any, b: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = args[0].type
        wide = type(word)(2 * word.width)
        both = builder.mul(*(builder.zext(arg, wide) for arg in args))
        halves = (builder.lshr(both, wide(word.width)), both)
        return _CODE.pack_array(builder, [builder.trunc(half, word) for half in halves])

    return _TYPES.UniTuple(_WORD, 2)(_WORD, _WORD), code


def _zeros(count: str) -> Any:
    """What counts the zeros at one end of a word."""

    def typed(context: Any, word: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, count)(args[0], _CODE.false_bit)

        return _TYPES.int64(_WORD), code

    return _instruction(typed)


product: Callable[[np.uint64, np.uint64], tuple[np.uint64, np.uint64]] = _instruction(_product)
"""High and low half of a product of two words."""
leading_zeros: Callable[[np.uint64], int] = _zeros("ctlz")
"""How many bits of a word are above its highest one; 64 if it has none."""
trailing_zeros: Callable[[np.uint64], int] = _zeros("cttz")
"""How many bits of a word are below its lowest one; 64 if it has none."""
