"""Choose the family and prior of a mixture.

With "auto" the spread within components is learned while components are searched for, from those
found so far. Their prior counts for few rows, so components may differ. In few dimensions the
search begins with narrow components, and again with one as wide as the data, because narrow ones
would teach the prior to be narrow. Where there are few rows
for many features, no component can show a spread of its own. Then "shared" is tried too: nearly
the same spread for all, which counts as much as `STIFFNESS` rows and begins with the spread of
near neighbours. Derivation: docs/math/gaussians.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.gaussian_full import FullGaussian
from everlearn.core.families.gaussian_zero_mean import ZeroMeanGaussian
from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Stats
from everlearn.engine.chunks import ChunkedRows, sample_rows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.estimator.families import DataSummary, check_prior, resolve_family, within_share
from everlearn.estimator.history import PriorChoice
from everlearn.mixture.learner import PriorCandidate
from everlearn.mixture.model import Mixture
from everlearn.mixture.settings import MixtureSettings
from everlearn.mixture.setup import mean_row_bytes, memory_limits
from everlearn.mixture.state import State
from everlearn.mixture.table_family import table_family

STIFFNESS: Final = 1000.0
"""Rows that the shared spread counts for in each component."""
FEW_ROWS: Final = 100
"""With fewer rows than this for each feature, a shared spread is tried."""
_NARROW: Final = 0.5
"""If the prior expects a smaller share of the variance within components, a wide one is tried."""
_ROWS_A_FEATURE: Final = 0.4
"""The shared spread is used if its components have fewer rows than this for each feature."""
_NEIGHBOUR_ROWS: Final = 1000
"""Rows of the sample that near neighbours are found in."""
_NEIGHBOURS: Final = 5
_FARTHER: Final = 1.5  # rows of a component differ more than near neighbours, by about so much
_MIN_SHARE: Final = 1e-6  # of the variance of all rows
_HEADROOM: Final = 1e-8  # largest number at the start, as a part of the largest of the dtype


def prior_candidates(
    settings: MixtureSettings,
    rows: Rows | ChunkedRows,
    seed: int,
    engine: Engine,
    *,
    stream: bool = False,
) -> tuple[PriorCandidate, ...]:
    """The priors to try on these rows.

    A stream never gets "shared" from "auto", because it will have many rows.
    """
    named = settings.prior if isinstance(settings.prior, str) else "given"
    if settings.columns is not None:
        with _prior_errors(settings.owner):
            check_prior("table", settings.prior)
        family: Family[Any] = table_family(settings.columns, rows, engine)
        return (_candidate(settings, named, family),)
    summary = DataSummary.of(rows, engine)
    family = _family(settings.owner, settings.family, settings.prior, summary)
    families = [(named, family)] if named != "shared" else []
    narrow = named == "auto" and within_share(family.n_features) < _NARROW
    if narrow and isinstance(family, DiagGaussian | FullGaussian | ZeroMeanGaussian):
        families.append((named, _as_wide_as_data(family)))
    few = named == "auto" and len(rows) < FEW_ROWS * family.n_features and not stream
    if isinstance(family, DiagGaussian) and (few or named == "shared"):
        variance = summary.moments().variance
        alike = _with_neighbours_spread(settings, family, rows, variance, seed, engine)
        families.append(("shared", alike))
    return tuple(_candidate(settings, *pair) for pair in families)


def _as_wide_as_data(
    family: DiagGaussian | FullGaussian | ZeroMeanGaussian,
) -> DiagGaussian | FullGaussian | ZeroMeanGaussian:
    """The family whose prior expects components with the whole variance of the data."""
    share = within_share(family.n_features)
    if isinstance(family, DiagGaussian):
        return replace(family, prior=replace(family.prior, rate=family.prior.rate / share))
    if isinstance(family, FullGaussian):
        return replace(family, prior=replace(family.prior, scale=family.prior.scale / share))
    return replace(family, prior=replace(family.prior, scale=family.prior.scale / share))


def choose_prior(
    candidates: Sequence[PriorCandidate], found: Sequence[tuple[Mixture, Stats]]
) -> tuple[int, PriorChoice]:
    """Position of the prior to use, given the models and components found with each.

    Of learned spreads, the one with the highest bound is used. A shared spread is used if its
    components have far fewer rows than features. Neither the evidence nor the likelihood of rows
    left out can choose that: in 300 rows of 100 features both prefer two wide components to ten
    classes.
    """
    last = len(candidates) - 1
    own = [i for i, candidate in enumerate(candidates) if candidate.name != "shared"]
    best = max(own, key=lambda i: found[i][0].bound(found[i][1]), default=last)
    if candidates[last].name != "shared" or last == 0:
        return best, PriorChoice(candidates[best].name)
    model, stats = found[last]
    rows_each = float(stats.n.sum()) / len(stats)
    n_features = model.family.n_features
    if rows_each < _ROWS_A_FEATURE * n_features:
        best = last
    return best, PriorChoice(candidates[best].name, rows_each, n_features)


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


def _candidate(settings: MixtureSettings, name: str, family: Family[Any]) -> PriorCandidate:
    """The candidate, unless its first numbers are too large for the precision."""
    with np.errstate(all="ignore"):
        model = Mixture(family, DPPrior(settings.concentration))
        start = State.empty(model, 0).posterior()
    size = max(np.abs(start.eta).max(), np.abs(start.bias).max())
    if not size <= _HEADROOM * np.finfo(settings.dtype).max:
        raise ValueError(
            f"{settings.owner} cannot learn from X: with this prior its numbers would be of size "
            f"{size:g}, too large for dtype={settings.dtype!r}. Scale X or the prior."
        )
    learns = name in ("auto", "shared")
    return PriorCandidate("learned" if name == "auto" else name, model, learns)


def _with_neighbours_spread(
    settings: MixtureSettings,
    family: DiagGaussian,
    rows: Rows | ChunkedRows,
    variance: Vec,
    seed: int,
    engine: Engine,
) -> DiagGaussian:
    """The family that firmly expects the spread of near neighbours in a sample of the rows."""
    model = Mixture(family, DPPrior(settings.concentration))
    limits = memory_limits(settings, model, mean_row_bytes(rows), _NEIGHBOUR_ROWS)
    sample = sample_rows(rows, limits.window_rows, seed, engine)
    spread = np.clip(_FARTHER * neighbour_spread(sample.X), _MIN_SHARE * variance, variance)
    shape = 0.5 * STIFFNESS
    return replace(family, prior=replace(family.prior, shape=shape, rate=shape * spread))


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
