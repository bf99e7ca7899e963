"""Saving estimators to one safe file, and loading them again.

A file holds parameters, numbers and arrays. Which class they belong to is said by a key, and
the table of keys is in this file: nothing a checkpoint contains can name code.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from everlearn.core.errors import CheckpointError
from everlearn.runtime.engine import plain_engine
from everlearn.runtime.store import read_checkpoint, write_checkpoint

Arrays = Mapping[str, NDArray[Any]]
T = TypeVar("T")
_HUGE: Final = 1e300
_EXTRAS: Final = "stream"

_ESTIMATORS = {
    "bayesian-pa-classifier": (
        "everlearn.estimators.passive_aggressive",
        "BayesianPassiveAggressiveClassifier",
    ),
    "bayesian-pa-regressor": (
        "everlearn.estimators.passive_aggressive_regression",
        "BayesianPassiveAggressiveRegressor",
    ),
    "clumped-topic-model": ("everlearn.estimators.clumped", "ClumpedTopicModel"),
    "component-tree": ("everlearn.estimators.component_tree", "ComponentTree"),
    "dp-mixture": ("everlearn.estimators.mixture", "DPMixture"),
    "image-pipeline": ("everlearn.estimators.image_pipeline", "ImagePipeline"),
    "medhdp-classifier": ("everlearn.estimators.supervised_growing", "MedHDPClassifier"),
    "medlda-classifier": ("everlearn.estimators.supervised", "MedLDAClassifier"),
    "medlda-regressor": ("everlearn.estimators.supervised_regression", "MedLDARegressor"),
    "online-ppca": ("everlearn.estimators.ppca", "OnlinePPCA"),
    "scaled-pca": ("everlearn.estimators.scaled_pca", "ScaledPCA"),
    "topic-model": ("everlearn.estimators.topics", "TopicModel"),
    "topic-tree": ("everlearn.estimators.topic_tree", "TopicTree"),
}


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
        save_with(path, self, {}, {})


def save_with(
    path: str | os.PathLike[str],
    estimator: Any,
    extras: Mapping[str, Any],
    extra_arrays: Arrays,
) -> None:
    """Write an estimator and what belongs to it, such as how far a stream is, as one file."""
    header, arrays = estimator.to_checkpoint()
    whole = {"estimator": estimator.checkpoint_key, **header}
    if extras:
        whole[_EXTRAS] = dict(extras)
    members = {f"{_EXTRAS}/{name}": array for name, array in extra_arrays.items()}
    write_checkpoint(path, whole, {**arrays, **members})


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
    return load_with(path)[0]


def load_with(path: str | os.PathLike[str]) -> tuple[Any, Mapping[str, Any], Arrays]:
    """Read an estimator and what was written with it by `save_with`."""
    checkpoint = read_checkpoint(path)
    header = dict(checkpoint.header)
    extras = header.pop(_EXTRAS, {})
    if not isinstance(extras, dict):
        raise CheckpointError(f"{path}: the header's {_EXTRAS!r} must be an object")
    arrays = {k: v for k, v in checkpoint.arrays.items() if not k.startswith(f"{_EXTRAS}/")}
    extra_arrays = {
        k.removeprefix(f"{_EXTRAS}/"): v
        for k, v in checkpoint.arrays.items()
        if k.startswith(f"{_EXTRAS}/")
    }
    return _estimator_of(path, header, arrays), extras, extra_arrays


def _estimator_of(path: Any, header: Mapping[str, Any], arrays: Arrays) -> Any:
    key = header.get("estimator")
    if not isinstance(key, str) or key not in _ESTIMATORS:
        known = ", ".join(sorted(_ESTIMATORS))
        raise CheckpointError(f"{path}: no estimator is called {key!r}; there are {known}")
    module, name = _ESTIMATORS[key]
    estimator: type[Storable] = getattr(importlib.import_module(module), name)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused
            return estimator.from_checkpoint(header, arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: the content does not make a {name}: {error!r}") from error


def plain_params(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Parameters as JSON; a random generator is replaced by the seed that was drawn from it.

    A cluster belongs to the process that uses it: a client or an address becomes None.
    """
    if "engine" in params:
        params = {**params, "engine": plain_engine(params["engine"])}
    return {
        k: seed if isinstance(v, np.random.RandomState) else _plain(v) for k, v in params.items()
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, Mapping):
        return {str(k): np.asarray(v, np.float64).tolist() for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return int(value) if isinstance(value, Integral) else float(value)


def feature_names(estimator: Any) -> list[str] | None:
    """Names of the columns that the estimator was shown, if they had any."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def checked_names(names: Any, n_features: int) -> NDArray[np.object_]:
    """Inverse of `feature_names`."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"the header's 'feature_names' must be names, got {shown(names)}")
    if len(names) != n_features:
        raise CheckpointError(
            f"the header's 'feature_names' must be {n_features} names, got {len(names)}"
        )
    return np.array(names, dtype=object)


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
