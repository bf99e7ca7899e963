"""Batch EM for PPCA and mixtures of it, which visits all rows in every iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.random import stream
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.ppca.local import LocalRequest, sum_over_rows
from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments
from everlearn.ppca.state import PPCAState
from everlearn.ppca.stats import m_steps

_SEED_ROWS = 20_000
"""Rows among which centres are chosen at first."""


@dataclass(frozen=True, slots=True)
class BatchEM:
    """Iterations until the mean log-likelihood rises by less than `tol`, at most `max_iter`."""

    rank: int
    n_components: int
    max_iter: int
    tol: float

    def fit(
        self,
        rows: Rows | ChunkedRows,
        seed: int,
        engine: Engine,
        show: Callable[[float], None],
        start: PPCAState | None = None,
    ) -> tuple[PPCAState, list[float]]:
        """The components, the largest first, and the mean log-likelihood before each iteration."""
        state = self._start(rows, seed, engine) if start is None else start
        likelihoods: list[float] = []
        for _ in range(self.max_iter):
            request = LocalRequest(state.models, state.log_weights, state.origin, stats=True)
            local = sum_over_rows(request, rows, engine)
            likelihoods.append(float(local.likelihoods[1] / local.likelihoods[0]))
            show(likelihoods[-1])
            if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] < self.tol:
                break
            if local.stats is not None:
                n = local.stats.n
                models = m_steps(local.stats, state.models, state.origin)
                state = replace(state, models=models, weights=n / n.sum())
        order = np.argsort(-state.weights, kind="stable")
        models = tuple(state.models[k] for k in order)
        return replace(state, models=models, weights=state.weights[order]), likelihoods

    def _start(self, rows: Rows | ChunkedRows, seed: int, engine: Engine) -> PPCAState:
        """Random loadings around the mean. For a mixture, a PPCA around each of distant rows."""
        blank = PPCAState.blank(rows, self.rank, seed, engine)
        mean, variance = blank.models[0].mean, blank.models[0].noise
        rng = stream(seed, "start")
        if self.n_components == 1:
            loadings = rng.standard_normal((len(mean), self.rank)) * np.sqrt(variance / len(mean))
            return replace(blank, models=(PPCA(mean, loadings, variance),))
        picked = np.arange(len(rows))
        if len(rows) > _SEED_ROWS:
            picked = stream(seed, "subsample").choice(len(rows), _SEED_ROWS, replace=False)
        some = rows.take(np.sort(picked), engine)
        X = np.where(np.isnan(some.X), mean, some.X)
        nearest = _nearest(X, _distant_rows(X, some.weights, self.n_components, rng))
        whole = Moments.of_rows(X, some.weights)
        models, masses = [], []
        for k in range(self.n_components):
            mine = np.flatnonzero(nearest == k)
            few = whole.with_mass(self.rank + 1.0)
            if len(mine):
                weights = None if some.weights is None else some.weights[mine]
                # Some mass of all rows keeps a start of few rows from being too narrow.
                few = Moments.of_rows(X[mine], weights) + few
            models.append(few.ppca(self.rank))
            masses.append(few.mass)
        return replace(blank, models=tuple(models), weights=np.array(masses) / sum(masses))


def _distant_rows(X: Mat, weights: Vec | None, n: int, rng: np.random.Generator) -> Mat:
    """Rows drawn one after the other, in proportion to squared distance from those before.

    The order of the rows does not matter, and a row of weight 2 counts as two rows.
    """
    order = np.lexsort(X.T)
    X = X[order]
    weights = np.ones(len(X)) if weights is None else weights[order]
    shares, centres = weights, []
    apart = np.full(len(X), np.inf)
    for _ in range(n):
        upto = np.cumsum(shares)
        drawn = np.searchsorted(upto, rng.random() * upto[-1], side="right")
        centres.append(X[min(int(drawn), len(X) - 1)])
        apart = np.minimum(apart, _squares(X, centres[-1]))
        shares = weights * apart if apart.any() else weights
    return np.array(centres)


def _nearest(X: Mat, centres: Mat) -> IntVec:
    """Position of the nearest centre, the first one if several are equally near."""
    return np.asarray(np.stack([_squares(X, centre) for centre in centres]).argmin(axis=0))


def _squares(X: Mat, centre: Vec) -> Vec:
    return np.asarray(((X - centre) ** 2).sum(axis=1))
