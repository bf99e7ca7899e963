"""Classifiers: votes, labels that are missing, and known algorithms."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from everlearn.linear.beliefs import DiagonalBelief
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier as Classifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor
from oracles.passive_aggressive import crammer
from support.linear_data import model_of, rows, targets
from support.streams import file_of


@pytest.mark.parametrize("slack", ["linear", "squared", "none"])
def test_one_pass_is_the_algorithm_of_crammer(slack: str) -> None:
    """Columns of 1 and -1 have units of 1 from the first row to the last."""
    X, scores = rows()
    X, y = np.where(X > 0, 1.0, -1.0), np.where(scores[:, 0] > 0, 1, -1)
    plain = {"fit_intercept": False, "shuffle": False, "batch_size": 1, "max_iter": 1}
    model = Classifier(loss="averaging", slack=slack, C=0.4, **plain).fit(X, y)
    variant = {"linear": "PA-I", "squared": "PA-II", "none": "PA"}[slack]
    want = crammer(X, y, variant, 0.4, 1.0)[-1]
    np.testing.assert_allclose(model.coef_[0], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", ["averaging", "full", "diag"])
def test_missing_labels_contribute_nothing(variant: str) -> None:
    X, scores = rows()
    Y = (scores > 0).astype(float)
    Y[::2, 0] = np.nan
    Y[::3, 1] = np.nan
    params = {"batch_size": 1, "shuffle": False, "max_iter": 1}
    model = model_of("multilabel", variant, **params).fit(X, Y)
    for q in range(2):  # what other labels are, or whether they are known, says nothing either
        other = np.column_stack([Y[:, q], np.arange(120) % 2])
        alone = model_of("multilabel", variant, **params).fit(X, other)
        np.testing.assert_allclose(model.coef_[q], alone.coef_[0], rtol=1e-9, atol=1e-12)
    unseen = np.vstack([X, 100.0 + X])
    padded = np.vstack([Y, np.full(Y.shape, np.nan)])
    again = model_of("multilabel", variant, **params).fit(unseen, padded)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    before = file_of(model)
    model.partial_fit(X, np.full(Y.shape, np.nan))
    assert file_of(model) == before
    masked = np.ma.array(np.nan_to_num(Y), mask=np.isnan(Y))
    again = model_of("multilabel", variant, **params).fit(X, masked)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    thin = model_of("multilabel", variant, **params).fit(X, sparse.csr_array(Y))
    np.testing.assert_array_equal(thin.coef_, model.coef_)


def test_one_against_the_rest_is_what_it_says() -> None:
    X, scores = rows()
    y = targets("multiclass", scores)
    plain = {"loss": "averaging", "shuffle": False, "max_iter": 1, "batch_size": 1}
    model = Classifier(**plain).fit(X, y)
    others = OneVsRestClassifier(Classifier(**plain)).fit(X, y)
    coefficients = np.vstack([e.coef_ for e in others.estimators_])
    np.testing.assert_allclose(model.coef_, coefficients, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), others.predict(X))


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_votes_are_those_of_drawn_classifiers(covariance: str) -> None:
    X, scores = rows()
    model = Classifier(loss="gibbs", covariance=covariance, random_state=0)
    y = targets("binary", scores)
    model.fit(X[:25], y[:25])
    votes = model.predict_proba(X[:10])[:, 1]
    rng = np.random.default_rng(0)
    state = model._learned.state
    ones = np.hstack([state.units.standardize(X[:10]), np.ones((10, 1))])
    spread = (
        state.belief.covariance[0] if covariance == "full" else np.diag(state.belief.marginal[0])
    )
    drawn = rng.multivariate_normal(state.mean[0], spread, 40_000) @ ones.T > 0
    np.testing.assert_allclose(votes, drawn.mean(axis=0), atol=5 * 0.5 / 200)


def test_shapes_and_consistency_of_votes() -> None:
    X, scores = rows()
    for kind, n in (("binary", 2), ("multiclass", 3), ("multilabel", 3)):
        y = targets(kind, scores)
        model = model_of(kind, "full").fit(X, y)
        votes, decision = model.predict_proba(X), model.decision_function(X)
        assert votes.shape == (120, n)
        assert decision.shape == ((120,) if kind == "binary" else (120, 3))
        if kind == "multilabel":
            np.testing.assert_array_equal(votes > 0.5, model.predict(X) == 1)
            continue
        np.testing.assert_allclose(votes.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[votes.argmax(axis=1)], model.predict(X))
        means = X @ model.coef_.T + model.intercept_
        best = means.argmax(axis=1) if kind == "multiclass" else (means[:, 0] > 0).astype(int)
        np.testing.assert_array_equal(model.classes_[best], model.predict(X))


def test_only_gibbs_knows_how_sure_it_is() -> None:
    X, scores = rows()
    plain, sure = (model_of("binary", v).fit(X, scores[:, 0] > 0) for v in ("averaging", "full"))
    assert not hasattr(plain, "predict_proba")
    assert not hasattr(plain, "coef_variance_")
    assert sure.coef_variance_.shape == sure.coef_.shape
    assert (sure.coef_variance_ < 1.0).all()
    assert (sure.intercept_variance_ < 1.0).all()
    regressor = Regressor(loss="gibbs").fit(X, scores)
    mean, std = regressor.predict(X, return_std=True)
    assert std.shape == mean.shape == (120, 3)
    assert (std > 0).all()
    with pytest.raises(ValueError, match=r"return_std.*averaging"):
        Regressor(loss="averaging").fit(X, scores).predict(X, return_std=True)


@pytest.mark.parametrize("loss", ["averaging", "diag"])
@pytest.mark.parametrize("slack", ["linear", "squared"])
def test_means_of_fit_are_support_vector_machines(loss: str, slack: str) -> None:
    X, scores = rows(200)
    y = targets("binary", scores)
    form = {"loss": "averaging"} if loss == "averaging" else {"covariance": "diag"}
    model = Classifier(slack=slack, C=0.5, tol=1e-6, max_iter=10_000, **form).fit(X, y)
    name = {"linear": "hinge", "squared": "squared_hinge"}[slack]
    peer = LinearSVC(loss=name, C=0.5, tol=1e-8, max_iter=100_000).fit(scale(X), y)
    np.testing.assert_allclose(model.coef_[0] * X.std(axis=0), peer.coef_[0], atol=2e-3)
    np.testing.assert_allclose(model.decision_function(X).shape, (200,))


@pytest.mark.parametrize(("n", "form"), [(299, "full"), (300, "diag")])
def test_wide_rows_have_independent_weights(n: int, form: str) -> None:
    X = np.random.default_rng(0).normal(size=(8, n))
    model = Classifier().partial_fit(X, np.arange(8) % 2, classes=[0, 1])
    assert isinstance(model._learned.state.belief, DiagonalBelief) == (form == "diag")


def test_hard_margins_are_for_single_rows() -> None:
    with pytest.raises(ValueError, match=r"slack.*batch_size"):
        Classifier(loss="averaging", slack="none", batch_size=2).fit(*load_iris(return_X_y=True))


def test_clone_and_pickle() -> None:
    X, scores = rows(30)
    model = model_of("multiclass", "full").fit(X, targets("multiclass", scores))
    assert not hasattr(clone(model), "_learned")
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
