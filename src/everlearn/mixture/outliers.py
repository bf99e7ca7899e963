"""Outlier scores of rows under a mixture, and the threshold above which a row is an outlier.

The score of a row is minus the log of the sum over components of

    weight * density of the row / density that rows of the component have on average.

Dividing makes clusters of different spread comparable. Without it, all rows of a wide cluster would
score higher than rows far outside of a narrow one. The weight remains, so rows of small clusters
score higher. Counts are scored per token, so long rows do not score higher for their length.

The threshold is a quantile of scores by models that had not learned the row: rows of a stream are
scored before they are learned, and rows of `fit` leave-one-out. Derivation and measurements:
docs/math/outliers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from scipy.special import logsumexp

from everlearn.core.arrays import IntVec, Mat, Table, Vec, as_dense
from everlearn.core.families.base import Family
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.random import stream
from everlearn.core.stats import Stats
from everlearn.engine.rows import Rows
from everlearn.mixture.model import Mixture

MAX_SCORES: Final = 2048
"""Scores that are kept, of the latest rows that were scored."""
LARGEST_SCORE: Final = 1e300
_BLOCK, _EVERY = 64, 8
"""Rows of a block of a stream, and the share of blocks that is scored later: one in `_EVERY`."""
_PREDICT_ROWS: Final = 4096
"""Rows that are scored at a time."""
_LEAVE_OUT_ROWS: Final = 16
"""Rows that are left out at a time. Each needs a posterior of its own."""
_LEAVE_OUT_STATS, _FEWEST_LEAVE_OUT = 20_000_000, 200
"""Most statistics of all these posteriors, which take a second or two, and fewest rows."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenScores:
    """Scores of rows by a model that had not learned them, the latest last.

    Attributes
    ----------
    scores : (n,)
    weights : (n,), of the rows
    known : (n,), rows that the model had learned when it scored the row
    """

    scores: Vec
    weights: Vec
    known: IntVec

    @classmethod
    def of(cls, scores: Vec, weights: Vec | None, known: int) -> SeenScores:
        """Scores of rows with these weights, by a model that had learned `known` rows."""
        each = np.ones(len(scores)) if weights is None else weights
        return cls(scores, each, np.full(len(scores), known))

    def after(self, new: SeenScores, most: int = MAX_SCORES) -> SeenScores:
        """These scores and newer ones, the latest `most` of them.

        Scores change while a model learns. So those by a model with less than half of the rows are
        dropped.
        """
        parts = zip(self._arrays, new._arrays, strict=True)
        scores, weights, known = (np.concatenate(pair)[-most:] for pair in parts)
        current = 2 * known >= known.max(initial=0)
        return SeenScores(scores[current], weights[current], known[current])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def _arrays(self) -> tuple[Vec, Vec, IntVec]:
        return self.scores, self.weights, self.known

    @classmethod
    def pooled(cls, parts: Sequence[SeenScores], known: int) -> SeenScores:
        """Scores of several models that are merged into one with `known` rows.

        If there are too many, each model keeps the same share.
        """
        step = max(1.0, sum(len(part.scores) for part in parts) / MAX_SCORES)
        chosen = [np.arange(0, len(p.scores), step).astype(np.int64) for p in parts]
        pairs = list(zip(parts, chosen, strict=True))
        scores = np.concatenate([part.scores[where] for part, where in pairs])[-MAX_SCORES:]
        weights = np.concatenate([part.weights[where] for part, where in pairs])[-MAX_SCORES:]
        return cls.of(scores, weights, known)

    def threshold(self, rate: float) -> float:
        """The score that about this share of new rows exceeds.

        A new row is as likely to have any rank among the seen ones. So it exceeds the k-th
        smallest of n scores with a probability of at most 1 - k / (n + 1). With fewer than
        1 / rate scores, it is the largest.
        """
        order = np.argsort(self.scores, kind="stable")
        below = np.cumsum(self.weights[order])
        whole = below[-1] + self.weights.mean()
        enough = below >= (1.0 - rate) * whole * (1.0 - 1e-12)
        place = int(np.argmax(enough)) if enough.any() else len(order) - 1
        return float(self.scores[order[place]])


def outlier_scores(model: Mixture, stats: Stats, X: Table, block: int = _PREDICT_ROWS) -> Vec:
    """The outlier score of each row; larger is odder. Works on `block` rows at a time."""
    q = model.family.posterior(stats.n, stats.t)
    log_weights = _log_weights(model, stats)
    blocks = (X[i : i + block] for i in range(0, X.shape[0], block))
    found = [
        _row_scores(model, b, _relative_density(model.family, b, q) + log_weights) for b in blocks
    ]
    return np.concatenate(found)


def n_leave_one_out(model: Mixture, most: int) -> int:
    """Rows to score leave-one-out: `most`, or fewer if components have many statistics."""
    return min(most, MAX_SCORES, max(_FEWEST_LEAVE_OUT, _LEAVE_OUT_STATS // model.family.n_stats))


def leave_one_out_scores(model: Mixture, stats: Stats, rows: Rows) -> Vec:
    """Outlier scores of rows that have been learned, each by a model without that row.

    The row is subtracted from its likeliest component, as far as it belongs to it. The other
    components, and their number, stay as they are. Of a row with a weight above 1, which stands for
    several equal ones, one is subtracted.
    """
    family, X = model.family, rows.X
    parts = np.ones(len(rows)) if rows.weights is None else np.minimum(rows.weights, 1.0)
    q = family.posterior(stats.n, stats.t)
    log_weights = _log_weights(model, stats)
    found = []
    for start in range(0, X.shape[0], _LEAVE_OUT_ROWS):
        # Sparse rows become dense, so that scores do not depend on how rows are stored.
        block = as_dense(X[start : start + _LEAVE_OUT_ROWS])
        joint = family.log_predictive(block, q) + log_weights
        k, places = joint.argmax(axis=1), np.arange(len(joint))
        share = np.exp(joint.max(axis=1) - logsumexp(joint, axis=1))
        share = np.minimum(share * parts[start : start + _LEAVE_OUT_ROWS], stats.n[k])
        own = family.features(block)
        without = family.posterior(stats.n[k] - share, stats.t[k] - share[:, None] * own)
        scores = _relative_density(family, block, q) + log_weights
        scores[places, k] = np.diagonal(_relative_density(family, block, without))
        scores[places, k] += log_weights[k] + np.log1p(-share / (1.0 + stats.n[k]))
        found.append(_row_scores(model, block, scores))
    return np.concatenate(found)


def scored_positions(seed: int, start: int, n: int) -> IntVec:
    """Positions of the rows to score, among `n` rows that come after `start` others.

    They depend on the place in the stream alone, not on how it is cut into calls. Of the latter
    half of a stream, about a thousand rows are scored or one in eight, whichever is more.
    """
    group = _BLOCK * _EVERY
    found = []
    for number in range(start // group, (start + n - 1) // group + 1):
        for block in _chosen_blocks(seed, number):
            first = number * group + block * _BLOCK
            found.append(np.arange(max(first, start), min(first + _BLOCK, start + n)) - start)
    return np.concatenate(found)[-MAX_SCORES:]


@lru_cache(maxsize=16)
def _chosen_blocks(seed: int, number: int) -> tuple[int, ...]:
    """The blocks of a group to score. Cached, because many calls may share a group."""
    wanted = -(-_EVERY * MAX_SCORES // max(MAX_SCORES, number * _BLOCK * _EVERY))
    order = stream(seed, "score", number).permutation(_EVERY)
    return tuple(sorted(order[: max(1, wanted)].tolist()))


def scored_before_learning(
    model: Mixture, stats: Stats, rows: Rows, seed: int, start: int, block: int
) -> SeenScores:
    """Scores of a sample of new rows, before they are learned. They come after `start` others."""
    chosen = scored_positions(seed, start, len(rows))
    if not len(chosen):
        return SeenScores.of(np.empty(0), None, start)
    part = rows[chosen]
    return SeenScores.of(outlier_scores(model, stats, part.X, block), part.weights, start)


def _relative_density(family: Family[Any], X: Table, q: Any) -> Mat:
    """Log of each density over its average for rows of the component, (n_rows, K)."""
    return family.log_predictive(X, q) - family.log_typical(X, q)


def _row_scores(model: Mixture, X: Table, scores: Mat) -> Vec:
    """The score of each row, from logs of weight times relative density, (n_rows, K)."""
    found = -logsumexp(scores, axis=1)
    if isinstance(model.family, Multinomial):
        found /= np.maximum(np.asarray(X.sum(axis=1), np.float64).ravel(), 1.0)
    return np.asarray(np.minimum(found, LARGEST_SCORE))


def _log_weights(model: Mixture, stats: Stats) -> Vec:
    """Log weights of the components. The weight of unseen ones is left out."""
    known, _ = model.sticks(stats).mean_weights()
    return np.asarray(np.log(known))
