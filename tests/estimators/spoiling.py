"""Ways in which a member of a checkpoint can be wrong, whatever it is a member of."""

from collections.abc import Callable

import numpy as np

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
