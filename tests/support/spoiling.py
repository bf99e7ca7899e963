"""Ways in which a checkpoint can be wrong, whatever it is of, and how it must be refused."""

from collections.abc import Callable
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
