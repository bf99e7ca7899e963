"""The prior "shared": all components have nearly one spread, and the rows say which.

A vague prior lets every component find its own spread, and on real features a good optimiser then
cuts classes into many tight pieces, or leaves the rest of all of them in one wide one. Here the
spread of a component is worth `STIFFNESS` rows before it has seen any. It is a fixed point: a
sample is learned with one spread, and the one within the components that were found is the next.
Near neighbours tell where to begin. Derivation: docs/math/gaussians.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.priors.dp import DPPrior
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.estimator.families import DataSummary, resolve_family
from everlearn.mixture import memoized as fitting
from everlearn.mixture.model import Mixture
from everlearn.mixture.setup import memory_limits, row_bytes, schedule_of, workshop
from everlearn.mixture.state import State

STIFFNESS: Final = 1000.0
"""Rows that the shared spread is worth in every component."""
SAMPLE_ROWS: Final = 1000
"""Rows that the spread is found from."""
_NEIGHBOURS = 5
_FARTHER = 1.5
"""Rows of a component differ by more than near neighbours do; a start needs no better number."""
_ROUNDS = 2
_LEAST = 1e-6
"""No spread is smaller than this part of that of all rows."""
Learn = Callable[[DiagGaussian], State]
"""What the sample teaches with a prior."""


def shared_family(family: DiagGaussian, rows: Rows, variance: Vec, learn: Learn) -> DiagGaussian:
    """The family with the spread that a sample of the rows agrees with.

    Parameters
    ----------
    family : DiagGaussian
        Its mean and its mean precision are kept.
    rows : Rows
        The sample.
    variance : ndarray of shape (n_features,)
        That of all rows.
    learn : callable
        What learning the sample with a prior leads to.
    """
    spread = _FARTHER * neighbour_spread(rows.X)
    for _ in range(_ROUNDS):
        start = _with_spread(family, spread, variance)
        state = learn(start)
        spread = start.shared_spread(state.total.n, state.total.t)
    return _with_spread(family, spread, variance)


def neighbour_spread(X: Mat) -> Vec:
    """Half the mean squared difference of each feature between a row and its nearest ones.

    Missing values are taken for the mean, which makes the spread of a feature a little smaller.
    """
    x = np.array(X, np.float64)
    seen = ~np.isnan(x)
    x -= np.sum(x, axis=0, where=seen) / np.maximum(seen.sum(axis=0), 1)
    x[~seen] = 0.0
    squares = np.einsum("nd,nd->n", x, x)
    count = min(_NEIGHBOURS, len(x) - 1)
    total = np.zeros(x.shape[1])
    for i, row in enumerate(x):
        distance = squares - 2.0 * (x @ row)
        distance[i] = np.inf
        nearest = np.argpartition(distance, count)[:count]
        total += ((x[nearest] - row) ** 2).sum(axis=0)
    return np.asarray(0.5 * total / max(1, len(x) * count))


def _with_spread(family: DiagGaussian, spread: Vec, variance: Vec) -> DiagGaussian:
    """The family with this variance of each feature expected within components."""
    shape = 0.5 * STIFFNESS
    rate = shape * np.clip(spread, _LEAST * variance, variance)
    return replace(family, prior=replace(family.prior, shape=shape, rate=rate))


_HEADROOM = 1e-8


def model_of(params: Any, rows: Rows | ChunkedRows, seed: int, engine: Engine) -> Mixture:
    """The model for these rows; a prior that is found by learning is found here."""
    measured = DataSummary.of(rows, engine)
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


def _family(family: str, prior: Any, rows: DataSummary) -> Family[Any]:
    try:
        return resolve_family(family, prior, rows)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"the 'prior' of DPMixture cannot be used: {error}") from error


def check_entries(family: str, prior: Any, n_features: int) -> None:
    """Refuse a prior whose entries do not fit rows of this width."""
    if not isinstance(prior, str):
        _family(family, prior, DataSummary.from_rows(Rows(np.ones((1, n_features)))))
