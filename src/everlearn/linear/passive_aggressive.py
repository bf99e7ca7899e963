"""Online Bayesian passive-aggressive learning of linear scores (Shi and Zhu, section 3).

The averaging learner keeps the covariance of the weights, and moves their mean no further than the
loss of the batch requires. The Gibbs learner conditions a Gaussian on pseudo-observations. A
squared loss and hard margins are not in the paper: they are PA-II and PA of Crammer et al. The
expected squared loss of a Gaussian has a closed form, which needs no augmentation.

Shapes: Q tasks, B rows of a batch, P weights of a task. The loss of a row and task with score f
enters as a Gaussian factor exp(pull f - weight f^2 / 2). `Sites` has the factors of all rows, so
that a later visit can replace them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Mat, Table, Vec, as_dense
from everlearn.core.random import stream
from everlearn.kernels.dual import ascend
from everlearn.linear.beliefs import (
    Belief,
    Block,
    DiagonalBelief,
    FullBelief,
    LinearState,
    Sites,
    block_of,
    feature_major,
)
from everlearn.linear.conversion import convert_data, convert_mean, convert_precision, with_prior
from everlearn.linear.gaussian import (
    conditioned,
    expected_excess,
    inverse_mean,
    moments,
    reconditioned,
    whitened,
)
from everlearn.linear.kernels import inverse_gaussians, learn_dense, learn_sparse
from everlearn.linear.units import Units, segments

Condition = Callable[[IntVec, Mat, Mat], tuple[Mat, Mat]]
"""Means and variances of the scores of some tasks, given the weight and pull of each factor."""
_REFRESH = 256
"""Batches after which covariances are recomputed from the precisions, without rounding errors."""
_DRAWS = 5
"""Draws of the augmentation variables of a batch. The factors that they give are averaged."""
_SHARE, _LEAST_SHARE, _SLOWER = 0.7, 0.1, 0.7
"""Damping of the squared loss: the step size of a round, the smallest, and how it shrinks after
overshooting."""
_ROUNDING = 1e-12
"""Relative change of a score that counts as rounding error."""
_LEAST_VARIANCE = 1e-200
"""Smaller variances of scores are raised to this one, to divide by them."""
_PRECISION_ROUNDS, _PRECISION_ROWS = 3, 1024
"""Iterations of `diagonal_belief`, and rows at a time."""
_WORK_ENTRIES = 1 << 22
"""Entries of the largest array. If tasks need more together, they are computed in groups."""


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
        Rows of a batch, most sweeps over it, and the change that ends them, as a share of the
        largest loss before the batch.
    """

    one_sided: bool
    width: float
    box: float
    ridge: float
    variance: float
    batch_size: int = 1
    max_rounds: int = 50
    tol: float = 1e-3

    def start(
        self, n_tasks: int, n_features: int, seed: int, *, intercept: bool = True
    ) -> LinearState:
        units = Units.blank(n_features, n_tasks, intercept=intercept)
        mean = feature_major(np.zeros((n_tasks, n_features + intercept)))
        return LinearState(mean, None, units, 1.0 / self.variance, 0, 0, seed)

    def learn(
        self,
        state: LinearState,
        X: Table,
        targets: Mat,
        order: IntVec,
        sites: Sites | None = None,
    ) -> LinearState:
        weights, units, clock = np.array(state.mean.T, order="C"), state.units, state.clock
        for part in segments(
            units,
            X,
            targets,
            order,
            self.batch_size,
            state.n_rows,
            scaled_targets=not self.one_sided,
            joined=self.batch_size == 1,
            fixed=sites is not None,
        ):
            if part.units.n_rows != units.n_rows:
                weights = np.array(convert_mean(weights.T, units, part.units).T, order="C")
            units = part.units
            multipliers = np.zeros(part.y.shape) if sites is None else sites.pull[part.rows]
            before = multipliers.copy()
            if self.batch_size == 1:
                squares = self._learn_rows(weights, part.x, part.y, multipliers)
                clock += len(part.rows)
            else:
                visits = stream(state.seed, "order", 1, clock).permutation(len(part.rows))
                block = block_of(part.x, len(weights))
                squares = self._learn_block(weights, block, part.y, multipliers, visits)
                clock += 1
            if sites is not None:
                sites.pull[part.rows] = multipliers
                moves = squares[:, None] * (multipliers - before)
                sites.record(np.where(np.isnan(part.y), np.nan, moves))
        n_rows = state.n_rows + len(order)
        return replace(state, mean=weights.T, units=units, n_rows=n_rows, clock=clock)

    def _learn_rows(self, weights: Mat, x: Table, y: Mat, multipliers: Mat) -> Vec:
        shared = (y, multipliers, weights, self.variance, self.width, self.box, self.ridge)
        if isinstance(x, np.ndarray):
            learn_dense(x, *shared, self.one_sided)
            squares = np.square(x).sum(axis=1)
        else:
            learn_sparse(x.data, x.indices, x.indptr, x.shape[1], *shared, self.one_sided)
            squares = np.asarray(x.power(2).sum(axis=1)).ravel()
        return np.asarray(self.variance * (squares + (len(weights) - x.shape[1])))

    def _learn_block(
        self, weights: Mat, block: Block, targets: Mat, multipliers: Mat, visits: IntVec
    ) -> Vec:
        y = np.ascontiguousarray(targets.T)
        lower, upper = (np.where(side, self.box, 0.0) for side in (y < 0, y > 0))
        if not self.one_sided:
            lower = upper = np.where(np.isnan(y), 0.0, self.box)
        scores = np.ascontiguousarray(np.asarray(block.x @ weights[block.columns]).T)
        errors = y - scores
        loss = np.sign(y) * errors if self.one_sided else np.abs(errors) - self.width
        coefficients = np.array(multipliers.T, order="C")  # a copy, also of a single task
        gram = self.variance * block.gram
        ascend(
            gram,
            scores,
            coefficients,
            y,
            -lower,
            upper,
            self.width,
            self.ridge,
            visits,
            self.tol * np.fmax(loss, 0.0).max(axis=1, initial=0.0),
            self.max_rounds,
        )
        change = coefficients - multipliers.T
        if change.any():
            weights[block.columns] += self.variance * np.asarray(block.x.T @ change.T)
        multipliers[:] = coefficients.T
        return np.diagonal(gram).copy()


@dataclass(frozen=True, slots=True)
class GibbsLearner:
    """Conditions a Gaussian over the weights on the expected loss of each batch.

    Attributes
    ----------
    one_sided : bool
        Whether scores beyond their target are as good as those at it: classes, not numbers.
    margin, c, variance : float
        Margin or half-width of the tube, half the weight of the loss, prior variance of each
        weight.
    diagonal : bool
        Whether weights are independent. A full covariance needs memory quadratic in the features.
    squared : bool
        Whether the loss is squared. Otherwise it is linear, with augmentation variables.
    sampled : bool
        Whether augmentation variables are drawn; otherwise their means are iterated.
    batch_size, max_rounds, tol
        Rows of a batch, most rounds over it, and the change of scores that ends them, in their
        standard deviations before the batch.
    """

    one_sided: bool
    margin: float
    c: float
    variance: float
    diagonal: bool = False
    squared: bool = False
    sampled: bool = False
    batch_size: int = 1
    max_rounds: int = 50
    tol: float = 1e-3

    def start(
        self, n_tasks: int, n_features: int, seed: int, *, intercept: bool = True
    ) -> LinearState:
        n_weights = n_features + intercept
        precision = np.full((n_tasks, n_weights), 1.0 / self.variance)
        mean = np.zeros((n_tasks, n_weights))
        belief: Belief = DiagonalBelief(precision)
        if not self.diagonal:
            unit = np.broadcast_to(np.eye(n_weights), (n_tasks, n_weights, n_weights))
            belief = FullBelief(unit / self.variance, np.zeros_like(mean), unit * self.variance)
        units = Units.blank(n_features, n_tasks, intercept=intercept)
        return LinearState(feature_major(mean), belief, units, 1.0 / self.variance, 0, 0, seed)

    def learn(
        self,
        state: LinearState,
        X: Table,
        targets: Mat,
        order: IntVec,
        sites: Sites | None = None,
    ) -> LinearState:
        if state.belief is None:
            raise TypeError("the state belongs to an AveragingLearner")
        mean, units, clock = np.array(state.mean, order="C"), state.units, state.clock
        parts = tuple(part.copy() for part in state.belief.parts)
        for part in segments(
            units,
            X,
            targets,
            order,
            self.batch_size,
            state.n_rows,
            scaled_targets=not self.one_sided,
            joined=False,
            fixed=sites is not None,
        ):
            if part.units.n_rows != units.n_rows:
                mean, parts = self._converted(mean, parts, units, part.units, state.prior)
            units = part.units
            clock += 1
            block = block_of(part.x, mean.shape[1], every_column=not self.diagonal)
            y = np.ascontiguousarray(part.y.T)
            noise = self._noise(state.seed, clock - 1, y.shape)
            factors = np.zeros((2, *y.shape))
            if sites is not None:
                factors[0], factors[1] = sites.weight[part.rows].T, sites.pull[part.rows].T
            moves = np.empty_like(y)
            group = max(1, _WORK_ENTRIES // (y.shape[1] * max(y.shape[1], block.x.shape[1])))
            for q in range(0, len(y), group):
                tasks = slice(q, q + group)
                some = tuple(array[tasks] for array in (mean, *parts))
                drawn = None if noise is None else noise[..., tasks, :]
                given = (y[tasks], drawn, factors[:, tasks])
                if self.diagonal:
                    moves[tasks] = self._absorb_diagonal(block, *given, *some)
                else:
                    refresh = clock % _REFRESH == 0
                    moves[tasks] = self._absorb(block.x, *given, refresh, *some)
            if sites is not None:
                sites.weight[part.rows], sites.pull[part.rows] = factors[0].T, factors[1].T
                sites.record(np.where(np.isnan(y), np.nan, moves))
        learned = DiagonalBelief(*parts) if self.diagonal else FullBelief(*parts)
        n_rows = state.n_rows + len(order)
        return replace(
            state, mean=feature_major(mean), belief=learned, units=units, n_rows=n_rows, clock=clock
        )

    def _converted(
        self, mean: Mat, parts: tuple[Cube, ...], old: Units, new: Units, prior: float
    ) -> tuple[Mat, tuple[Cube, ...]]:
        """Mean and belief in new units."""
        if self.diagonal:
            return convert_mean(mean, old, new), (convert_precision(parts[0], old, new, prior),)
        data, shift = convert_data(parts[0], parts[1], old, new, prior)
        precision = with_prior(data, prior)
        mean, covariance = moments(precision, shift)
        return mean, (precision, shift, covariance)

    def _absorb(
        self,
        x: Mat,
        y: Mat,
        noise: Cube | None,
        factors: Cube,
        refresh: bool,
        mean: Mat,
        precision: Cube,
        shift: Mat,
        covariance: Cube,
    ) -> Mat:
        """Learn one batch for some tasks of full covariance. Returns what `_relative` does.

        Overwrites the arrays from `mean` on, and `factors`: weights and pulls, (2, Q, B).
        """
        by_rows = len(x) < x.shape[1]
        revisited = bool(factors.any())
        x_covariance = x @ covariance
        prior_scores = mean @ x.T
        prior_variances = (x_covariance * x).sum(axis=2)
        gram = x_covariance @ x.T if by_rows else np.empty((len(mean), 0, 0))

        def condition(tasks: IntVec, weight: Mat, pull: Mat) -> tuple[Mat, Mat]:
            weight_change, pull_change = weight - factors[0, tasks], pull - factors[1, tasks]
            if by_rows:
                how = reconditioned if revisited else conditioned
                return how(gram[tasks], prior_scores[tasks], weight_change, pull_change)
            center, cov = moments(
                precision[tasks] + (x.T * weight_change[:, None, :]) @ x,
                shift[tasks] + pull_change @ x,
            )
            return center @ x.T, ((x @ cov) * x).sum(axis=2)

        weight, pull, scores = self._settle(
            condition, prior_scores, prior_variances, y, noise, factors
        )
        weight_change, pull_change = weight - factors[0], pull - factors[1]
        precision += (x.T * weight_change[:, None, :]) @ x
        shift += pull_change @ x
        if by_rows and not refresh:
            mean += ((pull_change - weight_change * scores)[:, None, :] @ x_covariance)[:, 0]
            if revisited:
                inner = np.eye(len(x)) + weight_change[..., None] * gram
                lost = np.linalg.solve(inner, weight_change[..., None] * x_covariance)
                covariance -= x_covariance.transpose(0, 2, 1) @ lost
            else:
                factor, _ = whitened(gram, weight_change)
                lost = np.linalg.solve(factor, np.sqrt(weight_change)[..., None] * x_covariance)
                covariance -= lost.transpose(0, 2, 1) @ lost
        else:
            mean[:], covariance[:] = moments(precision, shift)
        factors[0], factors[1] = weight, pull
        return _relative(scores - prior_scores, prior_variances)

    def _absorb_diagonal(
        self,
        block: Block,
        y: Mat,
        noise: Cube | None,
        factors: Cube,
        mean: Mat,
        precision: Mat,
    ) -> Mat:
        """Learn one batch for some tasks of independent weights. Returns as `_absorb` does.

        Overwrites `mean` and `precision`. Rows must be new: `factors` is zero.
        """
        x, columns = block
        weight_variances = 1.0 / precision[:, columns]
        squares = x * x if isinstance(x, np.ndarray) else x.power(2)
        prior_scores = np.asarray(x @ mean[:, columns].T).T
        prior_variances = np.asarray(squares @ weight_variances.T).T
        if x.shape[0] == 1:
            gram = prior_variances[:, :, None]
        else:
            gram = np.stack([as_dense((x * v) @ x.T) for v in weight_variances])

        def condition(tasks: IntVec, weight: Mat, pull: Mat) -> tuple[Mat, Mat]:
            return conditioned(gram[tasks], prior_scores[tasks], weight, pull)

        weight, pull, scores = self._settle(
            condition, prior_scores, prior_variances, y, noise, factors
        )
        mean[:, columns] += weight_variances * np.asarray(x.T @ (pull - weight * scores).T).T
        precision[:, columns] += np.asarray(squares.T @ weight.T).T
        return _relative(scores - prior_scores, prior_variances)

    def diagonal_belief(
        self, state: LinearState, X: Table, targets: Mat, order: IntVec
    ) -> DiagonalBelief:
        """Precisions of independent weights from all rows together, at the mean of the state."""
        precision: Mat = np.full(state.mean.shape, state.prior)
        for _ in range(_PRECISION_ROUNDS):
            updated = np.full_like(precision, state.prior)
            for part in segments(
                state.units,
                X,
                targets,
                order,
                _PRECISION_ROWS,
                state.n_rows,
                scaled_targets=not self.one_sided,
                joined=False,
                fixed=True,
            ):
                block = block_of(part.x, precision.shape[1])
                x, columns = block.x, block.columns
                squares = x * x if isinstance(x, np.ndarray) else x.power(2)
                scores = np.asarray(x @ state.mean[:, columns].T).T
                score_variances = np.asarray(squares @ (1.0 / precision[:, columns]).T).T
                weight, _ = self._augment(scores, score_variances, part.y.T, None)
                updated[:, columns] += np.asarray(squares.T @ weight.T).T
            precision = updated
        return DiagonalBelief(precision)

    def _settle(
        self,
        condition: Condition,
        scores: Mat,
        prior_variances: Mat,
        y: Mat,
        noise: Cube | None,
        factors: Cube,
    ) -> tuple[Mat, Mat, Mat]:
        """Iterate to the factors of a batch. Returns their weights and pulls, and scores, (Q, B).

        Each round starts from the state before the batch, so that no row counts twice. For the
        squared loss a full step may overshoot, so steps are damped.
        """
        scores, variances = scores.copy(), prior_variances.copy()
        weight, pull = np.zeros_like(scores), np.zeros_like(scores)
        tasks = np.arange(len(scores))
        if noise is not None:
            for drawn in noise:
                found = self._augment(scores, variances, y, drawn)
                scores, variances = condition(tasks, *found)
                weight, pull = weight + found[0] / len(noise), pull + found[1] / len(noise)
            return weight, pull, condition(tasks, weight, pull)[0]
        close = self.tol * np.sqrt(prior_variances)
        share = np.ones((len(scores), 1))
        last = np.full(len(scores), np.inf)
        weight[:], pull[:] = factors
        revisited = bool(factors.any())
        for i in range(self.max_rounds):
            found = self._augment(scores[tasks], variances[tasks], y[tasks], None)
            if self.squared and (i or revisited):
                share[tasks] = np.minimum(share[tasks], _SHARE)
            weight[tasks] += share[tasks] * (found[0] - weight[tasks])
            pull[tasks] += share[tasks] * (found[1] - pull[tasks])
            now, variances[tasks] = condition(tasks, weight[tasks], pull[tasks])
            moves = np.abs(now - scores[tasks])
            moved = moves > share[tasks] * close[tasks] + _ROUNDING * np.abs(now)
            scores[tasks] = now
            if self.squared:
                largest = moves.max(axis=1)
                slower = np.maximum(_SLOWER * share[tasks, 0], _LEAST_SHARE)
                share[tasks, 0] = np.where(largest > last[tasks], slower, share[tasks, 0])
                last[tasks] = largest
            tasks = tasks[moved.any(axis=1)]
            if not len(tasks):
                break
        return weight, pull, scores

    def _augment(self, scores: Mat, variances: Mat, y: Mat, noise: Cube | None) -> tuple[Mat, Mat]:
        """Weight and pull of the Gaussian factor that stands for the loss of each row and task.

        (28) for classes; for numbers the same with an augmentation variable for each side. For
        the squared loss, its weight and slope are the curvature and slope of the expected loss.
        """
        c, has_target = self.c, ~np.isnan(y)
        y = np.where(has_target, y, 0.0)
        if self.squared:
            weight, slope = self._curved(scores, variances, y)
            return np.where(has_target, weight, 0.0), np.where(
                has_target, slope + weight * scores, 0.0
            )
        if self.one_sided:
            inverse = self._inverse(y - scores, variances, noise, 0)
            pull = c * np.sign(y) + c**2 * inverse * y
            return np.where(has_target, c**2 * inverse, 0.0), np.where(has_target, pull, 0.0)
        low, high = y - self.margin, y + self.margin
        above = self._inverse(low - scores, variances, noise, 0)
        below = self._inverse(scores - high, variances, noise, 1)
        pull = c**2 * (low * above + high * below)
        return np.where(has_target, c**2 * (above + below), 0.0), np.where(has_target, pull, 0.0)

    def _curved(self, scores: Mat, variances: Mat, y: Mat) -> tuple[Mat, Mat]:
        """Curvature and slope of minus the expected squared loss, of weight 2c, in the score."""
        deviations = np.sqrt(np.maximum(variances, _LEAST_VARIANCE))
        if self.one_sided:
            sign = np.sign(y)
            excess, chance = expected_excess(sign * (y - scores), deviations)
            return 4.0 * self.c * chance, 4.0 * self.c * sign * excess
        lack, chance = expected_excess(y - self.margin - scores, deviations)
        more, other = expected_excess(scores - y - self.margin, deviations)
        return 4.0 * self.c * (chance + other), 4.0 * self.c * (lack - more)

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


def _relative(moves: Mat, variances: Mat) -> Mat:
    """Changes of scores, divided by the standard deviations that they had before."""
    return np.asarray(moves / np.sqrt(np.maximum(variances, _LEAST_VARIANCE)))
