"""The local step of PPCA and of mixtures of it: from blocks of rows to additive sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.special import logsumexp

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.ppca.model import PPCA, RowPosterior
from everlearn.ppca.moments import Moments
from everlearn.ppca.stats import FeatureSums, LatentStats, row_stats

_BLOCK_NUMBERS = 2**22
"""Numbers of a block with its latent variables, at most."""
_MIN_BLOCK_ROWS, _MAX_BLOCK_ROWS = 64, 2048
_NEGLIGIBLE = 1e-12
"""Responsibilities below this do not enter the moments of a component."""
_LARGEST_SCORE = 1e100
"""Log densities are clipped to this size before they are squared."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalRequest:
    """The components, and which sums to compute. All blocks share it.

    Attributes
    ----------
    models, log_weights : the components, and the logarithms of their shares, (K,)
    origin : (d,), where statistics are centred
    moments, stats, features : which sums to compute
    threshold : rows are odd if every component gives them a lower log density. None: no row is odd
    gap_models : models that fill gaps. None: the components fill them
    """

    models: tuple[PPCA, ...]
    log_weights: Vec
    origin: Vec
    moments: bool = False
    stats: bool = False
    features: bool = False
    threshold: float | None = None
    gap_models: tuple[PPCA, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LocalSum:
    """Sums over rows.

    Attributes
    ----------
    moments, stats, features : for each component, if the request asks for them
    odd : moments of odd rows
    likelihoods : (4,) sums over the rows that are not odd, of: weights, log-likelihoods, log
        densities under the best component, and squares of these densities
    """

    moments: tuple[Moments, ...]
    stats: LatentStats | None
    odd: Moments | None
    likelihoods: Vec
    features: tuple[FeatureSums, ...] = ()

    def __add__(self, other: LocalSum) -> LocalSum:
        moments = zip(self.moments, other.moments, strict=True)
        stats = None if self.stats is None or other.stats is None else self.stats + other.stats
        odd = None if self.odd is None or other.odd is None else self.odd + other.odd
        together = tuple(one + two for one, two in moments)
        pairs = zip(self.features, other.features, strict=True)
        features = tuple(one + two for one, two in pairs)
        return LocalSum(together, stats, odd, self.likelihoods + other.likelihoods, features)


def block_rows(d: int, q: int) -> int:
    """Rows of a block. It depends on the model alone, so that results do not depend on engines."""
    return int(np.clip(_BLOCK_NUMBERS // (d * (q + 1)), _MIN_BLOCK_ROWS, _MAX_BLOCK_ROWS))


def sum_over_rows(request: LocalRequest, rows: Rows | ChunkedRows, engine: Engine) -> LocalSum:
    """The sums over all rows, block by block."""
    model = request.models[0]
    blocks = rows.pieces(block_rows(len(model.mean), model.rank))
    return engine.map_sum(local_step, blocks, request)[0]


def local_step(request: LocalRequest, rows: Rows) -> tuple[LocalSum, None]:
    """The sums over one block."""
    alone = len(request.models) == 1 and request.threshold is None
    if alone and not (request.stats or request.features) and not np.isnan(rows.X).any():
        only = Moments.of_rows(rows.X, rows.weights)
        return LocalSum((only,), None, None, np.zeros(4)), None
    posteriors = [model.posterior(rows.X) for model in request.models]
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    joint = joint_log_likelihood(posteriors, request.log_weights)
    score = np.asarray(logsumexp(joint, axis=1))
    # The density under the best component ignores its share, because new ones have small shares.
    best = np.stack([posterior.log_likelihood for posterior in posteriors]).max(axis=0)
    usual = np.ones(len(rows), np.bool_)
    if request.threshold is not None:
        usual = best >= request.threshold
    shares = np.exp(joint - score[:, None]) * (weights * usual)[:, None]
    kept, seen = weights[usual], np.clip(best[usual], -_LARGEST_SCORE, _LARGEST_SCORE)
    likelihoods = np.array([kept.sum(), kept @ score[usual], kept @ seen, kept @ seen**2])
    stats = None
    if request.stats:
        pairs = zip(posteriors, shares.T, strict=True)
        stats = reduce(LatentStats.join, [row_stats(*pair, request.origin) for pair in pairs])
    if request.gap_models is not None and np.isnan(rows.X).any():
        posteriors = [model.posterior(rows.X) for model in request.gap_models]
    parts = list(zip(posteriors, shares.T, strict=True))
    moments = tuple(_moments(*part) for part in parts) if request.moments else ()
    features = tuple(FeatureSums.of(*part) for part in parts) if request.features else ()
    odd = None
    if request.threshold is not None:
        odd = _moments(posteriors[int(request.log_weights.argmax())], weights * ~usual)
    return LocalSum(moments, stats, odd, likelihoods, features), None


def joint_log_likelihood(posteriors: Sequence[RowPosterior], log_weights: Vec) -> Mat:
    """Log of share times density, (n, K)."""
    columns = [posterior.log_likelihood for posterior in posteriors]
    return np.stack(columns, axis=1) + log_weights


def _moments(rows: RowPosterior, weights: Vec) -> Moments:
    """Moments of rows whose weights are not negligible; without mass if there are none."""
    keep = np.flatnonzero(weights > _NEGLIGIBLE * weights.max(initial=0.0))
    if not len(keep):
        return Moments(0.0, rows.model.mean, np.empty((len(rows.model.mean), 0)))
    return Moments.of_posterior(_picked(rows, keep), weights[keep])


def _picked(rows: RowPosterior, keep: np.ndarray[tuple[int], np.dtype[np.intp]]) -> RowPosterior:
    if len(keep) == len(rows.z):
        return rows
    filled, z, score = rows.filled[keep], rows.z[keep], rows.log_likelihood[keep]
    if rows.where is None or rows.missing is None or rows.spread is None:
        return RowPosterior(rows.model, filled, z, score)
    place = np.full(len(rows.z), -1)
    place[keep] = np.arange(len(keep))
    there = place[rows.where] >= 0
    where = place[rows.where][there]
    return RowPosterior(
        rows.model, filled, z, score, where, rows.missing[there], rows.spread[there]
    )
