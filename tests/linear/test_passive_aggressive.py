"""Learning steps against plain references, and the laws they keep."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.linear import passive_aggressive as module
from everlearn.linear.beliefs import DiagonalBelief, FullBelief, LinearLearner, LinearState, Sites
from everlearn.linear.passive_aggressive import AveragingLearner, GibbsLearner
from oracles.passive_aggressive import (
    best_tau,
    expected_loss,
    gibbs_batch,
    gibbs_batch_regression,
    hinge,
)

GIBBS = GibbsLearner(one_sided=True, margin=1.0, c=0.8, variance=2.0, max_rounds=7, tol=0.0)
AVERAGING = AveragingLearner(one_sided=True, width=0.0, box=0.6, ridge=0.0, variance=2.0)
LEARNERS: dict[str, Any] = {
    "averaging": AVERAGING,
    "averaging batch": replace(AVERAGING, batch_size=8),
    "squared batch": replace(AVERAGING, box=np.inf, ridge=0.7, batch_size=8),
    "numbers": replace(AVERAGING, one_sided=False, width=0.2, batch_size=8),
    "full": replace(GIBBS, batch_size=4),
    "curved": replace(GIBBS, squared=True, batch_size=4),
    "curved diag": replace(GIBBS, squared=True, diagonal=True, batch_size=4),
    "curved numbers": replace(GIBBS, squared=True, one_sided=False, margin=0.2, batch_size=4),
    "full rows": GIBBS,
    "full features": replace(GIBBS, batch_size=16),
    "diag": replace(GIBBS, diagonal=True),
    "diag batch": replace(GIBBS, diagonal=True, batch_size=8),
    "sampled": replace(GIBBS, sampled=True, batch_size=4),
    "gibbs numbers": replace(GIBBS, one_sided=False, margin=0.2, batch_size=4),
}


def data(seed: int, n: int = 40, p: int = 6, q: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    return X, np.where(X @ rng.normal(size=(p, q)) + 0.5 * rng.normal(size=(n, q)) > 0, 1.0, -1.0)


def arrays(state: LinearState) -> list[np.ndarray]:
    return [state.mean, *(() if state.belief is None else state.belief.parts)]


def as_given(
    learner: LinearLearner, state: LinearState, X: Any, targets: np.ndarray, order: np.ndarray
) -> LinearState:
    """The state after rows that are learned in the units that they have."""
    return learner.learn(state, X, targets, order, Sites.blank(*targets.shape))


def assert_same(a: LinearState, b: LinearState) -> None:
    assert (a.n_rows, a.clock, a.seed) == (b.n_rows, b.clock, b.seed)
    for left, right in zip(arrays(a), arrays(b), strict=True):
        np.testing.assert_array_equal(left, right)


def full(state: LinearState) -> FullBelief:
    assert isinstance(state.belief, FullBelief)
    return state.belief


@pytest.mark.parametrize("n_rows", [1, 4, 30])
@pytest.mark.parametrize("one_sided", [True, False])
def test_full_covariance_is_the_textbook_update(n_rows: int, one_sided: bool) -> None:
    X, targets = data(0, n=n_rows)
    if not one_sided:
        targets = targets + np.random.default_rng(1).normal(size=targets.shape)
    learner = replace(GIBBS, one_sided=one_sided, batch_size=n_rows)
    state = as_given(
        learner, learner.start(3, 6, 0, intercept=False), X, targets, np.arange(n_rows)
    )
    reference = gibbs_batch if one_sided else gibbs_batch_regression
    for q in range(3):
        P, b = reference(X, targets[:, q], np.eye(6) / 2.0, np.zeros(6), 1.0, 0.8, 7)
        np.testing.assert_allclose(full(state).precision[q], P, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(full(state).shift[q], b, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(full(state).covariance[q], np.linalg.inv(P), atol=1e-9)
        np.testing.assert_allclose(state.mean[q], np.linalg.solve(P, b), atol=1e-9)


@pytest.mark.parametrize("n_rows", [1, 5])
def test_independent_weights_condition_on_the_whole_batch(n_rows: int) -> None:
    X, targets = data(2, n=30)
    learner = replace(GIBBS, diagonal=True, batch_size=5)
    prior = as_given(learner, learner.start(3, 6, 0, intercept=False), X, targets, np.arange(20))
    order = np.arange(20, 20 + n_rows)
    state = as_given(learner, prior, X, targets, order)
    assert isinstance(prior.belief, DiagonalBelief)
    assert isinstance(state.belief, DiagonalBelief)
    for q in range(3):
        before = np.diag(prior.belief.precision[q])
        P, b = gibbs_batch(X[order], targets[order, q], before, before @ prior.mean[q], 1.0, 0.8, 7)
        np.testing.assert_allclose(state.belief.precision[q], np.diag(P), rtol=1e-9)
        np.testing.assert_allclose(state.mean[q], np.linalg.solve(P, b), atol=1e-9)


def test_batches_of_margins_are_solved() -> None:
    X, targets = data(3)
    learner = replace(AVERAGING, batch_size=20, max_rounds=20_000, tol=1e-12)
    state = learner.start(3, 6, 0, intercept=False)
    for rows in (np.arange(20), np.arange(20, 40)):
        after = as_given(learner, state, X, targets, rows)
        for q in range(3):
            y, mu = targets[rows, q], state.mean[q]
            tau = best_tau(X[rows], y, mu, 1.0, 2.0, 0.6)
            np.testing.assert_allclose(after.mean[q], mu + 2.0 * (tau * y) @ X[rows], atol=1e-4)
        state = after


def with_and_without_a_long_row(learner: Any, known: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a batch, and those it gets beside a long row in a column of its own.

    `known` is the weight that this column has before.
    """
    X, targets = data(15)
    table = np.zeros((41, 7))
    table[:40, :6], table[40, 6] = X, 1e6
    targets = np.vstack([targets, np.ones((1, 3))])
    start = learner.start(3, 7, 0, intercept=False)
    mean = start.mean.copy()
    mean[:, 6] = known
    start = replace(start, mean=mean)
    without, beside = (as_given(learner, start, table, targets, np.arange(m)) for m in (40, 41))
    return without.mean[:, :6], beside.mean[:, :6]


def test_satisfied_rows_do_not_say_when_margins_are_solved() -> None:
    learner = replace(AVERAGING, batch_size=64, max_rounds=5000, tol=1e-6)
    without, beside = with_and_without_a_long_row(learner, known=1.0)
    np.testing.assert_allclose(beside, without, atol=1e-4)


@pytest.mark.parametrize("diagonal", [False, True])
def test_long_rows_do_not_say_when_short_ones_are_settled(diagonal: bool) -> None:
    learner = replace(GIBBS, batch_size=64, diagonal=diagonal, max_rounds=500, tol=1e-6)
    without, beside = with_and_without_a_long_row(learner, known=0.0)
    np.testing.assert_allclose(beside, without, atol=1e-4)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_step_leaves_its_input_alone_and_repeats_itself(name: str) -> None:
    learner: LinearLearner = LEARNERS[name]
    X, targets = data(4)
    state = learner.learn(learner.start(3, 6, 5), X, targets, np.arange(16))
    kept = [a.copy() for a in arrays(state)]
    first = learner.learn(state, X, targets, np.arange(16, 40))
    for before, now in zip(kept, arrays(state), strict=True):
        np.testing.assert_array_equal(before, now)
    assert_same(first, learner.learn(state, X, targets, np.arange(16, 40)))
    assert (first.mean != state.mean).any()


@pytest.mark.parametrize("name", LEARNERS)
def test_pieces_of_whole_batches_are_the_whole(name: str) -> None:
    learner: LinearLearner = LEARNERS[name]
    X, targets = data(5, n=48)
    whole = learner.learn(learner.start(3, 6, 5), X, targets, np.arange(48))
    state = learner.start(3, 6, 5)
    for start in (0, 16, 32):
        state = learner.learn(state, X, targets, np.arange(start, start + 16))
    assert_same(state, whole)


@pytest.mark.parametrize("begun", ["dense", "sparse"])
@pytest.mark.parametrize("name", LEARNERS)
def test_sparse_rows_are_dense_rows(begun: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner: LinearLearner = LEARNERS[name]
    X, targets = data(6)
    X[:, 2] = 0.0
    X[7] = 0.0
    first = sparse.csr_array(X) if begun == "sparse" else X
    start = learner.learn(learner.start(3, 6, 5), first, targets, np.arange(8))
    later = np.arange(8, 40)
    dense = learner.learn(start, X, targets, later)
    thin = learner.learn(start, sparse.csr_array(X), targets, later)
    monkeypatch.setattr("everlearn.linear.beliefs._DENSE_ENTRIES", 0)
    thinner = learner.learn(start, sparse.csr_array(X), targets, later)
    for a, b, c in zip(arrays(dense), arrays(thin), arrays(thinner), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(c, a, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LEARNERS)
def test_missing_targets_say_nothing(name: str) -> None:
    learner: LinearLearner = LEARNERS[name]
    X, targets = data(7)
    known = learner.learn(learner.start(3, 6, 5, intercept=False), X, targets, np.arange(40))
    targets[:, 1] = np.nan
    partly = learner.learn(learner.start(3, 6, 5, intercept=False), X, targets, np.arange(40))
    start = learner.start(3, 6, 5, intercept=False)
    for a, b, c in zip(arrays(known), arrays(partly), arrays(start), strict=True):
        np.testing.assert_allclose(b[[0, 2]], a[[0, 2]], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(b[1], c[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", [n for n in LEARNERS if "numbers" not in n])
def test_scale_of_scores_is_a_matter_of_taste(name: str) -> None:
    learner, a = LEARNERS[name], 8.0
    X, targets = data(8)
    if isinstance(learner, AveragingLearner):
        other: Any = replace(
            learner,
            box=learner.box / a,
            variance=a**2 * learner.variance,
            ridge=a**2 * learner.ridge,
        )
    else:
        other = replace(
            learner,
            margin=a * learner.margin,
            c=learner.c / (a**2 if learner.squared else a),
            variance=a**2 * learner.variance,
        )
    one = learner.learn(learner.start(3, 6, 5), X, targets, np.arange(40))
    two = other.learn(other.start(3, 6, 5), X, a * targets, np.arange(40))
    np.testing.assert_allclose(two.mean, a * one.mean, rtol=1e-9, atol=1e-12)


def test_fixed_augmentation_makes_chunks_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    X, targets = data(9)

    def fixed(self: Any, slack: np.ndarray, *_: Any) -> np.ndarray:
        return np.full_like(slack, 0.37)

    monkeypatch.setattr(GibbsLearner, "_inverse", fixed)
    states = []
    for size in (1, 3, 40):
        learner = replace(GIBBS, batch_size=size)
        states.append(as_given(learner, learner.start(3, 6, 0), X, targets, np.arange(40)))
    for other in states[1:]:
        for a, b in zip(arrays(states[0]), arrays(other), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("refresh", [7, 10**9])
def test_covariance_stays_the_inverse_of_a_growing_precision(
    refresh: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REFRESH", refresh)
    X, targets = data(10, n=600)
    learner = replace(GIBBS, c=5.0, variance=100.0)
    state = learner.start(3, 6, 0, intercept=False)
    for start in range(0, 600, 100):
        after = as_given(learner, state, X, targets, np.arange(start, start + 100))
        gain = full(after).precision - full(state).precision
        assert (np.linalg.eigvalsh(gain) >= -1e-9 * np.abs(gain).max()).all()
        state = after
    unit = full(state).precision @ full(state).covariance
    np.testing.assert_allclose(unit, np.broadcast_to(np.eye(6), unit.shape), atol=1e-8)
    solved = np.linalg.solve(full(state).precision, full(state).shift[..., None])[..., 0]
    np.testing.assert_allclose(state.mean, solved, rtol=1e-7)


def test_loss_of_a_drawn_classifier_is_not_below_that_of_the_mean() -> None:
    X, targets = data(11)
    learner = LEARNERS["full"]
    state = as_given(learner, learner.start(3, 6, 0), X, targets, np.arange(40))
    scores, variances = state.scores(X), state.variances(X)
    drawn = expected_loss(1.0 - targets * scores, variances)
    assert (drawn >= hinge(scores, targets, 1.0)).all()


def test_weights_without_variances_cannot_get_some_later() -> None:
    X, targets = data(12)
    with pytest.raises(TypeError, match="AveragingLearner"):
        GIBBS.learn(AVERAGING.start(3, 6, 0), X, targets, np.arange(3))


def test_tasks_that_must_take_turns_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X, targets = data(13)
    for name in ("full", "full features", "diag batch", "sampled"):
        learner = LEARNERS[name]
        together = learner.learn(learner.start(3, 6, 5), X, targets, np.arange(40))
        with monkeypatch.context() as patch:
            patch.setattr(module, "_WORK_ENTRIES", 1)
            alone = learner.learn(learner.start(3, 6, 5), X, targets, np.arange(40))
        for a, b in zip(arrays(together), arrays(alone), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-13)


def test_draws_depend_on_the_seed() -> None:
    X, targets = data(14)
    learner = LEARNERS["sampled"]
    one, two = (
        learner.learn(learner.start(3, 6, s, intercept=False), X, targets, np.arange(40))
        for s in (1, 2)
    )
    assert (one.mean != two.mean).all()
    assert ((one.scores(X) > 0) == (two.scores(X) > 0)).mean() > 0.9


# ------------------------------------------------------------------ the squared loss


NODES = np.polynomial.hermite_e.hermegauss(200)


def objective(
    mean: np.ndarray,
    covariance: np.ndarray,
    X: np.ndarray,
    targets: np.ndarray,
    learner: GibbsLearner,
) -> float:
    """KL divergence from the prior and the expected squared loss, by sampling scores evenly."""
    p = len(mean)
    gap = np.trace(covariance) / learner.variance + mean @ mean / learner.variance - p
    gap += p * np.log(learner.variance) - np.linalg.slogdet(covariance)[1]
    nodes, weights = NODES
    deviation = np.sqrt(((X @ covariance) * X).sum(axis=1))
    scores = (X @ mean)[:, None] + deviation[:, None] * nodes
    if learner.one_sided:
        short = np.maximum(learner.margin - targets[:, None] * scores, 0.0)
    else:
        short = np.maximum(np.abs(targets[:, None] - scores) - learner.margin, 0.0)
    expected = short**2 @ weights / weights.sum()
    return float(0.5 * gap + 2.0 * learner.c * expected.sum())


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("n_rows", [4, 30])
def test_squared_losses_are_as_small_as_a_gaussian_can_make_them(
    n_rows: int, one_sided: bool
) -> None:
    X, targets = data(16, n=n_rows)
    if not one_sided:
        targets = targets + np.random.default_rng(1).normal(size=targets.shape)
    learner = replace(
        GIBBS, squared=True, one_sided=one_sided, batch_size=n_rows, tol=1e-9, max_rounds=2000
    )
    start = learner.start(3, 6, 0, intercept=False)
    state = as_given(learner, start, X, targets, np.arange(n_rows))
    rng = np.random.default_rng(2)
    for q in range(3):
        mean, covariance = state.mean[q], full(state).covariance[q]
        best = objective(mean, covariance, X, targets[:, q], learner)
        for size in (1e-2, 0.1, 0.5):
            for _ in range(20):
                root = np.eye(6) + 0.3 * size * rng.normal(size=(6, 6))
                other = objective(
                    mean + size * rng.normal(size=6),
                    root @ covariance @ root.T,
                    X,
                    targets[:, q],
                    learner,
                )
                assert other >= best - 1e-5 * abs(best)


@pytest.mark.parametrize("name", ["curved", "full", "gibbs numbers", "curved numbers"])
def test_passes_over_small_batches_solve_all_rows_together(name: str) -> None:
    X, targets = data(17)
    learner = replace(LEARNERS[name], tol=1e-10, max_rounds=500)
    together = replace(learner, batch_size=40, max_rounds=5000)
    start = learner.start(3, 6, 0)
    want = as_given(together, start, X, targets, np.arange(40))
    sites, state = Sites.blank(*targets.shape), start
    moved, seed = np.inf, 0
    while moved > 1e-8 and seed < 150:
        order = np.random.default_rng(seed).permutation(40)
        state = learner.learn(state, X, targets, order, sites)
        moved, seed = sites.pop_mean_move(), seed + 1
    assert moved < 1e-6
    np.testing.assert_allclose(state.mean, want.mean, atol=1e-5)
    np.testing.assert_allclose(full(state).covariance, full(want).covariance, atol=1e-5)


# ------------------------------------------------------------------ units


@pytest.mark.parametrize("size", [1, 7, 40])
def test_a_stream_of_numbers_is_ridge_regression_in_its_last_units(size: int) -> None:
    """Whatever the units were on the way: beliefs about data are expressed anew exactly."""
    rng = np.random.default_rng(18)
    X = 1e3 + 1e-2 * rng.normal(size=(200, 5)) * [1, 10, 100, 1e3, 1e4]
    X[:, 1] = np.where(np.arange(200) < 90, 5.0, X[:, 1])  # constant for a while
    numbers = 500.0 + 1e4 * ((X - X.mean(axis=0)) / X.std(axis=0)) @ rng.normal(size=(5, 2))
    numbers[:3] += 1e6  # outliers first
    learner = GibbsLearner(
        one_sided=False, margin=1e-9, c=0.5, variance=1.5, squared=True, batch_size=size
    )
    state = learner.start(2, 5, 0)
    for rows in np.split(np.arange(200), [1, 36, 120]):
        state = learner.learn(state, X, numbers, rows)
    units = state.units
    x = np.hstack([(X - units.origin) / units.unit, np.ones((200, 1))])
    precision = np.eye(6) / 1.5 + 2.0 * x.T @ x
    goals = (numbers - units.target_origin) / units.target_unit
    mean = np.linalg.solve(precision, 2.0 * x.T @ goals)
    np.testing.assert_allclose(state.mean.T, mean, rtol=1e-4, atol=1e-6)
    covariance = full(state).covariance[1]
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-5, atol=1e-9)
    slopes, level = state.weights()
    np.testing.assert_allclose(X @ slopes.T + level, state.scores(X), rtol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_units_of_columns_do_not_matter(name: str) -> None:
    learner = LEARNERS[name]
    X, targets = data(19, n=64)
    units = 10.0 ** np.arange(-30, 31, 12.0)
    moved = (X + 3.0) * units
    one = learner.learn(learner.start(3, 6, 5), X, targets, np.arange(64))
    two = learner.learn(learner.start(3, 6, 5), moved, targets, np.arange(64))
    np.testing.assert_allclose(two.scores(moved), one.scores(X), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", [n for n in LEARNERS if "numbers" in n])
def test_units_of_numbers_do_not_matter(name: str) -> None:
    learner = LEARNERS[name]
    X, targets = data(20, n=64)
    numbers = targets + np.random.default_rng(1).normal(size=targets.shape)
    one = learner.learn(learner.start(3, 6, 5), X, numbers, np.arange(64)).scores(X)
    for factor, level in ((1e12, 0.0), (1e-12, 0.0), (1.0, 1e4), (-3.0, 7.0)):
        state = learner.learn(learner.start(3, 6, 5), X, factor * numbers + level, np.arange(64))
        np.testing.assert_allclose((state.scores(X) - level) / factor, one, rtol=1e-5, atol=1e-6)
