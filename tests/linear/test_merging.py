"""Linear models learned apart become one: what their rows say adds up."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from everlearn.estimator.merging import merge
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier
from everlearn.linear.conversion import convert_data
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor

RNG = np.random.default_rng(5)
LABELS = RNG.integers(3, size=900)
POINTS = np.array([-10.0, 0.0, 10.0])[LABELS, None] + RNG.normal(size=(900, 3))


def test_gaussian_weights_add():
    y = (POINTS[:, 0] > 0).astype(int)
    params = {"loss": "gibbs", "covariance": "full", "random_state": 0, "variance": 2.0}
    shards = [
        BayesianPassiveAggressiveClassifier(**params).fit(POINTS[i::2], y[i::2]) for i in range(2)
    ]
    both = merge(shards)
    c = both._learned.state.belief
    units, prior = both._learned.state.units, np.eye(c.precision.shape[-1]) / 2.0
    added = [
        convert_data(m.belief.precision, m.belief.shift, m.units, units, m.prior)[0]
        for m in (shard._learned.state for shard in shards)
    ]
    assert_allclose(c.precision, added[0] + added[1] + prior, rtol=1e-12)
    assert_allclose(np.linalg.solve(c.precision[0], c.shift[0]), both._learned.state.mean[0])
    assert_allclose(units.column_scale.mean, POINTS.mean(axis=0), rtol=1e-9)
    assert_allclose(units.column_scale.spread, POINTS.std(axis=0), rtol=1e-9)
    assert both.score(POINTS, y) > 0.95


def test_numbers_in_other_units_are_those_of_all_rows():
    """Squared losses of numbers are sums, in whatever units each part learned them."""
    y = 1e3 + POINTS @ [50.0, -20.0, 3.0] + np.random.default_rng(0).normal(size=len(POINTS))
    order = np.argsort(y)  # so the parts have nothing in common
    X, y = POINTS[order], y[order]
    third = len(y) // 3

    def learned(model, rows):
        return model.partial_fit(X[rows], y[rows])

    def made():
        return BayesianPassiveAggressiveRegressor(epsilon=1e-9)

    first, second, last = slice(third), slice(third, 2 * third), slice(2 * third, None)
    whole = made().fit(X, y)  # in units of all rows, as merged models are
    parts = [learned(made(), rows) for rows in (first, second, last)]
    base = learned(made(), first)
    shards = [learned(copy.deepcopy(base), rows) for rows in (second, last)]
    for both in (merge(parts), merge(shards, base=base)):
        assert both.n_samples_seen_ == len(y)
        want, got = (m.predict(X, return_std=True) for m in (whole, both))
        assert_allclose(got[0], want[0], rtol=1e-6)
        assert_allclose(got[1], want[1], rtol=1e-5)


def test_dense_and_sparse_beginnings_do_not_mix():
    y = (POINTS[:, 0] > 0).astype(int)
    models = [
        BayesianPassiveAggressiveClassifier(random_state=0).fit(rows, y)
        for rows in (POINTS, sparse.csr_array(POINTS))
    ]
    with pytest.raises(ValueError, match="all began with dense rows"):
        merge(models)


def test_a_base_that_is_none():
    y = (POINTS[:, 0] > 0).astype(int)
    params = {"loss": "gibbs", "covariance": "full", "random_state": 0}
    one, two, other = (
        BayesianPassiveAggressiveClassifier(**params).fit(POINTS[rows], y[rows])
        for rows in (slice(0, 300), slice(300, 600), slice(600, 900))
    )
    with pytest.raises(ValueError, match="Model 0 did not: it is less sure of some weights"):
        merge([one, two], base=other)
    assert merge([one, copy.deepcopy(one).partial_fit(POINTS, y)], base=one).n_samples_seen_ == 1200


def test_independent_weights_and_other_widths_are_refused():
    y = (POINTS[:, 0] > 0).astype(int)
    diagonal = [
        BayesianPassiveAggressiveClassifier(covariance="diag", random_state=0).fit(POINTS, y)
        for _ in range(2)
    ]
    with pytest.raises(ValueError, match="covariance='full'"):
        merge(diagonal)
    one, two = (
        BayesianPassiveAggressiveRegressor(random_state=0).fit(POINTS, numbers)
        for numbers in (POINTS[:, 0], POINTS[:, :2])
    )
    with pytest.raises(
        ValueError, match=r"as many targets\. Got weights of \[\(1, 4\), \(2, 4\)\]"
    ):
        merge([one, two])
