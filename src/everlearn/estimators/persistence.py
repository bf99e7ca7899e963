"""Saving estimators to one safe file, and loading them again.

A file holds parameters, numbers and arrays. Which class they belong to is said by a key, and
the table of keys is in this file: nothing a checkpoint contains can name code.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from everlearn.core.errors import CheckpointError
from everlearn.runtime.store import read_checkpoint, write_checkpoint

Arrays = Mapping[str, NDArray[Any]]

_ESTIMATORS = {"dp-mixture": ("everlearn.estimators.mixture", "DPMixture")}


class Storable(Protocol):
    """An estimator that can be taken apart into JSON and arrays, and put together again."""

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays."""

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`."""


class SaveMixin:
    """Adds `save` to an estimator whose class is in the table above under `checkpoint_key`."""

    checkpoint_key: ClassVar[str]

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, replacing it in one step.

        Continuing after `everlearn.load` gives, bit for bit, what never stopping would have.

        Parameters
        ----------
        path : str or path-like
            The file to write; ``.evl`` is the usual ending.
        """
        header, arrays = self.to_checkpoint()
        write_checkpoint(path, {"estimator": self.checkpoint_key, **header}, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that was written with its `save` method.

    Parameters
    ----------
    path : str or path-like
        A checkpoint file.

    Returns
    -------
    estimator
        Ready to predict and to go on learning.

    Raises
    ------
    everlearn.core.errors.CheckpointError
        If the file is corrupt, truncated, foreign or newer than this library.
    """
    checkpoint = read_checkpoint(path)
    key = checkpoint.header.get("estimator")
    if not isinstance(key, str) or key not in _ESTIMATORS:
        known = ", ".join(sorted(_ESTIMATORS))
        raise CheckpointError(f"{path}: no estimator is called {key!r}; there are {known}")
    module, name = _ESTIMATORS[key]
    estimator: type[Storable] = getattr(importlib.import_module(module), name)
    try:
        return estimator.from_checkpoint(checkpoint.header, checkpoint.arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: the content does not make a {name}: {error!r}") from error


def member(arrays: Arrays, name: str, shape: tuple[int | None, ...], kind: str) -> NDArray[Any]:
    """A member of the file, if it has this shape (None: any length) and dtype, and is finite."""
    if name not in arrays:
        raise CheckpointError(f"member {name!r} is missing")
    array = arrays[name]
    fits = len(shape) == array.ndim and all(
        want is None or want == got for want, got in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind != kind:
        raise CheckpointError(
            f"member {name!r} must be of kind {kind!r} and shape {shape}, "
            f"got {array.dtype} and {array.shape}"
        )
    if kind == "f" and not np.isfinite(array).all():
        raise CheckpointError(f"member {name!r} must be finite")
    return array
