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
from typing import Final

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.families import DiagGaussian
from everlearn.inference.rows import Rows
from everlearn.inference.state import State

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
