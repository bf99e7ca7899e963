"""Copy this to begin an estimator: the mean of a stream of rows, complete in one file.

It has the parts of every estimator: a class that users call, a frozen value with what is learned, a
function that learns, and a schema of what is saved. `tests/test_skeletons.py` runs the conformance
suite on it.

In the package, each part has its own file: `estimator.py`, `fit.py`, `checkpoint.py`. Register the
class in `src/everlearn/registry.py`. `components/` is a complete system to compare with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.opening import EngineChoice
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin
from everlearn.estimator.params import Constraint, Interval
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tables import checked_table
from everlearn.store.schema import Array, Record, Scalar, expect

# ------------------------------------------------------------ fit.py: what is learned, and how


@dataclass(frozen=True, slots=True, eq=False)
class MeanFit:
    """What is learned: the weighted sum of the rows and of their weights, and their number."""

    sums: Vec
    mass: float
    n_samples: int
    seed: int

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return len(self.sums)

    @property
    def mean(self) -> Vec:
        """Mean of the rows so far."""
        return self.sums / self.mass


def learn(known: MeanFit, rows: Mat, retention: float) -> MeanFit:
    """Learn rows. The old value stays as it is."""
    return MeanFit(
        retention * known.sums + rows.sum(axis=0),
        retention * known.mass + len(rows),
        known.n_samples + len(rows),
        known.seed,
    )


# ------------------------------------------------------------ checkpoint.py: what a file holds


def _check_mass(fit: MeanFit, place: str) -> None:
    expect(fit.mass <= fit.n_samples, f"{place}/mass", "at most the number of samples")


SCHEMA = Record(
    MeanFit,
    {
        "sums": Array("D"),
        "mass": Scalar(float, 1.0, 2**53),
        "n_samples": Scalar(int, 1, 2**53),
        "seed": Scalar(int, 0, 2**64),
    },
    check=_check_mass,
)


# ------------------------------------------------------------ estimator.py: what users call


class StreamingMean(SaveMixin, LearnerMixin, BaseEstimator):
    """The mean of the rows of a stream.

    Parameters
    ----------
    retention : float, default=1.0
        Part of the old evidence to keep at each batch. Below 1, the mean follows a drift.
    engine, random_state, verbose
        As in all estimators.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the rows so far.
    """

    checkpoint_key: ClassVar[str] = "streaming-mean"
    _schema = SCHEMA
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "retention": (Interval(0, 1, low_open=True),),
        **COMMON_CONSTRAINTS,
    }
    _learned: MeanFit

    def __init__(
        self,
        *,
        retention: float = 1.0,
        engine: EngineChoice = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.retention = retention
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows, forgetting anything learned before."""
        return self._learn(None, X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows that need not come again."""
        return self._learn(getattr(self, "_learned", None), X)

    def _learn(self, known: MeanFit | None, X: Any) -> Self:
        with self._unchanged_on_error():  # after any error, the estimator is as before
            self._check_params()
            rows = self._rows(X, reset=known is None)
            if known is None:
                known = MeanFit(np.zeros(rows.shape[1]), 0.0, 0, self._new_seed())
            self._learned = learn(known, rows, float(self.retention))
        return self

    def _rows(self, X: Any, *, reset: bool) -> Mat:
        return np.asarray(checked_table(self, X, reset=reset, accept_sparse=False))

    def score_samples(self, X: Any) -> Vec:
        """Minus the distance of each row from the mean."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return -np.linalg.norm(rows - self._learned.mean, axis=1)

    @property
    def mean_(self) -> Vec:
        """Mean of the rows so far."""
        check_is_fitted(self)
        return self._learned.mean

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")
