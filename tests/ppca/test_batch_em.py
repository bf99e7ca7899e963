"""Batch EM: likelihoods never fall, and it finds what is known otherwise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.engine.local import SerialEngine
from everlearn.engine.rows import Rows
from everlearn.errors import NotConvergedWarning
from everlearn.ppca.batch_em import BatchEM
from everlearn.ppca.estimator import OnlinePPCA
from oracles.ppca import assert_models_close
from support.ppca_data import WIDTH, rows_of


def test_em_finds_what_the_closed_form_is() -> None:
    X = rows_of(100)
    exact = OnlinePPCA(2).fit(X)
    model = OnlinePPCA(2, fit_method="em", tol=1e-5, max_iter=1000, random_state=1).fit(X)
    assert exact.score(X) - 0.02 < model.score(X) <= exact.score(X)
    assert (np.diff(model.log_likelihoods_) > -1e-9).all()
    assert exact.n_iter_ == 1 < model.n_iter_
    with pytest.warns(NotConvergedWarning, match="max_iter=2"):
        OnlinePPCA(2, fit_method="em", max_iter=2).fit(X)


def test_a_mixture_finds_planted_planes() -> None:
    parts = [rows_of(150, seed) for seed in range(3)]
    X, y = np.concatenate(parts), np.repeat(np.arange(3), 150)
    found = []
    for seed in range(10):
        model = OnlinePPCA(2, n_mixtures=3, random_state=seed).fit(X)
        pairs = np.stack([y, model.predict(X)])
        found.append(len(np.unique(pairs, axis=1).T) == 3)
    assert sum(found) >= 9
    assert model.mean_.shape == (3, WIDTH)
    assert model.components_.shape == (3, 2, WIDTH)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.transform(X).shape == (450, 3 * 3)
    assert np.abs(model.inverse_transform(model.transform(X)) - X).mean() < 0.4
    assert_allclose(model.get_covariance() @ model.get_precision(), np.eye(WIDTH), atol=1e-7)


def test_fit_with_gaps_is_at_the_maximum_where_noise_is_low() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 8)) + 0.05 * rng.normal(size=(400, 8))
    X[rng.random(X.shape) < 0.3] = np.nan
    usual = OnlinePPCA(2, random_state=0).fit(X)
    patient = OnlinePPCA(2, random_state=0, tol=1e-9, max_iter=20_000).fit(X)
    assert usual.n_iter_ < 30
    assert patient.score(X) - usual.score(X) < 0.005


def em(rank: int = 2, n_components: int = 3, max_iter: int = 15, tol: float = 0.0) -> BatchEM:
    return BatchEM(rank, n_components, max_iter, tol)


def planes(gaps: float = 0.0) -> np.ndarray:
    return np.concatenate([rows_of(n, seed, gaps) for seed, n in enumerate((20, 40, 60))])


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("n_components", [1, 3])
def test_no_iteration_lowers_the_likelihood(n_components: int, gaps: float) -> None:
    seen: list[float] = []
    rows = Rows(planes(gaps), np.linspace(0.5, 2.0, 120))
    state, found = em(n_components=n_components).fit(rows, 0, SerialEngine(), seen.append)
    assert seen == found
    assert len(found) == 15
    assert (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()
    assert (np.diff(state.weights) <= 0).all()  # the largest component first
    assert_allclose(state.weights.sum(), 1.0)


def test_iterations_end_when_the_likelihood_hardly_rises() -> None:
    found = em(max_iter=500, tol=0.01).fit(Rows(planes()), 0, SerialEngine(), lambda _: None)[1]
    assert 2 < len(found) < 500
    rises = np.diff(found)
    assert rises[-1] < 0.01 <= rises[:-1].min()


def test_a_row_of_weight_2_is_two_rows_in_any_order() -> None:
    X = planes()
    order = np.random.default_rng(0).permutation(120)
    once = em().fit(Rows(X[order], np.full(120, 2.0)), 4, SerialEngine(), lambda _: None)[0]
    twice = em().fit(Rows(np.repeat(X, 2, axis=0)), 4, SerialEngine(), lambda _: None)[0]
    assert_allclose(once.weights, twice.weights, atol=1e-7)
    for one, two in zip(once.models, twice.models, strict=True):
        assert_models_close(one, two, rtol=1e-5, atol=1e-6)


def test_more_components_than_different_rows() -> None:
    X = np.repeat(rows_of(2), 5, axis=0)
    state, found = em(n_components=4).fit(Rows(X), 0, SerialEngine(), lambda _: None)
    assert len(state.models) == 4
    assert state.is_finite()
    assert np.isfinite(found).all()


def test_a_known_state_is_where_it_begins() -> None:
    rows = Rows(planes())
    first, likelihoods = em(max_iter=5).fit(rows, 0, SerialEngine(), lambda _: None)
    _, more = em(max_iter=1).fit(rows, 9, SerialEngine(), lambda _: None, start=first)
    assert more[0] >= likelihoods[-1]
