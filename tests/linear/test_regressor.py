"""Regressors: streams, outliers, and how sure they are."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor
from support.linear_data import rows


def test_more_data_leave_less_doubt() -> None:
    X, scores = rows(400)
    model = Regressor(loss="gibbs", covariance="full")
    doubts = []
    for start in range(0, 400, 100):
        model.partial_fit(X[start : start + 100], scores[start : start + 100, 0])
        doubts.append(model.coef_variance_.copy())
    assert (np.diff(doubts, axis=0) < 0).all()
    assert isinstance(model.intercept_, float)
    assert model.coef_.shape == (5,)


def test_a_stream_goes_on_from_a_fit() -> None:
    X, scores = rows(300)
    model = Regressor().fit(X[:100], scores[:100])
    for start in range(100, 300, 50):
        model.partial_fit(X[start : start + 50], scores[start : start + 50])
    assert model.n_samples_seen_ == 300
    whole = Regressor().fit(X, scores)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.02)
    np.testing.assert_allclose(model.coef_variance_, whole.coef_variance_, rtol=0.2)


def test_numbers_far_from_zero_and_outliers_among_the_first() -> None:
    X, y = load_diabetes(return_X_y=True)
    for goals in (y, y + 1e3, 1e4 * y, 1e-9 * y - 5.0):
        model = Regressor(random_state=0)
        for start in range(0, 400, 50):
            model.partial_fit(X[start : start + 50], goals[start : start + 50])
        assert model.score(X[400:], goals[400:]) > 0.6
    spoilt = y.copy()
    spoilt[[2, 9]] = 1e5
    model = Regressor(random_state=0, slack="linear").partial_fit(X[:32], spoilt[:32])
    for _ in range(20):
        model.partial_fit(X[32:400], y[32:400])
    assert model.score(X[400:], y[400:]) > 0.55


def test_awkward_first_rows() -> None:
    X, scores = rows()
    model = Regressor().partial_fit(1e6 + X[:1], 1e3 + scores[:1, 0])
    assert model.predict(1e6 + X[:1])[0] == pytest.approx(1e3 + scores[0, 0])
    assert not model.coef_.any()
    model.partial_fit(1e6 + X[1:], 1e3 + scores[1:, 0])
    assert model.score(1e6 + X, 1e3 + scores[:, 0]) > 0.99
    constant = np.hstack([X, np.full((120, 1), 1e8)])
    model = Regressor().fit(constant, scores[:, 0])
    assert model.coef_[5] == 0.0
    assert model.score(constant, scores[:, 0]) > 0.99
    assert Regressor().fit(X, np.full(120, 7.0)).predict(X) == pytest.approx(np.full(120, 7.0))


def test_variances_are_in_the_units_of_the_user() -> None:
    X, scores = rows()
    one = Regressor(loss="gibbs").fit(X, scores[:, 0])
    two = Regressor(loss="gibbs").fit(1e3 * (X - 1.0), 50.0 * scores[:, 0])
    np.testing.assert_allclose(
        two.coef_variance_, (50.0 / 1e3) ** 2 * one.coef_variance_, rtol=1e-3
    )
    std = [m.predict(x, return_std=True)[1] for m, x in ((one, X), (two, 1e3 * (X - 1.0)))]
    np.testing.assert_allclose(std[1], 50.0 * std[0], rtol=1e-3)
    at_zero = one.predict(np.zeros((1, 5)), return_std=True)[1]
    np.testing.assert_allclose(at_zero**2, one.intercept_variance_, rtol=1e-9)
