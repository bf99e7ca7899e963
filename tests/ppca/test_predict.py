"""Predictions of PPCA and mixtures of it, against one row and one dense Gaussian at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from everlearn.engine.rows import Rows
from everlearn.ppca.predict import (
    filled,
    latents,
    log_densities,
    mixture_latents,
    responsibilities,
    rows_of_latents,
)
from everlearn.ppca.state import PPCAState
from oracles import ppca as oracle
from oracles.ppca import rows_of

D, Q = 5, 2
MODELS = tuple(oracle.random_model(D, Q, seed) for seed in range(3))
SHARES = np.array([0.5, 0.3, 0.2])
MIXTURE = PPCAState(MODELS, SHARES, np.zeros(D))
ALONE = PPCAState(MODELS[:1], np.ones(1), np.zeros(D))
X = np.concatenate([rows_of(model, 4, seed, 0.3) for seed, model in enumerate(MODELS)])
X[0] = np.nan  # a row that says nothing


def joint() -> np.ndarray:
    """Log of share times density of what each row has, (n, K)."""
    return np.stack([oracle.log_likelihood(m, X) for m in MODELS], axis=1) + np.log(SHARES)


def test_densities_and_responsibilities_are_those_of_the_mixture() -> None:
    assert_allclose(log_densities(MIXTURE, Rows(X)), logsumexp(joint(), axis=1), rtol=1e-9,
                    atol=1e-12)  # fmt: skip
    want = np.exp(joint() - logsumexp(joint(), axis=1, keepdims=True))
    found = responsibilities(MIXTURE, Rows(X))
    assert_allclose(found, want, atol=1e-10)
    assert_allclose(found[0], SHARES)
    assert_array_equal(responsibilities(ALONE, Rows(X)), np.ones((len(X), 1)))


def test_gaps_get_the_expectation_of_the_mixture_and_values_stay() -> None:
    shares = np.exp(joint() - logsumexp(joint(), axis=1, keepdims=True))
    want = np.array([
        sum(r * oracle.conditional(m, x)[2] for r, m in zip(row, MODELS, strict=True))
        for row, x in zip(shares, X, strict=True)
    ])  # fmt: skip
    found = filled(MIXTURE, Rows(X))
    assert_allclose(found, want, atol=1e-9)
    seen = ~np.isnan(X)
    assert_array_equal(found[seen], X[seen])
    assert np.isnan(X).any()  # the rows themselves keep their gaps


def test_latents_of_a_mixture_are_weighted_by_its_components() -> None:
    z = np.stack([[oracle.conditional(m, x)[0] for x in X] for m in MODELS])
    assert_allclose(latents(ALONE, Rows(X)), z[0], atol=1e-10)
    found = mixture_latents(MIXTURE, Rows(X))
    shares = responsibilities(MIXTURE, Rows(X))
    assert_allclose(found[:, :3], shares)
    for k in range(3):
        own = found[:, 3 + k * Q : 3 + (k + 1) * Q]
        assert_allclose(own, shares[:, k : k + 1] * z[k], atol=1e-10)


@pytest.mark.parametrize("is_mixture", [False, True])
def test_back_from_latents_is_the_orthogonal_projection(is_mixture: bool) -> None:
    whole = rows_of(MODELS[0], 6)
    state = MIXTURE if is_mixture else ALONE
    Z = (mixture_latents if is_mixture else latents)(state, Rows(whole))
    shares = responsibilities(state, Rows(whole))
    want = np.zeros(whole.shape)
    for r, model in zip(shares.T, state.models, strict=True):
        basis = np.linalg.qr(model.loadings)[0]
        want += r[:, None] * (model.mean + (whole - model.mean) @ basis @ basis.T)
    assert_allclose(rows_of_latents(state, Z, is_mixture=is_mixture), want, atol=1e-9)


def test_directions_without_variance_come_back_as_the_mean() -> None:
    blank = PPCAState.blank(Rows(rows_of(MODELS[0], 9)), Q, 0)
    back = rows_of_latents(blank, np.ones((2, Q)), is_mixture=False)
    assert_allclose(back, np.tile(blank.models[0].mean, (2, 1)))


def test_no_rows_have_no_predictions() -> None:
    none = Rows(np.empty((0, D)))
    assert log_densities(MIXTURE, none).shape == (0,)
    assert responsibilities(MIXTURE, none).shape == (0, 3)
    assert mixture_latents(MIXTURE, none).shape == (0, 9)
    assert filled(MIXTURE, none).shape == (0, D)
