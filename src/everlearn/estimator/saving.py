"""Saving estimators to one safe file, and loading them again.

A file holds parameters, numbers and arrays. A key says which class they belong to, and the table
of keys is `registry.py`: nothing in a file can name code.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import asdict
from numbers import Integral
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from everlearn.engine.opening import plain_engine
from everlearn.errors import CheckpointError
from everlearn.estimator.base import named_errors
from everlearn.estimator.options import ExpertOptions
from everlearn.registry import BY_KEY
from everlearn.store.archive import read_checkpoint, write_checkpoint
from everlearn.store.schema import Arrays, Reading, Schema, check_keys, shown

_EXTRAS: Final = "stream"


class Storable(Protocol):
    """An estimator that can be taken apart into JSON and arrays, and put together again."""

    checkpoint_key: ClassVar[str]

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays."""

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`."""


class SavedEstimator(Storable, Protocol):
    """What `SaveMixin` needs of its estimator; `LearnerMixin` and scikit-learn have most of it."""

    _options: ClassVar[Mapping[str, type[ExpertOptions]]]
    _schema: ClassVar[Schema]
    _learned: Any  # a frozen class of its own in each system
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(self, **params: Any) -> None:
        """Made from its parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""

    def _check_params(self) -> None: ...

    def _check_learned(self, learned: Any) -> None: ...

    def _saved_params(self) -> dict[str, Any]: ...

    def _saved_sizes(self) -> dict[str, int]: ...


Saved = TypeVar("Saved", bound=SavedEstimator)


class SaveMixin:
    """Adds `save` to an estimator that is in the registry under `checkpoint_key`.

    What the estimator has learned is one object, `_learned`, and `_schema` says how it is saved.
    Its `seed` is the one that was drawn when learning began, its `n_features` the number of
    columns, or None if it learned from texts.
    """

    checkpoint_key: ClassVar[str]
    _schema: ClassVar[Schema]
    _options: ClassVar[Mapping[str, type[ExpertOptions]]]

    def save(self: Storable, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, replacing it in one step.

        Continuing after `everlearn.load` gives, bit for bit, what never stopping would have.

        Parameters
        ----------
        path : str or path-like
            The file to write; ``.evl`` is the usual ending.
        """
        with named_errors(self, "path"):
            path = os.fspath(path)
        save_with(path, self, {}, {})

    def to_checkpoint(self: SavedEstimator) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        check_is_fitted(self)
        self._check_params()
        self._check_learned(self._learned)
        arrays: dict[str, NDArray[Any]] = {}
        learned = self._schema.pack(self._learned, "learned", arrays)
        return {
            "params": plain_params(self._saved_params(), self._learned.seed),
            "learned": learned,
            "feature_names": feature_names(self),
        }, arrays

    @classmethod
    def from_checkpoint(cls: type[Saved], header: Mapping[str, Any], arrays: Arrays) -> Saved:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        own = {key: value for key, value in header.items() if key != "estimator"}
        check_keys(own, "header", ["params", "learned", "feature_names"])
        known = inspect.signature(cls).parameters
        check_keys(own["params"], "params", list(known))
        estimator = cls(
            **{
                # JSON has no tuples.
                name: tuple(value)
                if isinstance(value, list) and isinstance(known[name].default, tuple)
                else value
                for name, value in own["params"].items()
            }
        )
        try:
            for name, kind in cls._options.items():
                if own["params"][name] is not None:
                    setattr(estimator, name, kind.of(own["params"][name], cls.__name__, name))
            estimator._check_params()
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the saved parameters cannot be: {error}") from error
        file = Reading(arrays, sizes=estimator._saved_sizes())
        estimator._learned = cls._schema.unpack(own["learned"], "learned", file)
        if unknown := sorted(set(arrays) - file.used):
            raise CheckpointError(f"{unknown[0]!r} belongs to nothing in the header")
        n_features = estimator._learned.n_features
        if n_features is not None:
            estimator.n_features_in_ = n_features
        if own["feature_names"] is not None:
            estimator.feature_names_in_ = checked_names(own["feature_names"], n_features)
        try:
            estimator._check_learned(estimator._learned)
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the saved parameters cannot be: {error}") from error
        return estimator

    def _saved_params(self: SavedEstimator) -> dict[str, Any]:
        """The parameters in a form that JSON can hold, with all fields of options."""
        params = self.get_params(deep=False)
        for name, kind in self._options.items():
            if params[name] is not None:
                params[name] = kind.of(params[name], type(self).__name__, name)
        return params

    def _check_learned(self, learned: Any) -> None:
        """Raise ValueError if parameters have changed that learning cannot go on without."""

    def _saved_sizes(self) -> dict[str, int]:
        """Sizes that the schema names and parameters give."""
        return {}


def save_with(
    path: str | os.PathLike[str],
    estimator: Storable,
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
    everlearn.errors.CheckpointError
        If the file is corrupt, truncated, foreign or newer than this library.
    """
    return load_with(path)[0]


def load_with(path: str | os.PathLike[str]) -> tuple[Any, Mapping[str, Any], Arrays]:
    """Read an estimator and what was written with it by `save_with`."""
    with named_errors("load", "path"):
        path = os.fspath(path)
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
    if not isinstance(key, str) or key not in BY_KEY:
        known = ", ".join(sorted(BY_KEY))
        raise CheckpointError(f"{path}: no estimator is called {key!r}; there are {known}")
    estimator: type[Storable] = BY_KEY[key].estimator()
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused
            return estimator.from_checkpoint(header, arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: the content does not make a {BY_KEY[key].name}: {error!r}"
        ) from error


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
    if isinstance(value, ExpertOptions):
        return {name: _plain(entry) for name, entry in asdict(value).items()}
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, Mapping):
        return {
            str(k): v if isinstance(v, str) else np.asarray(v, np.float64).tolist()
            for k, v in value.items()
        }
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return int(value) if isinstance(value, Integral) else float(value)


def feature_names(estimator: object) -> list[str] | None:
    """Names of the columns that the estimator learned from, if they had any."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def checked_names(names: Any, n_features: int | None) -> NDArray[np.object_]:
    """Inverse of `feature_names`."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"the header's 'feature_names' must be names, got {shown(names)}")
    if len(names) != n_features:
        raise CheckpointError(
            f"the header's 'feature_names' must be {n_features} names, got {len(names)}"
        )
    return np.array(names, dtype=object)
