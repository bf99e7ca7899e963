"""`LearnerMixin`: check parameters and names, draw a seed, clone, and undo a call that fails."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Protocol, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from everlearn.engine.opening import Cluster, is_client, plain_engine
from everlearn.errors import is_interrupt
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.other_names import NameAdvice
from everlearn.estimator.params import Constraint, Instance, Interval, Options, check_params

COMMON_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "engine": (Options((None, "serial", "threads", "dask")), Cluster()),
    "random_state": (
        Options((None,)),
        Interval(0, 2**32 - 1, integer=True),
        Instance((np.random.RandomState,), "a RandomState instance"),
    ),
    "verbose": (Interval(0, integer=True), Instance((bool,), "a truth value")),
}
"""Constraints of the parameters that every estimator has."""


class Parametrised(Protocol):
    """What `LearnerMixin` needs of the estimator: scikit-learn's parameters and our tables."""

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]]
    _options: ClassVar[Mapping[str, type[ExpertOptions]]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""


class LearnerMixin(NameAdvice):
    """Checks parameters by `_constraints`, and restores the estimator if a call fails."""

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]]
    _options: ClassVar[Mapping[str, type[ExpertOptions]]] = {}
    """The parameters that hold options, such as `options`, and the class of each."""
    random_state: Any

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickles and copies, without a Dask client: it belongs to this process."""
        state = dict(cast(Mapping[str, Any], super().__getstate__()))
        if is_client(state.get("engine")):
            state = {**state, "engine": plain_engine(state["engine"])}
        return state

    def __sklearn_clone__(self) -> Self:
        """A clone with the same Dask client, because a client cannot be copied."""
        engine = getattr(self, "engine", None)
        if not is_client(engine):
            own: Self = super().__sklearn_clone__()  # type: ignore[misc]
            return own
        twin = copy.copy(self)
        twin.__dict__["engine"] = None
        copied: Self = clone(twin).set_params(engine=engine)
        return copied

    def _check_params(self: Parametrised) -> None:
        name = type(self).__name__
        check_params(name, self.get_params(deep=False), self._constraints)
        for parameter, kind in self._options.items():
            kind.of(getattr(self, parameter), name, parameter)

    def _new_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[list[Callable[[], None]]]:
        """Restore the estimator if the block raises an error.

        For each shared array that it changes, the block appends a function that undoes the change.
        """
        before = dict(self.__dict__)
        undos: list[Callable[[], None]] = []
        try:
            yield undos
        except BaseException as error:
            for undo in undos:
                undo()
            self.__dict__.clear()
            self.__dict__.update(before)
            if isinstance(error, np.linalg.LinAlgError):
                raise ValueError(
                    f"{type(self).__name__} cannot learn from X with this prior: {error}. "
                    "Scale X or the prior."
                ) from error
            if isinstance(error, SystemError) and is_interrupt(error):
                raise KeyboardInterrupt from error
            raise


MISSING_VALUES_MESSAGE: Final = (
    "contains NaN (a missing value), which {what} does not take; {others} do. Fill gaps, such as "
    "by sklearn.impute.SimpleImputer, or leave these rows out."
)
MODELS_WITH_MISSING_VALUES: Final = "DPMixture and OnlinePPCA"


@contextmanager
def named_errors(owner: object, argument: str) -> Iterator[None]:
    """Add the argument and its owner to errors of the block.

    The owner is an estimator, or the name of a function or class.
    """
    name = owner if isinstance(owner, str) else type(owner).__name__
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        message = str(error)
        if message.startswith("Input X contains NaN"):
            gaps = MISSING_VALUES_MESSAGE.format(what="it", others=MODELS_WITH_MISSING_VALUES)
            raise ValueError(f"{argument!r} of {name} {gaps}") from error
        if name in message and re.search(rf"(?<!\w){re.escape(argument)}(?!\w)", message):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{argument!r} of {name} cannot be used: {message}") from error
