"""Numbers that documents are asked for: checked, some of them missing, on a scale of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from everlearn.core.arrays import Vec
from everlearn.estimators.base import named_errors
from everlearn.inference.topic_model import Targets

_LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class Scale:
    """Mean and standard deviation of the first targets, by which all are measured.

    The deviation is 0 as long as no target has come.
    """

    mean: float
    spread: float

    @classmethod
    def of(cls, y: Vec) -> Scale:
        """That of these targets; a missing one is NaN."""
        known = y[~np.isnan(y)]
        if known.size == 0:
            return cls(0.0, 0.0)
        mean, spread = float(known.mean()), float(known.std())
        return cls(mean, spread or abs(mean) or 1.0)


def checked_numbers(estimator: Any, y: Any, n_documents: int) -> Vec:
    """The numbers, NaN where they are missing; errors name the estimator."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    with named_errors(estimator, "y"):
        missing = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else False
        values = column_or_1d(np.asarray(y), dtype=np.float64, warn=True)
        missing = np.ravel(missing)
        if len(values) != n_documents:
            raise ValueError(f"expected {n_documents} numbers, got {len(values)}")
        values = np.where(missing, 0.0, values)
        if not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity; a missing one is masked")
        if np.abs(values).max(initial=0.0) > _LARGEST:
            raise ValueError(f"expected numbers of at most {_LARGEST:g} in size")
    return np.where(missing, np.nan, values)


def number_targets(scale: Scale, values: Vec) -> Targets:
    """What a learner is asked for: numbers of unit scale, and which are known."""
    known = ~np.isnan(values)
    standard = np.where(known, (values - scale.mean) / (scale.spread or 1.0), 0.0)
    return Targets(known.astype(np.int8)[:, None], np.ascontiguousarray(standard[:, None]))
