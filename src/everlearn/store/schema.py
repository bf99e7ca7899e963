"""Read the entries of a file and refuse those that cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CheckpointError

Arrays = Mapping[str, NDArray[Any]]
T = TypeVar("T")
_HUGE: Final = 1e300


def member(arrays: Arrays, name: str, shape: tuple[int | None, ...], *dtypes: str) -> NDArray[Any]:
    """A member of the file, if it has this shape (None: any length) and dtype, and is finite."""
    if name not in arrays:
        raise CheckpointError(f"member {name!r} is missing")
    array = arrays[name]
    fits = len(shape) == array.ndim and all(
        want is None or want == got for want, got in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.name not in dtypes:
        raise CheckpointError(
            f"member {name!r} must have the dtype {' or '.join(dtypes)} and the shape {shape}, "
            f"got {array.dtype} and {array.shape}"
        )
    if array.dtype.kind == "f" and not (np.abs(array) <= _HUGE).all():
        raise CheckpointError(f"member {name!r} must be finite and at most {_HUGE:g} in size")
    return array


def require(condition: Any, name: str, what: str) -> None:
    """Refuse a member that is not what every member of that name is."""
    if not condition:
        raise CheckpointError(f"member {name!r} must be {what}")


def section(header: Any, key: str, keys: Iterable[str]) -> dict[str, Any]:
    """An object within the header, if it has these keys and no others."""
    value = header.get(key) if isinstance(header, dict) else None
    if not isinstance(value, dict):
        raise CheckpointError(f"the header's {key!r} must be an object, got {shown(value)}")
    if missing := sorted(set(keys) - set(value)):
        raise CheckpointError(f"the header's {key!r} must have {missing}")
    if unknown := sorted(set(value) - set(keys)):
        raise CheckpointError(f"the header's {key!r} must not have {unknown}")
    return value


def entry(
    header: Mapping[str, Any], key: str, kind: type[T], low: float = -_HUGE, high: float = _HUGE
) -> T:
    """An entry of the header, if it has this type and, being a number, lies in this range."""
    value = header.get(key)
    right = type(value) is kind or (kind is float and type(value) is int)
    if right and isinstance(value, (int, float)):
        right = low <= value <= high
    if not right:
        span = f" from {low:g} to {high:g}" if kind in (int, float) else ""
        raise CheckpointError(
            f"the header's {key!r} must be of type {kind.__name__}{span}, got {shown(value)}"
        )
    return cast(T, float(cast(float, value)) if kind is float else value)


def shown(value: object) -> str:
    """The value as it may appear in a message."""
    return repr(value)[:80]
