"""Update the weights of tasks by a batch: a dual problem for averaging, sums for Gibbs."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.core.random import stream
from everlearn.engine.protocol import Engine
from everlearn.kernels.dual import ascend_weights, demands
from everlearn.topics.batches import Targets
from everlearn.topics.kernels.gaussians import add_moments, tabulate
from everlearn.topics.kernels.hinges import Hinges
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, TopicState

_TOLERANCE, _MOST_SWEEPS = 1e-3, 50
"""The dual ascent ends at this accuracy, in margins, or after this number of sweeps."""
_WORTH_SHARING = 1_000_000
"""Multiplications in inverting precisions from which on threads share them."""


def solve_dual(
    loss: Loss,
    weights: FixedSpread,
    z: Mat,
    targets: Targets,
    max_multiplier: float,
    start: Mat,
) -> tuple[FixedSpread, Mat]:
    """Weights and multipliers (B, Q) at the optimum of the batch (BayesPA eq. 22).

    Parameters
    ----------
    z : (B, K), topic frequencies
    max_multiplier : box constraint of the dual, as C is for a support vector machine
    start : (B, Q), multipliers to start from, because the last round's are near

    Multipliers of a regression have the sign of the pull.
    """
    mean, signs, values = weights.mean.copy(), targets.signs, targets.values
    given = demands(signs, values, start, loss.margin, max_multiplier, loss.regression)
    width = loss.margin if loss.regression else 0.0
    limits = (width, _TOLERANCE * loss.margin, _MOST_SWEEPS)
    ascend_weights(z, loss.variance, mean, *given, *limits)
    coefficients = given[0]
    multipliers = coefficients if loss.regression else np.abs(coefficients)
    return FixedSpread(mean), np.ascontiguousarray(multipliers.T)


class Drawn(Protocol):
    """What was drawn of documents: `totals`, `tallies` and `inverses` of `Draws`."""

    @property
    def totals(self) -> Mat: ...

    @property
    def tallies(self) -> NDArray[np.float64]: ...

    @property
    def inverses(self) -> NDArray[np.float64]: ...


def update_weights(
    settings: TopicSettings,
    weights: FixedSpread | Gaussians | None,
    targets: Targets,
    drawn: Drawn,
    lengths: Vec,
    multipliers: Mat,
) -> tuple[FixedSpread | Gaussians | None, Mat]:
    """Weights after these draws, and the multipliers of the averaging loss.

    `weights` are those before the batch, `lengths` (B,) the tokens of each document, at least 1.
    """
    loss = settings.loss
    if loss is None or weights is None:
        return weights, multipliers
    if isinstance(weights, FixedSpread):
        z = drawn.totals / (settings.n_kept * lengths[:, None])
        return solve_dual(loss, weights, z, targets, settings.max_multiplier, multipliers)
    tallies, inverses = drawn.tallies, drawn.inverses
    found = add_evidence(loss, weights, targets, tallies, inverses, lengths, settings.ghosts)
    return found, multipliers


def first_multipliers(
    loss: Loss, mean: Mat, z: Mat, signs: NDArray[np.int8], max_multiplier: float
) -> Mat:
    """Multipliers (B, Q) in closed form, as if each document were alone in its batch."""
    own = loss.variance * (z**2).sum(axis=1)
    empty = own == 0.0
    slack = np.maximum(loss.margin - signs * (z @ mean.T), 0.0)
    wanted = np.minimum(slack / np.where(empty, 1.0, own)[:, None], max_multiplier)
    return np.where((signs == 0) | empty[:, None], 0.0, wanted)


def tilts(mean: Mat, signs: NDArray[np.int8], multipliers: Mat | float, n: Vec | IntVec) -> Mat:
    """exp(sum_q y_q tau_q mu_qk / n), the largest of a document being 1."""
    exponent = ((signs * multipliers) @ mean) / n[:, None]
    return np.asarray(np.exp(exponent - exponent.max(axis=1, keepdims=True)))


def hinge_targets(loss: Loss, targets: Targets) -> tuple[NDArray[np.int8], Mat]:
    """Signs and offsets of the hinges; a number has two, one for each side of its tube."""
    if not loss.regression:
        return targets.signs, targets.values
    signs, values = targets.signs, targets.values
    return (
        np.concatenate([signs, -signs], axis=1),
        np.concatenate([values - loss.margin, -values - loss.margin], axis=1),
    )


def _moments(
    weights: Gaussians, engine: Engine | None, rng: np.random.Generator | None
) -> tuple[Mat, Cube]:
    """Means and covariances of the weights, or one draw of them with covariances of 0."""
    q, k = weights.shift.shape
    if rng is not None:
        return weights.draw(rng), np.zeros((q, k, k))
    if engine is None or q * k**3 < _WORTH_SHARING:
        return weights.moments()
    return weights.moments(engine)


def weight_draws(
    settings: TopicSettings, state: TopicState, number: int
) -> np.random.Generator | None:
    """Random numbers for the weights of round `number`; None if that uses their posterior."""
    if settings.loss is None or not settings.loss.draws_weights:
        return None
    return stream(state.seed, "sample", state.clock, number)


def make_hinges(
    loss: Loss,
    weights: Gaussians,
    targets: Targets,
    engine: Engine | None = None,
    rng: np.random.Generator | None = None,
) -> Hinges:
    """The hinges of a batch under the posterior of the weights, or under weights drawn from it.

    A tube around a number is two hinges that share their weights.
    """
    mean, covariance = _moments(weights, engine, rng)
    signs, offsets = hinge_targets(loss, targets)
    if loss.regression:
        mean, covariance = np.concatenate([mean, mean]), np.concatenate([covariance, covariance])
    q, k = mean.shape
    seconds, pairs, squares = np.empty((k, q, k)), np.empty((k, k, q)), np.empty((q, k))
    tabulate(mean, covariance, seconds, pairs, squares)
    means = np.ascontiguousarray(mean.T)
    return Hinges(signs, offsets, mean, means, seconds, pairs, squares, loss.c, loss.mean_only)


def no_hinges(n: int, n_topics: int) -> Hinges:
    """Empty hinges, for documents without a Gibbs loss."""
    return Hinges(
        np.zeros((n, 0), np.int8),
        np.zeros((n, 0)),
        np.zeros((0, n_topics)),
        np.zeros((n_topics, 0)),
        np.zeros((n_topics, 0, n_topics)),
        np.zeros((n_topics, n_topics, 0)),
        np.zeros((0, n_topics)),
        1.0,
        False,
    )


def add_evidence(
    loss: Loss,
    weights: Gaussians,
    targets: Targets,
    tallies: NDArray[np.float64],
    inverses: NDArray[np.float64],
    lengths: Vec,
    ghosts: int,
) -> Gaussians:
    """Natural parameters after a batch (BayesPA eq. 28).

    The sum is over products of topic frequencies, tallies (n_kept, B, K) over lengths, and of
    `inverses` (n_kept, B, hinges). It averages these products over sweeps, not the frequencies.
    """
    precision, shift = weights.precision.copy(), weights.shift.copy()
    signs, offsets = hinge_targets(loss, targets)
    scale = ghosts / len(tallies)
    add_moments(tallies, lengths, inverses, signs, offsets, loss.c, scale, precision, shift)
    return Gaussians(precision, shift)
