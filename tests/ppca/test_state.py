"""The state before the first rows, and which log densities are usual."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.engine.chunks import Chunk, ChunkedRows
from everlearn.engine.local import SerialEngine
from everlearn.engine.protocol import LocalHandle
from everlearn.engine.rows import Rows
from everlearn.ppca.moments import Moments
from everlearn.ppca.state import TYPICAL_ROWS, PPCAState, Typical
from support.ppca_data import WIDTH, rows_of


def sums_of(densities, weights):
    """The `likelihoods` of a `LocalSum`; the second entry is not used."""
    return np.array([weights.sum(), 0.0, weights @ densities, weights @ densities**2])


def test_usual_densities_are_those_of_all_rows_while_they_are_few():
    rng = np.random.default_rng(0)
    densities, weights = rng.normal(-7.0, 2.0, 600), rng.uniform(0.5, 1.5, 600)
    typical = Typical()
    for part in np.split(np.arange(600), [1, 2, 50, 51, 400]):
        typical = typical.after(sums_of(densities[part], weights[part]))
    mean = np.average(densities, weights=weights)
    assert_allclose(typical.mass, weights.sum())
    assert_allclose(typical.mean, mean)
    assert_allclose(typical.variance, np.average((densities - mean) ** 2, weights=weights))


def test_old_densities_fade():
    """No more than a number of rows counts for the past, so a change is seen."""
    old = Typical(1e9, -5.0, 1.0)
    after = old.after(sums_of(np.full(1000, -9.0), np.ones(1000)))
    assert after.mean == pytest.approx(-7.0)  # TYPICAL_ROWS old ones, and as many new ones
    assert TYPICAL_ROWS == 1000.0
    assert after.variance == pytest.approx(0.5 + 4.0)


def test_no_rows_change_nothing():
    usual = Typical(10.0, -5.0, 1.0)
    assert usual.after(np.zeros(4)) is usual


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_the_first_state_has_mean_and_variance_of_what_there_is(gaps, weighted):
    X = rows_of(50, gaps=gaps)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 50) if weighted else np.ones(50)
    state = PPCAState.blank(Rows(X, w if weighted else None), 2, seed=7)
    seen = ~np.isnan(X) * w[:, None]
    mean = np.nansum(X * w[:, None], axis=0) / seen.sum(axis=0)
    variance = np.nansum((X - mean) ** 2 * w[:, None], axis=0) / seen.sum(axis=0)
    (model,) = state.models
    assert_allclose(model.mean, mean)
    assert_allclose(state.origin, mean)
    assert_allclose(model.noise, variance.mean())
    assert model.loadings.shape == (WIDTH, 2)
    assert not model.loadings.any()
    assert state.seed == 7


def test_rows_in_chunks_begin_as_rows_in_memory():
    rows = Rows(rows_of(50, gaps=0.2), np.linspace(0.5, 2.0, 50))
    parts = [rows[0:20], rows[20:21], rows[21:50]]
    chunks = tuple(Chunk(LocalHandle(p), len(p), p.mass, p.nbytes) for p in parts)
    there = PPCAState.blank(ChunkedRows(chunks, WIDTH, True), 2, 0, SerialEngine())
    here = PPCAState.blank(rows, 2, 0)
    assert_allclose(there.models[0].mean, here.models[0].mean, rtol=1e-12)
    assert_allclose(there.models[0].noise, here.models[0].noise, rtol=1e-12)


@pytest.mark.parametrize("X", [np.full((3, 2), 4.0), np.array([[1.0, np.nan]])])
def test_rows_without_spread_and_empty_columns_give_a_proper_state(X):
    state = PPCAState.blank(Rows(X), 1, 0)
    assert state.models[0].noise > 0
    assert state.is_finite()


def test_masses_and_shares():
    state = PPCAState.blank(Rows(rows_of(50)), 2, 0)
    assert state.row_weight == 1.0  # nothing learned yet
    assert replace(state, mass=30.0, n_rows=60).row_weight == 0.5
    assert state.reference_mass == 0.0
    moments = Moments.of_rows(rows_of(10))
    assert replace(state, reference=(moments, moments)).reference_mass == 20.0
    shares = replace(state, weights=np.array([1.0, 0.0])).log_weights
    assert_allclose(shares, [0.0, -np.inf])
    assert not replace(state, typical=Typical(1.0, np.nan, 0.0)).is_finite()
    broken = replace(state.models[0], noise=np.inf)
    assert not replace(state, models=(broken,)).is_finite()
