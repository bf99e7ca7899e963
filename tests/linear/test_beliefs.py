"""What a linear model believes: weights, scores, their variances, and factors of rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.linear.beliefs import (
    Belief,
    DiagonalBelief,
    FullBelief,
    LinearState,
    Sites,
    block_of,
    feature_major,
    with_ones,
)
from everlearn.linear.units import Units

X = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 50.0, 0.1] + [0.0, 100.0, 7.0]
NUMBERS = np.random.default_rng(1).normal(size=(30, 2)) * [3.0, 0.5] + [20.0, -4.0]
ROOT = np.random.default_rng(2).normal(size=(2, 4, 4))
PRECISION = ROOT @ ROOT.transpose(0, 2, 1) + 2.0 * np.eye(4)
FULL = FullBelief(PRECISION, np.zeros((2, 4)), np.linalg.inv(PRECISION))
DIAGONAL = DiagonalBelief(np.random.default_rng(3).uniform(1.0, 5.0, (2, 4)))


def state_of(belief: Belief = None, *, intercept: bool = True) -> LinearState:
    """Any weights in the units of some rows and numbers."""
    units = Units.blank(3, 2, intercept=intercept).observe(X, NUMBERS).renewed(30)
    mean = np.random.default_rng(4).normal(size=(2, 3 + intercept))
    return LinearState(mean, belief, units, prior=0.5, n_rows=30, clock=1, seed=0)


@pytest.mark.parametrize("belief", ["diagonal", "full"])
def test_variances_of_scores_are_quadratic_forms(
    belief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everlearn.linear.beliefs._SCORE_ENTRIES", 20)
    state = state_of(DIAGONAL if belief == "diagonal" else FULL)
    known: Any = state.belief
    spread = (
        known.covariance if belief == "full" else np.stack([np.diag(v) for v in known.marginal])
    )
    ones = np.hstack([state.units.standardize(X), np.ones((30, 1))])
    wanted = state.units.target_unit**2 * np.einsum("ni,qij,nj->nq", ones, spread, ones)
    np.testing.assert_allclose(state.variances(X), wanted, rtol=1e-9)
    np.testing.assert_allclose(known.marginal, np.diagonal(spread, axis1=1, axis2=2))
    x = ones[:, :4]
    plain = np.einsum("ni,qij,nj->nq", x, spread, x)
    np.testing.assert_allclose(known.variances(x), plain, rtol=1e-9)
    np.testing.assert_allclose(known.variances(sparse.csr_array(x)), plain, rtol=1e-9)
    assert state.variances(X[:0]).shape == (0, 2)
    with pytest.raises(TypeError, match="not learned"):
        state_of().variances(X)


def test_weights_are_in_the_units_of_the_user() -> None:
    state = state_of(belief=DIAGONAL)
    slopes, level = state.weights()
    np.testing.assert_allclose(state.scores(X), X @ slopes.T + level, rtol=1e-9)
    thin = state.scores(sparse.csr_array(X))
    np.testing.assert_allclose(thin, state.scores(X), rtol=1e-9)
    assert state.scores(X[:0]).shape == (0, 2)
    free = state_of(intercept=False)
    assert not free.has_intercept
    slopes, level = free.weights()
    np.testing.assert_allclose(free.scores(X), X @ slopes.T + level, rtol=1e-9)


@pytest.mark.parametrize("belief", ["diagonal", "full"])
def test_variances_of_weights_are_those_of_drawn_weights(belief: str) -> None:
    state = state_of(belief=DIAGONAL if belief == "diagonal" else FULL)
    rng = np.random.default_rng(1)
    known: Any = state.belief
    spread = known.covariance if belief == "full" else [np.diag(v) for v in known.marginal]
    drawn = np.stack(
        [rng.multivariate_normal(m, s, 4000) for m, s in zip(state.mean, spread, strict=True)], 1
    )
    weights = [replace(state, mean=mean).weights() for mean in drawn]
    slopes, level = (np.array([w[i] for w in weights]) for i in range(2))
    variances = state.weight_variances()
    error = 5 * np.sqrt(2 / 4000)  # of a variance, as a share of it
    np.testing.assert_allclose(slopes.var(axis=0), variances[0], rtol=error)
    np.testing.assert_allclose(level.var(axis=0), variances[1], rtol=error)


def test_without_intercept_it_is_certain() -> None:
    state = state_of(belief=DiagonalBelief(np.full((2, 3), 4.0)), intercept=False)
    np.testing.assert_array_equal(state.weight_variances()[1], [0.0, 0.0])
    with pytest.raises(TypeError, match="not learned"):
        state_of().weight_variances()


def test_moves_of_scores_are_averaged_since_the_last_call() -> None:
    sites = Sites.blank(4, 2)
    assert sites.weight.shape == sites.pull.shape == (4, 2)
    assert sites.pop_mean_move() == 0.0
    sites.record(np.array([[3.0, np.nan], [-1.0, 2.0]]))
    sites.record(np.array([[np.nan, np.nan]]))
    sites.record(np.array([[1.0, 1.0]]))
    assert sites.pop_mean_move() == pytest.approx(np.sqrt(16 / 5))
    assert sites.pop_mean_move() == 0.0


@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_blocks_have_the_products_of_the_rows(
    ones: bool, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sparse rows lose the columns in which all are empty; the others know their weights."""
    monkeypatch.setattr("everlearn.linear.beliefs._DENSE_ENTRIES", limit)
    x = np.zeros((4, 6))
    x[0, 1], x[2, [1, 4]], x[3, 5] = 2.0, [-1.0, 3.0], 1.5
    whole = with_ones(x) if ones else x
    n_weights = 6 + ones
    dense = block_of(x, n_weights)
    thin = block_of(sparse.csr_array(x), n_weights)
    every = block_of(sparse.csr_array(x), n_weights, every_column=True)
    np.testing.assert_array_equal(thin.columns, [1, 4, 5, 6][: 3 + ones])
    for block in (dense, thin, every):
        rows = block.x.toarray() if sparse.issparse(block.x) else block.x
        np.testing.assert_array_equal(rows, whole[:, block.columns])
        np.testing.assert_allclose(block.gram, whole @ whole.T)
    assert sparse.issparse(thin.x) == (limit == 0)


def test_no_rows_are_a_block_too() -> None:
    for x in (np.zeros((0, 3)), sparse.csr_array((0, 3))):
        block = block_of(x, 4)
        assert block.x.shape[0] == 0
        assert block.gram.shape == (0, 0)


def test_weights_of_a_feature_lie_side_by_side() -> None:
    mean = np.arange(6.0).reshape(2, 3)
    stored = feature_major(mean)
    np.testing.assert_array_equal(stored, mean)
    assert stored.T.flags.c_contiguous
