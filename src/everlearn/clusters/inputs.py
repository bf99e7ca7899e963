"""What `Clusters` accepts: finite rows of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from everlearn.core.arrays import Mat
from everlearn.estimator.tables import checked_table


def checked_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Mat:
    """Rows of float64, or an error that says what is wrong with them."""
    if sparse.issparse(X):
        raise TypeError(
            f"Sparse data was passed for X of {type(estimator).__name__}, but dense rows are "
            "expected. Reduce them first, as by sklearn.decomposition.TruncatedSVD(100), or call "
            "X.toarray()."
        )
    return np.asarray(checked_table(estimator, X, reset=reset, accept_sparse=False))
