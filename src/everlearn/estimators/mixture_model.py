"""The model that `DPMixture` learns: a family with its prior, scaled to the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.core.families import DiagGaussian, Family
from everlearn.core.mixture import Mixture
from everlearn.core.priors import DPPrior
from everlearn.estimators.mixture_families import Measured, resolve_family
from everlearn.estimators.mixture_workshop import memory_limits, row_bytes, schedule_of, workshop
from everlearn.estimators.shared_spread import SAMPLE_ROWS, shared_family
from everlearn.inference.chunks import ChunkedRows
from everlearn.inference.engine import Engine
from everlearn.inference.learners import fitting
from everlearn.inference.rows import Rows
from everlearn.inference.state import State

_HEADROOM = 1e-8


def model_of(params: Any, rows: Rows | ChunkedRows, seed: int, engine: Engine) -> Mixture:
    """The model for these rows; a prior that is found by learning is found here."""
    measured = Measured.of(rows, engine)
    family = _family(params.family, params.prior, measured)
    by_learning = isinstance(params.prior, str) and params.prior == "shared"
    if by_learning and isinstance(family, DiagGaussian):
        family = _shared(params, family, rows, measured.moments().variance, seed, engine)
    return _with_headroom(params, family)


def _shared(
    params: Any,
    family: DiagGaussian,
    rows: Rows | ChunkedRows,
    variance: Vec,
    seed: int,
    engine: Engine,
) -> DiagGaussian:
    """The family with the spread that a sample agrees with."""
    limits = memory_limits(params, _with_headroom(params, family), row_bytes(rows), SAMPLE_ROWS)
    sample = fitting.sampled(rows, limits.window_rows, seed, engine)

    def learned(start: DiagGaussian) -> State:
        model = _with_headroom(params, start)
        with workshop(params, model, sample, params.max_laps, engine) as tools:
            schedule = schedule_of(params, sample, tools.limits)
            return fitting.learn_sample(model, sample, seed, tools.runner, tools.moves, schedule)

    return shared_family(family, sample, variance, learned)


def _with_headroom(params: Any, family: Family[Any]) -> Mixture:
    """The model, if it leaves the working precision room to work in."""
    with np.errstate(all="ignore"):
        model = Mixture(family, DPPrior(float(params.concentration)))
        start = State.empty(model, 0).posterior()
    size = max(np.abs(start.eta).max(), np.abs(start.bias).max())
    if not size <= _HEADROOM * np.finfo(params.dtype).max:
        raise ValueError(
            "DPMixture cannot learn from X: with this prior its numbers would be of size "
            f"{size:g}, too large for dtype={params.dtype!r}. Scale X or the prior."
        )
    return model


def _family(family: str, prior: Any, rows: Measured) -> Family[Any]:
    try:
        return resolve_family(family, prior, rows)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"the 'prior' of DPMixture cannot be used: {error}") from error


def check_entries(family: str, prior: Any, n_features: int) -> None:
    """Refuse a prior whose entries do not fit rows of this width."""
    if not isinstance(prior, str):
        _family(family, prior, Measured.here(Rows(np.ones((1, n_features)))))
