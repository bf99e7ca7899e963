"""Single instructions on words of 64 bits that numba has no names for."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WIDE = ir.IntType(128)


@intrinsic
def product(typing_context: Any, a: Any, b: Any) -> Any:
    """High and low half of a product of two words."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = builder.mul(*(builder.zext(arg, _WIDE) for arg in args))
        word = args[0].type
        halves = builder.lshr(wide, ir.Constant(_WIDE, 64)), wide
        return cgutils.pack_array(builder, [builder.trunc(half, word) for half in halves])

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), code


@intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """How many bits of a word are above its highest one; 64 if it has none."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), code


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """How many bits of a word are below its lowest one; 64 if it has none."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), code
