"""What a mixture accepts as rows and weights, and how it says no."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from everlearn.core.arrays import Table, Vec
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.gaussian_full import FullGaussian
from everlearn.core.families.gaussian_zero_mean import ZeroMeanGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.engine.rows import Rows
from everlearn.estimator.base import named_errors
from everlearn.estimator.tables import canonical, checked_weights, plain_numbers
from everlearn.mixture.fit import Learned
from everlearn.mixture.state import State

_LARGEST = {"float64": 1e100, "float32": 1e15}
_LARGEST_SQUARE = {"float64": 1e250, "float32": 1e33}
"""Weight times squared entry: sums of these over a block of rows must stay finite."""
_LARGEST_COUNT = 2.0**53
_FAMILY_NAMES: dict[type, str] = {
    DiagGaussian: "diagonal",
    FullGaussian: "full",
    ZeroMeanGaussian: "zero-mean",
    Multinomial: "multinomial",
}


def check_same_model(estimator: Any, learned: Learned) -> None:
    """Refuse to go on with another family, concentration or learner than learning began with.

    What a stochastic learner has blended is no sum over rows: no exact bound can build on it.
    """
    model = learned.state.model
    known = {
        "family": _FAMILY_NAMES[type(model.family)],
        "concentration": model.prior.alpha,
        "learner": learned.learner,
    }
    for name, value in known.items():
        if getattr(estimator, name) != value:
            raise ValueError(
                f"the {name!r} parameter of {type(estimator).__name__} was {value!r} when "
                "learning began and cannot change without a new fit. "
                f"Got {getattr(estimator, name)!r} instead."
            )


def checked_rows(estimator: Any, X: Any, *, reset: bool, sample_weight: Any = None) -> Rows:
    """Rows fit for the estimator's family, or a ValueError that says what is wrong with them.

    Rows of weight zero say nothing and are left out.
    """
    counts = estimator.family == "multinomial"
    with named_errors(estimator, "X"):
        X = plain_numbers(X)
        table = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if counts else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan" if estimator.family == "diagonal" else True,
            order=None if counts else "C",
        )
    table = canonical(table)
    largest = _check_range(estimator, table, counts)
    if sample_weight is None:
        return Rows(table)
    square = _LARGEST_SQUARE[estimator.dtype]
    weights = checked_weights(estimator, sample_weight, table, largest, square)
    rows = Rows(table, weights)
    return rows if weights.all() else rows[np.flatnonzero(weights)]


def _check_range(estimator: Any, table: Table, counts: bool) -> float:
    """Size of the largest entry, which is not too large."""
    values: Vec = table.data if sparse.issparse(table) else table
    if values.size == 0:
        return 0.0
    name = type(estimator).__name__
    low, high = (float(extreme.reduce(values, axis=None)) for extreme in (np.fmin, np.fmax))
    if np.isnan(low):  # nothing but missing values
        return 0.0
    if counts and low < 0:
        raise ValueError(
            f"Negative values in data passed to {name}: counts are 0 or more, got {low:g}."
        )
    largest = _LARGEST_COUNT if counts else _LARGEST[estimator.dtype]
    size = max(-low, high)
    if size > largest:
        raise ValueError(
            f"X of {name} must have entries of at most {largest:g} in size for "
            f"dtype={estimator.dtype!r}, so that sums of squares stay finite. "
            f"Got {max(low, high, key=abs):g}."
        )
    return size


def checked_name(estimator: Any, batch_id: Any) -> int | str | None:
    """The name of a batch to remember, if it can be remembered."""
    name = type(estimator).__name__
    if batch_id is None:
        return None
    if not is_name(batch_id):
        raise ValueError(
            f"'batch_id' of {name} must be None, text, or an integer from 0 to 2**53. "
            f"Got {batch_id!r:.80} instead."
        )
    if estimator.learner != "memoized":
        raise ValueError(
            f"'batch_id' of {name} needs learner='memoized': other learners remember no batch. "
            f"Got learner={estimator.learner!r}."
        )
    if estimator.memory_budget is not None:
        raise ValueError(
            f"'batch_id' of {name} needs memory_budget=None: what is remembered of batches grows "
            f"with their number. Got memory_budget={estimator.memory_budget!r}."
        )
    return str(batch_id) if isinstance(batch_id, str) else int(batch_id)


def is_name(value: Any) -> bool:
    """Whether a batch may be called so."""
    whole = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    return isinstance(value, str) or (whole and 0 <= int(value) <= 2**53)


def check_forgettable(estimator: Any, state: State, batch_id: Any) -> None:
    """Refuse to forget what was not remembered, or everything there is."""
    name = type(estimator).__name__
    names = {batch.name for batch in state.batches} | set(state.memos)
    if batch_id is None or not is_name(batch_id) or batch_id not in names:
        known = ", ".join(repr(n) for n in sorted(names - {None}, key=str)[:8]) or "none"
        raise ValueError(
            f"'batch_id' of {name}.forget must be that of a batch given to partial_fit, of which "
            f"there are: {known}. Got {batch_id!r:.80} instead."
        )
    memo = state.memos.get(batch_id)
    mass = 0.0 if memo is None else float(memo.part.stats.n.sum())
    mass += sum(b.rows.mass for b in state.batches if b.name == batch_id)
    if float(state.total.n.sum()) - mass <= 1e-6 * mass:
        raise ValueError(
            f"{name} cannot forget batch {batch_id!r}: it is all that was learned. Use a new "
            "estimator instead."
        )
