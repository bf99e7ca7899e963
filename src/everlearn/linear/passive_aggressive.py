"""Online Bayesian passive-aggressive learning of linear scores (Shi and Zhu, section 3).

The averaging classifier keeps the covariance of the weights and moves their mean as little as the
margins ask for; the Gibbs classifier conditions a Gaussian on pseudo-observations. A squared loss
and hard margins are not in the paper: they are PA-II and PA of Crammer et al.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Mat, Table
from everlearn.core.random import stream
from everlearn.kernels.dual import ascend
from everlearn.linear.beliefs import (
    Belief,
    Block,
    DiagonalBelief,
    FullBelief,
    LinearState,
    as_dense,
    blocks,
    settled,
)
from everlearn.linear.gaussian import conditioned, inverse_mean, moments, whitened
from everlearn.linear.kernels import inverse_gaussians, learn_dense, learn_sparse

Condition = Callable[[IntVec, Mat, Mat], tuple[Mat, Mat]]
"""Means and variances of the scores of some tasks, given the weight and the pull of each row."""
_REFRESH = 256
"""Batches after which covariances are computed anew from the precisions, which do not drift."""
_DRAWS = 5
"""Draws for each pair of a sampled batch; what they add to the belief is averaged."""
_ROUNDING = 1e-12
"""A score that moves by less, as a share of itself, need not have moved."""
_WORK_ENTRIES = 1 << 22
"""Entries of the largest array that the tasks of a batch may share; others wait for their turn."""


@dataclass(frozen=True, slots=True)
class AveragingLearner:
    """Moves the mean of the weights; their covariance stays `variance` times I.

    Attributes
    ----------
    one_sided : bool
        Whether scores beyond their target are as good as those at it: classes, not numbers.
    width : float
        Half-width of the tube around targets.
    box, ridge : float
        Largest multiplier, and 1 / (2 C) for a squared loss of weight C.
    variance : float
        Prior variance of each weight.
    batch_size, max_rounds, tol
        Rows that are learned together, sweeps over them, and when to stop, as a share of the
        largest loss that the batch begins with.
    """

    one_sided: bool
    width: float
    box: float
    ridge: float
    variance: float
    batch_size: int = 1
    max_rounds: int = 50
    tol: float = 1e-3

    def start(self, n_tasks: int, n_weights: int, seed: int) -> LinearState:
        return LinearState(settled(np.zeros((n_tasks, n_weights))), None, 0, 0, seed)

    def learn(self, state: LinearState, X: Table, targets: Mat, order: IntVec) -> LinearState:
        weights = np.array(state.mean.T, order="C")
        clock = state.clock
        if self.batch_size == 1:
            self._learn_rows(weights, X, targets, order)
            clock += len(order)
        else:
            for rows, block in blocks(X, order, self.batch_size, len(weights)):
                visits = stream(state.seed, "order", 1, clock).permutation(len(rows))
                self._learn_block(weights, block, targets[rows], visits)
                clock += 1
        return replace(state, mean=weights.T, n_rows=state.n_rows + len(order), clock=clock)

    def _learn_rows(self, weights: Mat, X: Table, targets: Mat, order: IntVec) -> None:
        shared, side = (targets, weights, order), self.one_sided
        if isinstance(X, np.ndarray):
            learn_dense(X, *shared, self.variance, self.width, self.box, self.ridge, side)
        else:
            table = (X.data, X.indices, X.indptr, X.shape[1])
            learn_sparse(*table, *shared, self.variance, self.width, self.box, self.ridge, side)

    def _learn_block(self, weights: Mat, block: Block, targets: Mat, visits: IntVec) -> None:
        goals = np.ascontiguousarray(targets.T)
        lower, upper = (np.where(side, self.box, 0.0) for side in (goals < 0, goals > 0))
        if not self.one_sided:
            lower = upper = np.where(np.isnan(goals), 0.0, self.box)
        scores = np.ascontiguousarray(np.asarray(block.x @ weights[block.columns]).T)
        rest = goals - scores
        loss = np.sign(goals) * rest if self.one_sided else np.abs(rest) - self.width
        coefficients = np.zeros_like(goals)
        ascend(
            self.variance * block.gram,
            scores,
            coefficients,
            goals,
            -lower,
            upper,
            self.width,
            self.ridge,
            visits,
            self.tol * np.fmax(loss, 0.0).max(axis=1, initial=0.0),
            self.max_rounds,
        )
        if coefficients.any():
            weights[block.columns] += self.variance * np.asarray(block.x.T @ coefficients.T)


@dataclass(frozen=True, slots=True)
class GibbsLearner:
    """Conditions a Gaussian over the weights on the augmented loss of each batch.

    Attributes
    ----------
    one_sided : bool
        Whether scores beyond their target are as good as those at it: classes, not numbers.
    margin, c, variance : float
        Margin or half-width of the tube, weight of the loss, prior variance of each weight.
    diagonal : bool
        Whether weights are independent, which is all that many features allow.
    sampled : bool
        Whether augmentation variables are drawn; otherwise their means are iterated.
    batch_size, max_rounds, tol
        Rows that are learned together, rounds over them, and when to stop, in standard
        deviations that the score of a row has before the batch.
    """

    one_sided: bool
    margin: float
    c: float
    variance: float
    diagonal: bool = False
    sampled: bool = False
    batch_size: int = 1
    max_rounds: int = 50
    tol: float = 1e-3

    def start(self, n_tasks: int, n_weights: int, seed: int) -> LinearState:
        precision = np.full((n_tasks, n_weights), 1.0 / self.variance)
        mean = np.zeros((n_tasks, n_weights))
        belief: Belief = DiagonalBelief(precision)
        if not self.diagonal:
            unit = np.broadcast_to(np.eye(n_weights), (n_tasks, n_weights, n_weights))
            belief = FullBelief(unit / self.variance, np.zeros_like(mean), unit * self.variance)
        return LinearState(settled(mean), belief, 0, 0, seed)

    def learn(self, state: LinearState, X: Table, targets: Mat, order: IntVec) -> LinearState:
        n_tasks, n_weights = state.mean.shape
        mean, clock = np.array(state.mean, order="C"), state.clock
        if state.belief is None:
            raise TypeError("the state belongs to an AveragingLearner")
        parts = tuple(part.copy() for part in state.belief.parts)
        pieces = blocks(X, order, self.batch_size, n_weights, every_column=not self.diagonal)
        for rows, block in pieces:
            goals = np.ascontiguousarray(targets[rows].T)
            noise = self._noise(state.seed, clock, goals.shape)
            clock += 1
            group = max(1, _WORK_ENTRIES // (len(rows) * max(len(rows), block.x.shape[1])))
            for q in range(0, n_tasks, group):
                tasks = slice(q, q + group)
                some = tuple(part[tasks] for part in parts)
                drawn = None if noise is None else noise[..., tasks, :]
                if self.diagonal:
                    self._absorb_diagonal(block, goals[tasks], drawn, mean[tasks], *some)
                else:
                    refresh = clock % _REFRESH == 0
                    self._absorb(block.x, goals[tasks], drawn, refresh, mean[tasks], *some)
        learned = DiagonalBelief(*parts) if self.diagonal else FullBelief(*parts)
        n_rows = state.n_rows + len(order)
        return LinearState(settled(mean), learned, n_rows, clock, state.seed)

    def _absorb(
        self,
        x: Mat,
        goals: Mat,
        noise: Cube | None,
        refresh: bool,
        mean: Mat,
        precision: Cube,
        shift: Mat,
        covariance: Cube,
    ) -> None:
        """One batch for some tasks of full covariance; the last four are changed."""
        few = len(x) < x.shape[1]
        spread = x @ covariance
        prior_scores = mean @ x.T
        own = (spread * x).sum(axis=2)
        gram = spread @ x.T if few else np.empty((len(mean), 0, 0))

        def condition(tasks: IntVec, weight: Mat, pull: Mat) -> tuple[Mat, Mat]:
            if few:
                return conditioned(gram[tasks], prior_scores[tasks], weight, pull)
            center, cov = moments(
                precision[tasks] + (x.T * weight[:, None, :]) @ x, shift[tasks] + pull @ x
            )
            return center @ x.T, ((x @ cov) * x).sum(axis=2)

        weight, pull, scores = self._settle(condition, prior_scores, own, goals, noise)
        precision += (x.T * weight[:, None, :]) @ x
        shift += pull @ x
        if few and not refresh:
            mean += ((pull - weight * scores)[:, None, :] @ spread)[:, 0]
            factor, _ = whitened(gram, weight)
            lost = np.linalg.solve(factor, np.sqrt(weight)[..., None] * spread)
            covariance -= lost.transpose(0, 2, 1) @ lost
        else:
            mean[:], covariance[:] = moments(precision, shift)

    def _absorb_diagonal(
        self, block: Block, goals: Mat, noise: Cube | None, mean: Mat, precision: Mat
    ) -> None:
        """One batch for some tasks of independent weights; the last two are changed."""
        x, columns = block
        spread = 1.0 / precision[:, columns]
        squares = x * x if isinstance(x, np.ndarray) else x.power(2)
        prior_scores = np.asarray(x @ mean[:, columns].T).T
        own = np.asarray(squares @ spread.T).T
        if x.shape[0] == 1:
            gram = own[:, :, None]
        else:
            gram = np.stack([as_dense((x * v) @ x.T) for v in spread])

        def condition(tasks: IntVec, weight: Mat, pull: Mat) -> tuple[Mat, Mat]:
            return conditioned(gram[tasks], prior_scores[tasks], weight, pull)

        weight, pull, scores = self._settle(condition, prior_scores, own, goals, noise)
        mean[:, columns] += spread * np.asarray(x.T @ (pull - weight * scores).T).T
        precision[:, columns] += np.asarray(squares.T @ weight.T).T

    def _settle(
        self, condition: Condition, scores: Mat, own: Mat, goals: Mat, noise: Cube | None
    ) -> tuple[Mat, Mat, Mat]:
        """Weight and pull of each row, and the scores that follow from them, all (Q, B).

        Each round conditions the state before the batch, never the one of the round before.
        """
        scores, variances = scores.copy(), own.copy()
        weight, pull = np.zeros_like(scores), np.zeros_like(scores)
        tasks = np.arange(len(scores))
        if noise is not None:
            for drawn in noise:
                found = self._augment(scores, variances, goals, drawn)
                scores, variances = condition(tasks, *found)
                weight, pull = weight + found[0] / len(noise), pull + found[1] / len(noise)
            return weight, pull, condition(tasks, weight, pull)[0]
        close = self.tol * np.sqrt(own)
        for _ in range(self.max_rounds):
            found = self._augment(scores[tasks], variances[tasks], goals[tasks], None)
            weight[tasks], pull[tasks] = found
            now, variances[tasks] = condition(tasks, *found)
            moved = np.abs(now - scores[tasks]) > close[tasks] + _ROUNDING * np.abs(now)
            scores[tasks] = now
            tasks = tasks[moved.any(axis=1)]
            if not len(tasks):
                break
        return weight, pull, scores

    def _augment(
        self, scores: Mat, variances: Mat, goals: Mat, noise: Cube | None
    ) -> tuple[Mat, Mat]:
        """The Gaussian factor exp(pull f - weight f^2 / 2) that stands for the loss of each pair.

        (28) for classes; for numbers the same with an augmentation variable for each side.
        """
        c, known = self.c, ~np.isnan(goals)
        goals = np.where(known, goals, 0.0)
        if self.one_sided:
            inverse = self._inverse(goals - scores, variances, noise, 0)
            pull = c * np.sign(goals) + c**2 * inverse * goals
            return np.where(known, c**2 * inverse, 0.0), np.where(known, pull, 0.0)
        low, high = goals - self.margin, goals + self.margin
        above = self._inverse(low - scores, variances, noise, 0)
        below = self._inverse(scores - high, variances, noise, 1)
        pull = c**2 * (low * above + high * below)
        return np.where(known, c**2 * (above + below), 0.0), np.where(known, pull, 0.0)

    def _inverse(self, slack: Mat, variances: Mat, noise: Cube | None, side: int) -> Mat:
        """1 / lambda of (30): its mean, or a draw."""
        mean = inverse_mean(slack, variances, self.c)
        if noise is None:
            return mean
        normals, uniforms = (noise[2 * side + j].ravel() for j in (0, 1))
        return inverse_gaussians(mean.ravel(), normals, uniforms).reshape(mean.shape)

    def _noise(self, seed: int, clock: int, shape: tuple[int, int]) -> Cube | None:
        """Normal and uniform draws for each round and each side, (rounds, 4, Q, B)."""
        if not self.sampled:
            return None
        rng = stream(seed, "sample", clock)
        noise = np.empty((_DRAWS, 4, *shape))
        for i in range(0, 4, 2):
            noise[:, i] = rng.normal(size=(_DRAWS, *shape))
            noise[:, i + 1] = rng.random((_DRAWS, *shape))
        return noise
