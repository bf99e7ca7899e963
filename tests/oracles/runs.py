"""Rows in groups for learners to find, and the few lines it takes to start learning them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp, xlogy

from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Permute, Stats
from everlearn.engine.local import SerialEngine
from everlearn.engine.rows import Rows
from everlearn.mixture.births import BirthSettings
from everlearn.mixture.learner import LearningTools, PriorCandidate, Schedule, Window
from everlearn.mixture.local import LocalRunner, MixtureStep
from everlearn.mixture.memoized import MoveSettings, open_batches
from everlearn.mixture.model import Mixture, by_mass
from everlearn.mixture.state import State
from oracles.cases import (
    Case,
    diagonal,
    diagonal_wishart,
    full,
    multinomial,
    responsibilities,
    with_gaps,
    zero_mean,
)
from oracles.families import DiagonalOracle

ALPHA = 0.8
STILL = MoveSettings(kinds=frozenset())
WINDOW = Window(rows=60, batch_rows=20)
SCHEDULE = Schedule(batch_rows=100, max_laps=60, tol=1e-6)
SMALL_BLOCKS = 1  # bytes: as few rows a block as the runner allows


def places(k, dim, apart, seed):
    return np.random.default_rng([seed, 7]).normal(0.0, apart, (k, dim))


def groups(n, dim=2, k=4, apart=4.0, seed=0):
    """Round groups of unequal size about random places, in random order."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    centres = places(k, dim, apart, seed)
    return centres[rng.choice(k, n, p=share)] + rng.normal(0.0, 0.6, (n, dim))


def streaks(n, dim=3, k=3, seed=0):
    """Groups about zero that differ in the direction they are long in."""
    rng = np.random.default_rng(seed)
    shapes = [0.3 * np.eye(dim) + 4.0 * np.outer(v, v) for v in np.eye(dim)[:k]]
    kinds = rng.integers(k, size=n)
    return np.stack([rng.standard_normal(dim) @ shapes[z] for z in kinds])


def documents(n, symbols=12, k=3, trials=25, seed=0):
    """Count vectors of a few kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.dirichlet(np.full(symbols, 0.3), k)
    return np.stack([rng.multinomial(trials, kinds[z]) for z in rng.integers(k, size=n)]) * 1.0


def diagonal_scaled(name, X):
    """The prior that takes its scale from the rows."""
    mean, rate = X.mean(axis=0), 5.0 * 0.05 * X.var(axis=0)
    prior = NormalGammaPrior(mean, 0.01, 5.0, rate)
    return Case(name, DiagGaussian(prior, mean), DiagonalOracle(mean, 0.01, 5.0, rate), X)


N = 240
COUNTS = documents(N)
RUNS = (
    diagonal("diagonal", groups(N, seed=1)),
    diagonal_wishart("diagonal_wishart", groups(N, dim=3, seed=2)),
    diagonal_scaled("diagonal_scaled", groups(N, dim=3, seed=3)),
    diagonal("diagonal_missing", with_gaps(groups(N, dim=4, seed=4), 5), missing=True),
    full("full", groups(N, seed=5)),
    zero_mean("zero_mean", streaks(N, seed=6)),
    multinomial("multinomial", COUNTS),
    multinomial("multinomial_csr", sparse.csr_array(COUNTS)),
)
PLAIN = RUNS[0]
SOME = (PLAIN, RUNS[3], RUNS[4], RUNS[7])  # one of each kind of statistics


def model_of(case):
    return Mixture(case.family, DPPrior(ALPHA))


def candidates_of(case, learns=False):
    """The prior of the case as the only one to try."""
    return (PriorCandidate("given", model_of(case), learns),)


def rows_of(case, weighted=False, seed=11):
    if not weighted:
        return Rows(case.X)
    return Rows(case.X, np.random.default_rng(seed).uniform(0.2, 2.0, len(case)))


def runner_of(case, engine=None, dtype=np.float64, block_bytes=8_000_000):
    step = MixtureStep(case.family, dtype)
    return LocalRunner(step, engine or SerialEngine(), block_bytes)


def ignore(info):
    """A callback that does nothing."""


def tools_of(runner, moves, window=WINDOW, schedule=SCHEDULE, on_lap=ignore):
    """What a learner gets from a call."""
    return LearningTools(runner, moves, schedule, window, on_lap)


def lively(max_components=30, **changes):
    """All moves, on few rows."""
    return replace(MoveSettings(births=BirthSettings(max_components=max_components)), **changes)


def statistics(family, rows, R, ids=None):
    """Statistics of weighted rows under unweighted responsibilities, in one piece."""
    w = np.ones(len(rows)) if rows.weights is None else rows.weights
    ids = np.arange(R.shape[1]) if ids is None else np.asarray(ids)
    t = np.asarray((w[:, None] * R).T @ family.features(rows.X))
    return Stats(ids, w @ R, t, -(w @ xlogy(R, R)), float(w @ family.log_base(rows.X)))


def scores(family, posterior, rows):
    """Score of each row under each component."""
    return np.asarray(family.features(rows.X) @ posterior.eta.T) + posterior.bias


def softmax(W):
    """Responsibilities."""
    return np.exp(W - logsumexp(W, axis=1, keepdims=True))


def random_posterior(model, rows, k, seed=0, ids=None):
    """Globals of random soft responsibilities."""
    R = responsibilities(len(rows), k, seed)
    return model.posterior(statistics(model.family, rows, R, ids))


def started(case, n_batches=1, k=5, seed=0, weighted=False, runner=None):
    """A state whose rows were all assigned once, at random globals."""
    model, rows = model_of(case), rows_of(case, weighted)
    empty = State.empty(model, seed, k)
    pieces = rows.blocks(-(-len(rows) // n_batches))
    posterior = random_posterior(model, rows, k, seed)
    return open_batches(empty, posterior, pieces, runner or runner_of(case))


def assert_stats(a, b, rtol=1e-11, atol=1e-9):
    """The same components with the same sums."""
    assert_array_equal(a.ids, b.ids)
    for name in ("n", "t", "h", "base"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol, atol, err_msg=name)


def by_mass_bound(model, stats):
    """The bound with the components in their best order."""
    return model.bound(Permute(by_mass(stats)).on(stats))


def never_falls(bounds, tolerance=1e-9):
    """Whether a sequence of bounds rises, to a share of their size."""
    bounds = np.asarray(bounds)
    return bool((np.diff(bounds) >= -tolerance * np.abs(bounds[:-1])).all())
