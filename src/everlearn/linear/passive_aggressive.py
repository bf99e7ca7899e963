"""Online Bayesian passive-aggressive learning of linear scores (Shi and Zhu, section 3).

The averaging learner keeps the covariance of the weights and moves their mean as little as the
margins ask for; the Gibbs learner conditions a Gaussian on pseudo-observations. A squared loss and
hard margins are not in the paper: they are PA-II and PA of Crammer et al. The expected squared loss
of a Gaussian has a closed form, which needs no augmentation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Mat, Table, Vec
from everlearn.core.random import stream
from everlearn.kernels.dual import ascend
from everlearn.linear.beliefs import (
    Belief,
    Block,
    DiagonalBelief,
    FullBelief,
    LinearState,
    Sites,
    as_dense,
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
"""Means and variances of the scores of some tasks, given the weight and the pull of each row."""
_REFRESH = 256
"""Batches after which covariances are computed anew from the precisions, which do not drift."""
_DRAWS = 5
"""Draws for each pair of a sampled batch; what they add to the belief is averaged."""
_SHARE, _LEAST_SHARE, _SLOWER = 0.7, 0.1, 0.7
"""Share of the way that a round of the squared loss goes, and how it shrinks after overshooting."""
_ROUNDING = 1e-12
"""A score that moves by less, as a share of itself, need not have moved."""
_LEAST_VARIANCE = 1e-200
"""A variance below this stands for a score that nothing can change."""
_SPREAD_ROUNDS, _SPREAD_ROWS = 3, 1024
"""Rounds, and rows at a time, in which variances of independent weights are found."""
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
            known = np.zeros(part.y.shape) if sites is None else sites.pull[part.rows]
            old = known.copy()
            if self.batch_size == 1:
                squares = self._learn_rows(weights, part.x, part.y, known)
                clock += len(part.rows)
            else:
                visits = stream(state.seed, "order", 1, clock).permutation(len(part.rows))
                block = block_of(part.x, len(weights))
                squares = self._learn_block(weights, block, part.y, known, visits)
                clock += 1
            if sites is not None:
                sites.pull[part.rows] = known
                moves = squares[:, None] * (known - old)
                sites.record(np.where(np.isnan(part.y), np.nan, moves))
        n_rows = state.n_rows + len(order)
        return replace(state, mean=weights.T, units=units, n_rows=n_rows, clock=clock)

    def _learn_rows(self, weights: Mat, x: Table, y: Mat, known: Mat) -> Vec:
        shared = (y, known, weights, self.variance, self.width, self.box, self.ridge)
        if isinstance(x, np.ndarray):
            learn_dense(x, *shared, self.one_sided)
            squares = np.square(x).sum(axis=1)
        else:
            learn_sparse(x.data, x.indices, x.indptr, x.shape[1], *shared, self.one_sided)
            squares = np.asarray(x.power(2).sum(axis=1)).ravel()
        return np.asarray(self.variance * (squares + (len(weights) - x.shape[1])))

    def _learn_block(
        self, weights: Mat, block: Block, targets: Mat, known: Mat, visits: IntVec
    ) -> Vec:
        y = np.ascontiguousarray(targets.T)
        lower, upper = (np.where(side, self.box, 0.0) for side in (y < 0, y > 0))
        if not self.one_sided:
            lower = upper = np.where(np.isnan(y), 0.0, self.box)
        scores = np.ascontiguousarray(np.asarray(block.x @ weights[block.columns]).T)
        rest = y - scores
        loss = np.sign(y) * rest if self.one_sided else np.abs(rest) - self.width
        coefficients = np.array(known.T, order="C")  # a copy, also of a single task
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
        change = coefficients - known.T
        if change.any():
            weights[block.columns] += self.variance * np.asarray(block.x.T @ change.T)
        known[:] = coefficients.T
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
        Whether weights are independent, which is all that many features allow.
    squared : bool
        Whether the loss is squared. Otherwise it is augmented.
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
            known = np.zeros((2, *y.shape))
            if sites is not None:
                known[0], known[1] = sites.weight[part.rows].T, sites.pull[part.rows].T
            moves = np.empty_like(y)
            group = max(1, _WORK_ENTRIES // (y.shape[1] * max(y.shape[1], block.x.shape[1])))
            for q in range(0, len(y), group):
                tasks = slice(q, q + group)
                some = tuple(array[tasks] for array in (mean, *parts))
                drawn = None if noise is None else noise[..., tasks, :]
                given = (y[tasks], drawn, known[:, tasks])
                if self.diagonal:
                    moves[tasks] = self._absorb_diagonal(block, *given, *some)
                else:
                    refresh = clock % _REFRESH == 0
                    moves[tasks] = self._absorb(block.x, *given, refresh, *some)
            if sites is not None:
                sites.weight[part.rows], sites.pull[part.rows] = known[0].T, known[1].T
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
        known: Cube,
        refresh: bool,
        mean: Mat,
        precision: Cube,
        shift: Mat,
        covariance: Cube,
    ) -> Mat:
        """One batch for some tasks of full covariance; `known` and the last four are changed."""
        few = len(x) < x.shape[1]
        again = bool(known.any())
        spread = x @ covariance
        prior_scores = mean @ x.T
        own = (spread * x).sum(axis=2)
        gram = spread @ x.T if few else np.empty((len(mean), 0, 0))

        def condition(tasks: IntVec, weight: Mat, pull: Mat) -> tuple[Mat, Mat]:
            more, pulled = weight - known[0, tasks], pull - known[1, tasks]
            if few:
                how = reconditioned if again else conditioned
                return how(gram[tasks], prior_scores[tasks], more, pulled)
            center, cov = moments(
                precision[tasks] + (x.T * more[:, None, :]) @ x, shift[tasks] + pulled @ x
            )
            return center @ x.T, ((x @ cov) * x).sum(axis=2)

        weight, pull, scores = self._settle(condition, prior_scores, own, y, noise, known)
        more, pulled = weight - known[0], pull - known[1]
        precision += (x.T * more[:, None, :]) @ x
        shift += pulled @ x
        if few and not refresh:
            mean += ((pulled - more * scores)[:, None, :] @ spread)[:, 0]
            if again:
                inner = np.eye(len(x)) + more[..., None] * gram
                lost = np.linalg.solve(inner, more[..., None] * spread)
                covariance -= spread.transpose(0, 2, 1) @ lost
            else:
                factor, _ = whitened(gram, more)
                lost = np.linalg.solve(factor, np.sqrt(more)[..., None] * spread)
                covariance -= lost.transpose(0, 2, 1) @ lost
        else:
            mean[:], covariance[:] = moments(precision, shift)
        known[0], known[1] = weight, pull
        return _relative(scores - prior_scores, own)

    def _absorb_diagonal(
        self,
        block: Block,
        y: Mat,
        noise: Cube | None,
        known: Cube,
        mean: Mat,
        precision: Mat,
    ) -> Mat:
        """One batch for some tasks of independent weights; the last three are changed."""
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

        weight, pull, scores = self._settle(condition, prior_scores, own, y, noise, known)
        mean[:, columns] += spread * np.asarray(x.T @ (pull - weight * scores).T).T
        precision[:, columns] += np.asarray(squares.T @ weight.T).T
        return _relative(scores - prior_scores, own)

    def spread_of(
        self, state: LinearState, X: Table, targets: Mat, order: IntVec
    ) -> DiagonalBelief:
        """Precisions of independent weights whose mean is known, from all rows together."""
        precision: Mat = np.full(state.mean.shape, state.prior)
        for _ in range(_SPREAD_ROUNDS):
            found = np.full_like(precision, state.prior)
            for part in segments(
                state.units,
                X,
                targets,
                order,
                _SPREAD_ROWS,
                state.n_rows,
                scaled_targets=not self.one_sided,
                joined=False,
                fixed=True,
            ):
                block = block_of(part.x, precision.shape[1])
                x, columns = block.x, block.columns
                squares = x * x if isinstance(x, np.ndarray) else x.power(2)
                scores = np.asarray(x @ state.mean[:, columns].T).T
                own = np.asarray(squares @ (1.0 / precision[:, columns]).T).T
                weight, _ = self._augment(scores, own, part.y.T, None)
                found[:, columns] += np.asarray(squares.T @ weight.T).T
            precision = found
        return DiagonalBelief(precision)

    def _settle(
        self,
        condition: Condition,
        scores: Mat,
        own: Mat,
        y: Mat,
        noise: Cube | None,
        known: Cube,
    ) -> tuple[Mat, Mat, Mat]:
        """Weight and pull of each row, and the scores that follow from them, all (Q, B).

        Each round conditions the state before the batch, never the one of the round before. The
        squared loss is not bounded by its pseudo-observations as the augmented one is, so that a
        round may overshoot: it goes a share of the way.
        """
        scores, variances = scores.copy(), own.copy()
        weight, pull = np.zeros_like(scores), np.zeros_like(scores)
        tasks = np.arange(len(scores))
        if noise is not None:
            for drawn in noise:
                found = self._augment(scores, variances, y, drawn)
                scores, variances = condition(tasks, *found)
                weight, pull = weight + found[0] / len(noise), pull + found[1] / len(noise)
            return weight, pull, condition(tasks, weight, pull)[0]
        close = self.tol * np.sqrt(own)
        share = np.ones((len(scores), 1))
        last = np.full(len(scores), np.inf)
        weight[:], pull[:] = known
        begun = bool(known.any())
        for i in range(self.max_rounds):
            found = self._augment(scores[tasks], variances[tasks], y[tasks], None)
            if self.squared and (i or begun):
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
        """The Gaussian factor exp(pull f - weight f^2 / 2) that stands for the loss of each pair.

        (28) for classes; for numbers the same with an augmentation variable for each side. For
        the squared loss, its weight and slope are the curvature and slope of the expected loss.
        """
        c, known = self.c, ~np.isnan(y)
        y = np.where(known, y, 0.0)
        if self.squared:
            weight, slope = self._curved(scores, variances, y)
            return np.where(known, weight, 0.0), np.where(known, slope + weight * scores, 0.0)
        if self.one_sided:
            inverse = self._inverse(y - scores, variances, noise, 0)
            pull = c * np.sign(y) + c**2 * inverse * y
            return np.where(known, c**2 * inverse, 0.0), np.where(known, pull, 0.0)
        low, high = y - self.margin, y + self.margin
        above = self._inverse(low - scores, variances, noise, 0)
        below = self._inverse(scores - high, variances, noise, 1)
        pull = c**2 * (low * above + high * below)
        return np.where(known, c**2 * (above + below), 0.0), np.where(known, pull, 0.0)

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
    """Moves of scores in their standard deviations before."""
    return np.asarray(moves / np.sqrt(np.maximum(variances, _LEAST_VARIANCE)))
