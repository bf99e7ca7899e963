"""Online EM for PPCA with the formulas that the slides of the paper print.

`OnlinePPCA` departs from the slides in two places, where the printed formulas miss their goal. This
module has the printed forms, for the tables of docs/papers/natural_online_em.md (derivation:
docs/math/ppca.md, sections 2 and 4):

- the statistics are centred with the current mean, and are wrong once the mean has moved;
- the constraint multiplies by the inverse of the Fisher information, where its maximiser multiplies
  by the information itself.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from benchmarks.reference.constraint import aligned
from benchmarks.reference.fisher import Fisher
from everlearn.engine.local import one_blas_thread
from everlearn.ppca.model import PPCA, noise_floor
from everlearn.ppca.moments import Moments
from everlearn.ppca.stats import LatentStats, expected_stats, m_step, row_stats

_WARM_UP_ROWS = 20  # as many as `OnlinePPCA` learns exactly before online EM begins


@dataclass(frozen=True)
class PrintedStep:
    """The constraint as printed: theta - weight F^-1 (theta - reference).

    Attributes
    ----------
    weight : beta
    complete : whether F is the information of rows with their latents, which is isotropic, or that
        of rows alone, with a pseudo-inverse for the loadings
    clip : whether steps end at the reference; otherwise they diverge if the weight is large
    """

    weight: float
    complete: bool = True
    clip: bool = True

    def __call__(self, fresh: PPCA, reference: PPCA) -> PPCA:
        reference = aligned(reference, fresh)
        d = len(fresh.mean)
        to_mean, to_loadings = fresh.mean - reference.mean, fresh.loadings - reference.loadings
        if self.complete:
            largest = (reference.noise, reference.noise, 2.0 * reference.noise**2 / d)
            moves = (reference.noise * to_mean, reference.noise * to_loadings)
        else:
            fisher = Fisher.of(reference)
            largest = fisher.largest_inverses
            moves = (fisher.mean_inverse(to_mean), fisher.loadings_pinv(to_loadings))
        steps = [
            min(self.weight, 1.0 / top) if self.clip and top > 0.0 else self.weight
            for top in largest
        ]
        noise = fresh.noise - steps[2] * largest[2] * (fresh.noise - reference.noise)
        return PPCA(
            fresh.mean - steps[0] * moves[0],
            fresh.loadings - steps[1] * moves[1],
            max(noise, noise_floor(reference.noise)),
        )


def printed_m_step(stats: LatentStats, origin: NDArray[np.float64]) -> PPCA:
    """The M-step that takes second moments as if the mean had never moved."""
    n = stats.n[0]
    yz, zz, yy = stats.yz[0] / n, stats.zz[0] / n, float(stats.yy[0] / n)
    d, q = yz.shape
    zz = zz + (1e-10 * np.trace(zz) / q) * np.eye(q)
    loadings = cho_solve(cho_factor(zz), yz.T).T
    inner = float(np.vdot(zz @ loadings.T, loadings.T))
    noise = (yy - 2.0 * float(np.vdot(yz, loadings)) + inner) / d
    floor = noise_floor(max(yy, 0.0) / d)
    return PPCA(origin + stats.x[0] / n, np.ascontiguousarray(loadings), max(noise, floor))


class PrintedPPCA:
    """Online EM, with statistics or with a constraint as printed.

    Parameters
    ----------
    q : number of components
    batch_size : rows of a step
    step_size : weight of the newest batch in the statistics
    step : the constraint; None leaves M-steps alone
    constraint : "task" stays close to the model at the end of the last task, "previous" to the
        model before the step
    moving_centre : whether statistics are centred as printed
    """

    def __init__(
        self,
        q: int,
        batch_size: int,
        step_size: float,
        *,
        step: PrintedStep | None = None,
        constraint: str = "task",
        moving_centre: bool = False,
    ) -> None:
        self.q, self.batch_size, self.step_size = q, batch_size, step_size
        self.step, self.constraint, self.moving_centre = step, constraint, moving_centre
        self.model: PPCA | None = None
        self._reference: PPCA | None = None
        self._stats: LatentStats | None = None
        self._first: Moments | None = None
        self._task: object = None

    def partial_fit(self, X: NDArray[np.float64], task: object = None) -> Self:
        """Learn rows; the name of another task ends the task before."""
        with one_blas_thread():
            if self.model is None:
                self._origin = X[: self.batch_size].mean(axis=0)
            elif task is not None and task != self._task:
                self.consolidate()
            self._task = task
            for start in range(0, len(X), self.batch_size):
                self._learn(X[start : start + self.batch_size])
        return self

    def consolidate(self) -> Self:
        """End a task: the model as it is now is the reference."""
        if self.constraint == "task":
            self._reference = self.model
        return self

    def score(self, X: NDArray[np.float64]) -> float:
        """Mean log-likelihood of rows."""
        assert self.model is not None
        return float(self.model.log_likelihood(X).mean())

    def _learn(self, X: NDArray[np.float64]) -> None:
        if self._stats is None:
            self._warm_up(X)
        else:
            self._blend(X)
        assert self.model is not None
        if not np.isfinite([*self.model.mean, *self.model.loadings.flat, self.model.noise]).all():
            raise ValueError("parameters are not finite any more")
        if self.constraint == "previous" and self._stats is not None:
            self._reference = self.model

    def _warm_up(self, X: NDArray[np.float64]) -> None:
        """The first rows, of which the exact PPCA is known."""
        batch = Moments.of_rows(X)
        self._first = (batch if self._first is None else self._first + batch).compact()
        self.model = self._first.ppca(self.q)
        if self._first.mass >= max(2 * self.q, _WARM_UP_ROWS) and not self.model.is_flat:
            truth = self._first.truncated(2 * self.q)
            self._stats = self._centred(expected_stats(self.model, truth, self._origin))

    def _blend(self, X: NDArray[np.float64]) -> None:
        assert self.model is not None
        assert self._stats is not None
        batch = row_stats(self.model.posterior(X), np.ones(len(X)), self._origin)
        batch = self._centred(batch)
        self._stats = self._stats * (1.0 - self.step_size) + batch * (self.step_size / len(X))
        if self.moving_centre:
            self.model = printed_m_step(self._stats, self._origin)
        else:
            self.model = m_step(self._stats, 0, self._origin)
        if self.step is not None and self._reference is not None:
            self.model = self.step(self.model, self._reference)

    def _centred(self, stats: LatentStats) -> LatentStats:
        """Statistics around the origin, or with second moments around the current mean."""
        if not self.moving_centre:
            return stats
        assert self.model is not None
        shift = self.model.mean - self._origin
        yy = stats.yy - 2.0 * stats.x @ shift + stats.n * float(shift @ shift)
        return replace(stats, yy=yy, yz=stats.yz - shift[:, None] * stats.z[:, None, :])
