"""One call of `fit` or `partial_fit` of a linear model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from everlearn.engine.local import one_blas_thread
from everlearn.linear.beliefs import LinearLearner, LinearState
from everlearn.linear.inputs import Visit

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit(Generic[T]):
    """What a linear model knows: its state, what its targets are, and the columns of a row."""

    state: LinearState
    targets: T
    n_features: int

    @property
    def seed(self) -> int:
        """Of all draws."""
        return self.state.seed

    @property
    def has_intercept(self) -> bool:
        """Whether the last weight belongs to a feature that is always 1."""
        return bool(self.state.mean.shape[1] > self.n_features)


def learn_visits(
    fit: LinearFit[T], learner: LinearLearner, visits: Iterable[Visit], owner: str
) -> LinearFit[T]:
    """What is known after these visits; `owner` is the estimator that an error names."""
    state = fit.state
    with one_blas_thread(), np.errstate(all="ignore"):
        for visit in visits:
            state = learner.learn(state, *visit)
    parts = () if state.belief is None else state.belief.parts
    if not all(np.isfinite(part).all() for part in (state.mean, *parts)):
        raise ValueError(
            f"{owner} cannot learn from X: weights are not finite any more. Scale X, or choose a "
            "smaller 'C' or 'variance'."
        )
    return replace(fit, state=state)
