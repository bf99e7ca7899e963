"""Several batches in one call of `OnlinePPCA`, each learned as if it came alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from everlearn.estimators.base import LearnerMixin
from everlearn.estimators.ppca_input import checked_rows
from everlearn.estimators.ppca_learning import Learned, check_same_model, learn_rows
from everlearn.inference.rows import Rows


class PPCABatches(LearnerMixin):
    """What learns from several batches, for an estimator that learns from one."""

    _learned: Learned

    @abstractmethod
    def partial_fit(self, X: Any) -> Self:
        """Learn from one batch."""

    def partial_fit_each(self, batches: Sequence[Any]) -> Self:
        """Learn from several batches, to the bit as `partial_fit` does from one after the other.

        It is quicker where batches are small, because they are checked all at once. If one of them
        is refused, none is learned.

        Parameters
        ----------
        batches : sequence of arrays of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            learned = getattr(self, "_learned", None)
            if learned is None or not _are_tables(batches):
                for X in batches:
                    self.partial_fit(X)
                return self
            self._check_params()
            check_same_model(self, learned)
            rows = checked_rows(self, np.concatenate(batches), reset=False)
            self._learned = learn_rows(self, learned, _parts(rows, batches), None)
        return self


def _are_tables(batches: Sequence[Any]) -> bool:
    """Whether batches are plain arrays of numbers, none of them empty, that make one array."""
    return len(batches) > 0 and all(
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == batches[0].shape[1]
        for X in batches
    )


def _parts(rows: Rows, batches: Sequence[Any]) -> list[Rows]:
    """The rows of each of the batches that were checked as one."""
    stops = np.cumsum([len(X) for X in batches]).tolist()
    return [rows[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
