"""Choose the family and prior of a mixture. The prior "shared" is learned from the rows.

With a vague prior each component finds its own spread. On real features a good optimiser then
cuts classes into many small pieces, and leaves the rest of all classes in one wide component.
With "shared" all components have nearly the same spread, which counts as much as `STIFFNESS`
rows. It is a fixed point: learn a sample with a spread, take the spread within the components
found as the next one. It begins with the spread of near neighbours. Derivation:
docs/math/gaussians.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from everlearn.estimator.families import DataSummary, check_prior, resolve_family
from everlearn.mixture.model import Mixture
from everlearn.mixture.search import fit_sample, sample_rows
from everlearn.mixture.settings import MixtureSettings
from everlearn.mixture.setup import mean_row_bytes, memory_limits, open_tools
from everlearn.mixture.state import State
from everlearn.mixture.table_family import table_family

STIFFNESS: Final = 1000.0
"""Rows that the shared spread counts for in each component."""
SAMPLE_ROWS: Final = 1000
"""Rows of the sample that the shared spread is found from."""
_NEIGHBOURS: Final = 5
_FARTHER: Final = 1.5  # rows of a component differ more than near neighbours, by about so much
_ROUNDS: Final = 2
_MIN_SHARE: Final = 1e-6  # of the variance of all rows
_HEADROOM: Final = 1e-8  # largest number at the start, as a part of the largest of the dtype


def choose_model(
    settings: MixtureSettings, rows: Rows | ChunkedRows, seed: int, engine: Engine
) -> Mixture:
    """The model for these rows, with its prior."""
    if settings.columns is not None:
        with _prior_errors(settings.owner):
            check_prior("table", settings.prior)
        return _with_headroom(settings, table_family(settings.columns, rows, engine))
    summary = DataSummary.of(rows, engine)
    family = _family(settings.owner, settings.family, settings.prior, summary)
    # A prior may be a mapping of arrays, which cannot be compared with a text.
    by_learning = isinstance(settings.prior, str) and settings.prior == "shared"
    if by_learning and isinstance(family, DiagGaussian):
        variance = summary.moments().variance
        family = _learn_shared(settings, family, rows, variance, seed, engine)
    return _with_headroom(settings, family)


def check_entries(owner: str, family: str, prior: str | Mapping[str, Any], n_features: int) -> None:
    """Refuse a prior whose entries do not fit rows of this width."""
    if not isinstance(prior, str) and family != "table":
        _family(owner, family, prior, DataSummary.from_rows(Rows(np.ones((1, n_features)))))


def _family(
    owner: str, family: str, prior: str | Mapping[str, Any], summary: DataSummary
) -> Family[Any]:
    with _prior_errors(owner):
        return resolve_family(family, prior, summary)


@contextmanager
def _prior_errors(owner: str) -> Iterator[None]:
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"the 'prior' of {owner} cannot be used: {error}") from error


def _with_headroom(settings: MixtureSettings, family: Family[Any]) -> Mixture:
    """The model, unless its first numbers are too large for the precision."""
    with np.errstate(all="ignore"):
        model = Mixture(family, DPPrior(settings.concentration))
        start = State.empty(model, 0).posterior()
    size = max(np.abs(start.eta).max(), np.abs(start.bias).max())
    if not size <= _HEADROOM * np.finfo(settings.dtype).max:
        raise ValueError(
            f"{settings.owner} cannot learn from X: with this prior its numbers would be of size "
            f"{size:g}, too large for dtype={settings.dtype!r}. Scale X or the prior."
        )
    return model


def _learn_shared(
    settings: MixtureSettings,
    family: DiagGaussian,
    rows: Rows | ChunkedRows,
    variance: Vec,
    seed: int,
    engine: Engine,
) -> DiagGaussian:
    """The family with a spread that is found on a sample of the rows."""
    model = _with_headroom(settings, family)
    limits = memory_limits(settings, model, mean_row_bytes(rows), SAMPLE_ROWS)
    sample = sample_rows(rows, limits.window_rows, seed, engine)

    def learn(start: DiagGaussian) -> State:
        model = _with_headroom(settings, start)
        with open_tools(settings, model, sample, engine) as tools:
            return fit_sample(model, sample, seed, tools)

    return shared_family(family, sample, variance, learn)


def shared_family(
    family: DiagGaussian, sample: Rows, variance: Vec, learn: Callable[[DiagGaussian], State]
) -> DiagGaussian:
    """The family with the spread that the components of a sample have.

    Parameters
    ----------
    family : DiagGaussian
        Keeps its mean and its mean precision.
    sample : Rows
        The sample.
    variance : ndarray of shape (n_features,)
        Variance of all rows.
    learn : callable
        Learns the sample with a family, and returns the state.
    """
    spread = _FARTHER * neighbour_spread(sample.X)
    for _ in range(_ROUNDS):
        start = _with_spread(family, spread, variance)
        state = learn(start)
        spread = start.shared_spread(state.total.n, state.total.t)
    return _with_spread(family, spread, variance)


def neighbour_spread(X: Mat) -> Vec:
    """Half the mean squared difference of each feature between a row and its nearest ones.

    Missing values are replaced by the mean, which makes the spread of a feature a little smaller.
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
    rate = shape * np.clip(spread, _MIN_SHARE * variance, variance)
    return replace(family, prior=replace(family.prior, shape=shape, rate=rate))
