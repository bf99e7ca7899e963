"""Ways to spoil a saved model: every rule of its schema is broken once.

`forgeries` walks the schema of an estimator and yields changes that the schema rules out, so that
a new field is attacked without a further line of test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from everlearn.store.schema import Array, Record, Scalar, Schema

Forge: TypeAlias = Callable[[dict[str, Any], dict[str, NDArray[Any]]], None]
"""Changes the header and the arrays of a file."""


def forgeries(schema: Schema, learned: Any) -> Iterator[tuple[str, Forge]]:
    """Places of a file, and functions that spoil them in ways that its schema rules out."""
    for leaf, place in schema.leaves(learned, "learned"):
        if isinstance(leaf, Array):
            yield from _wrong_arrays(leaf, place)
        elif isinstance(leaf, Scalar):
            for value in _wrong_scalars(leaf):
                yield place, setting(place, value)
        elif isinstance(leaf, Record):
            yield place, setting(f"{place}/no_such_entry", 1)
            for name, part in leaf.fields.items():
                if part.in_header:
                    yield f"{place}/{name}", dropping(f"{place}/{name}")
    yield "no_such_member", lambda header, arrays: arrays.update(no_such_member=np.zeros(1))


def _wrong_scalars(leaf: Scalar) -> Iterator[Any]:
    yield []
    if leaf.kind is not str:
        yield "text"
    else:
        yield 1 if leaf.choices is None else "a name that no schema has"
    if leaf.kind in (int, float):
        yield from (math.nextafter(v, s) for v, s in ((leaf.low, -math.inf), (leaf.high, math.inf)))
        yield True
    if leaf.kind is int:
        yield from (int(leaf.low) - 1, int(leaf.high) + 1, 0.5)


def _wrong_arrays(leaf: Array, place: str) -> Iterator[tuple[str, Forge]]:
    def change(function: Callable[[NDArray[Any]], NDArray[Any]]) -> Forge:
        return lambda header, arrays: arrays.update({place: function(arrays[place])})

    yield place, lambda header, arrays: arrays.__delitem__(place)
    yield place, change(lambda array: array[None])
    yield place, change(lambda array: np.zeros(array.shape, "<f2"))
    numbers: list[float] = []
    if "float64" in leaf.dtypes:
        numbers = [math.nextafter(leaf.low, -math.inf), math.nextafter(leaf.high, math.inf)]
        numbers += [math.inf] if leaf.nan else [math.inf, math.nan]
    for number in numbers:
        if math.isfinite(number) or not leaf.dtypes[0].startswith("int"):
            yield place, change(lambda array, number=number: _with_entry(array, number))  # type: ignore[misc]


def _with_entry(array: NDArray[Any], value: float) -> NDArray[Any]:
    """The array with its last entry changed; one without numbers gets another shape."""
    if not array.size or array.dtype.kind == "U":
        return array[None]
    changed = array.astype(np.float64)
    changed.flat[-1] = value
    return changed


def setting(place: str, value: Any) -> Forge:
    """Puts a value at a place of the header."""

    def forge(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        holder, key = _holder(header, place)
        holder[key] = value

    return forge


def dropping(place: str) -> Forge:
    """Removes a place of the header."""

    def forge(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        holder, key = _holder(header, place)
        del holder[key]

    return forge


def _holder(header: Any, place: str) -> tuple[Any, Any]:
    """The object or list of the header in which a place is, and its key there."""
    *path, last = place.split("/")
    holder = header
    for key in path:
        holder = holder[int(key) if isinstance(holder, list) else key]
    return holder, int(last) if isinstance(holder, list) else last
