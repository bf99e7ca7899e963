"""Ways in which a checkpoint can be wrong, whatever it is of, and how it must be refused."""

import copy
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from everlearn.errors import CheckpointError
from everlearn.estimator import saving as persistence
from everlearn.estimator.saving import load
from everlearn.store.archive import Checkpoint

Spoil = Callable[[np.ndarray], np.ndarray]


def with_entry(value: float) -> Spoil:
    def change(a: np.ndarray) -> np.ndarray:
        a.flat[a.size // 2] = value
        return a

    return change


SHAPES: dict[str, Spoil] = {
    "shorter": lambda a: a[:-1],
    "longer": lambda a: np.concatenate([a, a]),
    "one axis more": lambda a: a[..., None],
    "no axis": lambda a: np.array(3, a.dtype),
    "empty": lambda a: np.empty((0,) * a.ndim, a.dtype),
}
FLOATS: dict[str, Spoil] = {
    "nan": with_entry(np.nan),
    "inf": with_entry(np.inf),
    "huge": with_entry(1e301),
    "single precision": lambda a: a.astype(np.float32),
    "whole numbers": lambda a: a.astype(np.int64),
}


def loaded(file: Checkpoint) -> Any:
    """The model, or the message of the named error."""
    with mock.patch.object(persistence, "read_checkpoint", return_value=file):
        try:
            return load("spoilt.evl")
        except CheckpointError as error:
            return str(error)


def assert_named(file: Checkpoint, *names: str) -> None:
    """It is refused, and the message has one of the names of what is wrong."""
    found = loaded(file)
    assert isinstance(found, str), f"{names} was accepted"
    assert any(name in found for name in names), found
    assert "does not make" not in found  # an error that nobody had thought of


INTEGERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "negative": lambda a: a - 100,
    "large": lambda a: a + 2**20,
    "fractions": lambda a: a.astype(float),
    "other size": lambda a: a.astype(np.int32 if a.dtype == np.int64 else np.int64),
}


def changes_of(array: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return SHAPES | (FLOATS if array.dtype.kind == "f" else INTEGERS)


def scaled(key: str, factor: float) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[key] = (file.arrays[key] * factor).astype(file.arrays[key].dtype)

    return change


def swapped(one: str, two: str) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[one], file.arrays[two] = file.arrays[two], file.arrays[one]

    return change


def entry(*path: Any, value: Any) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        place: Any = file.header
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


VALUES = [None, True, -1, 0, 1, 7, 2**63, 10**30, 0.5, -0.5, 1e-300, 1e300, "", "words", [], {}]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a tree of lists and objects."""
    if path:
        yield path
    keys = node if isinstance(node, dict) else range(len(node) if isinstance(node, list) else 0)
    for key in keys:
        yield from places(node[key], (*path, key))


def spoil_header(file: Checkpoint, rng: np.random.Generator) -> None:
    every_place = list(places(file.header))
    path = every_place[rng.integers(len(every_place))]
    place: Any = file.header
    for step in path[:-1]:
        place = place[step]
    old = place[path[-1]]
    if rng.random() < 0.3 and isinstance(old, (int, float)):
        place[path[-1]] = [old + 1, old - 1, -old, old * 1000, float(old)][rng.integers(5)]
    else:
        place[path[-1]] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def spoil_array(file: Checkpoint, rng: np.random.Generator) -> None:
    keys = sorted(file.arrays)
    key, other = (keys[i] for i in rng.integers(len(keys), size=2))
    old = file.arrays[key]
    changes = list(changes_of(old).values())
    choice = rng.integers(len(changes) + 3)
    if choice < len(changes):
        file.arrays[key] = changes[choice](old)
    elif choice == len(changes):
        file.arrays[key] = rng.permutation(old)
    elif choice == len(changes) + 1:
        file.arrays[key] = file.arrays[other]
    else:
        noise = old * rng.normal(size=old.shape) * 10.0 ** rng.integers(9)
        file.arrays[key] = noise.astype(old.dtype)
