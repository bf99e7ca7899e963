"""How odd rows are under a mixture, and how odd the rows seen so far were.

The score of a row is minus the log of the sum over components of

    weight * density of the row / density that rows of the component have on average.

Dividing makes clusters of different spread comparable: without it all rows of a wide cluster are
odder than rows far outside of a narrow one. The weight remains, because a row in a cluster of few
rows is odd. Counts are scored per token, so that long rows are not odd for their length.

What is flagged is decided by scores of rows that the model has not learned: rows of a stream are
scored before they are learned, and rows of `fit` with their own statistics subtracted. Derivation
and measurements: docs/math/outliers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from scipy.special import logsumexp

from everlearn.core.arrays import IntVec, Mat, Table, Vec
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
"""Rows of a stream are scored in blocks: at first all blocks, later one of so many."""
_PREDICT_ROWS: Final = 4096
_LEFT_OUT_ROWS: Final = 16
"""Rows that are left out at the same time. Each has a posterior of its own."""
_LEFT_OUT_STATS, _FEWEST_LEFT_OUT = 20_000_000, 200
"""Statistics of all these posteriors together, which take a second or two, and fewest rows."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenScores:
    """Scores of rows by a model that had not learned them, the latest last.

    Attributes
    ----------
    scores : (n,)
    weights : (n,), of the rows
    known : (n,), how many rows the model knew that scored the row
    """

    scores: Vec
    weights: Vec
    known: IntVec

    @classmethod
    def of(cls, scores: Vec, weights: Vec | None, known: int) -> SeenScores:
        """Of rows with these weights."""
        each = np.ones(len(scores)) if weights is None else weights
        return cls(scores, each, np.full(len(scores), known))

    def after(self, new: SeenScores, most: int = MAX_SCORES) -> SeenScores:
        """With newer scores, the latest `most` of all.

        A model becomes sharper while it learns. So scores of one that knew less than half of the
        rows are left out.
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
        """Of several models, now one that knows so many rows.

        If there are too many scores, each model keeps the same share.
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
    """How odd each row is; larger is odder. So many rows are worked on at a time."""
    q = model.family.posterior(stats.n, stats.t)
    log_weights = _log_weights(model, stats)
    blocks = (X[i : i + block] for i in range(0, X.shape[0], block))
    found = [_joined(model, b, _relative(model.family, b, q) + log_weights) for b in blocks]
    return np.concatenate(found)


def n_left_out(model: Mixture, most: int) -> int:
    """How many rows to leave out: fewer if components have many statistics."""
    return min(most, MAX_SCORES, max(_FEWEST_LEFT_OUT, _LEFT_OUT_STATS // model.family.n_stats))


def left_out_scores(model: Mixture, stats: Stats, rows: Rows) -> Vec:
    """The same of rows that the statistics contain, each without its own part.

    A row is subtracted from its likeliest component, as far as it belongs to that. The other
    components, and the number of them, stay as they are. Of a row with a weight above 1, which
    stands for several equal ones, one is subtracted.
    """
    family, X = model.family, rows.X
    parts = np.ones(len(rows)) if rows.weights is None else np.minimum(rows.weights, 1.0)
    q = family.posterior(stats.n, stats.t)
    log_weights = _log_weights(model, stats)
    found = []
    for start in range(0, X.shape[0], _LEFT_OUT_ROWS):
        block = X[start : start + _LEFT_OUT_ROWS]
        joint = family.log_predictive(block, q) + log_weights
        k, places = joint.argmax(axis=1), np.arange(len(joint))
        share = np.exp(joint.max(axis=1) - logsumexp(joint, axis=1))
        share = np.minimum(share * parts[start : start + _LEFT_OUT_ROWS], stats.n[k])
        own = family.features(block)
        if isinstance(family, Multinomial):
            own = own.toarray() if hasattr(own, "toarray") else own
        without = family.posterior(stats.n[k] - share, stats.t[k] - share[:, None] * own)
        scores = _relative(family, block, q) + log_weights
        scores[places, k] = np.diagonal(_relative(family, block, without))
        scores[places, k] += log_weights[k] + np.log1p(-share / (1.0 + stats.n[k]))
        found.append(_joined(model, block, scores))
    return np.concatenate(found)


def scored_positions(seed: int, start: int, n: int) -> IntVec:
    """Which of `n` rows of a stream to score, `start` rows after its beginning.

    It depends on the place in the stream alone, not on how it is cut into calls. Of the latter
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
    """Which blocks of a group to score; remembered, because many calls may share a group."""
    wanted = -(-_EVERY * MAX_SCORES // max(MAX_SCORES, number * _BLOCK * _EVERY))
    order = stream(seed, "score", number).permutation(_EVERY)
    return tuple(sorted(order[: max(1, wanted)].tolist()))


def scored_before_learning(
    model: Mixture, stats: Stats, rows: Rows, seed: int, start: int, block: int
) -> SeenScores:
    """Scores of some new rows, which the statistics do not contain yet, after `start` others."""
    chosen = scored_positions(seed, start, len(rows))
    if not len(chosen):
        return SeenScores.of(np.empty(0), None, start)
    part = rows[chosen]
    return SeenScores.of(outlier_scores(model, stats, part.X, block), part.weights, start)


def _relative(family: Family[Any], X: Table, q: Any) -> Mat:
    return family.log_predictive(X, q) - family.log_typical(X, q)


def _joined(model: Mixture, X: Table, scores: Mat) -> Vec:
    """One score a row, from the log of weight times relative density under each component."""
    found = -logsumexp(scores, axis=1)
    if isinstance(model.family, Multinomial):
        found /= np.maximum(np.asarray(X.sum(axis=1), np.float64).ravel(), 1.0)
    return np.asarray(np.minimum(found, LARGEST_SCORE))


def _log_weights(model: Mixture, stats: Stats) -> Vec:
    """Log weights of the known components. What only an unseen one could explain is odd."""
    known, _ = model.sticks(stats).mean_weights()
    return np.asarray(np.log(known))
