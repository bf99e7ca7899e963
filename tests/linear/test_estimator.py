"""What users of the linear estimators rely on."""

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsRestClassifier

from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier as Classifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor
from oracles.passive_aggressive import crammer
from support.streams import file_of

VARIANTS: dict[str, dict[str, Any]] = {
    "averaging": {},
    "squared": {"slack": "squared"},
    "hard": {"slack": "none"},
    "batch": {"batch_size": 10},
    "no intercept": {"fit_intercept": False},
    "full": {"loss": "gibbs", "batch_size": 2},
    "diag": {"loss": "gibbs", "covariance": "diag", "batch_size": 5},
    "sampled": {"loss": "gibbs", "inference": "sampled", "batch_size": 10},
}
KINDS = ("binary", "multiclass", "multilabel", "number", "numbers")


def rows(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.8)
    return X, X @ np.random.default_rng(9).normal(size=(5, 3)) + 0.1 * rng.normal(size=(n, 3))


def targets(kind: str, scores: np.ndarray) -> Any:
    if kind == "binary":
        return np.where(scores[:, 0] > 0, "yes", "no")
    if kind == "multiclass":
        return np.array(["ash", "elm", "oak"])[scores.argmax(axis=1)]
    if kind == "multilabel":
        return (scores > 0).astype(int)
    return scores[:, 0] if kind == "number" else scores


def model_of(kind: str, variant: str, **params: Any) -> Any:
    params = {"random_state": 3, **VARIANTS[variant], **params}
    return Regressor(**params) if kind.startswith("number") else Classifier(**params)


def options(kind: str) -> dict[str, Any]:
    names = {"binary": ["no", "yes"], "multiclass": ["ash", "elm", "oak"]}
    return {"classes": names[kind]} if kind in names else {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_fit_is_a_sequence_of_partial_fits(kind: str, variant: str) -> None:
    X, scores = rows()
    y = targets(kind, scores)
    whole = model_of(kind, variant, shuffle=False).fit(X, y)
    parts = model_of(kind, variant, shuffle=False)
    for start in range(0, 120, 30):
        piece = slice(start, start + 30)
        parts.partial_fit(X[piece], y[piece], **options(kind))
    assert file_of(whole) == file_of(parts)
    once = model_of(kind, variant, shuffle=False).partial_fit(X, y, **options(kind))
    assert file_of(whole) == file_of(once)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_sparse_rows_are_dense_rows(kind: str, variant: str) -> None:
    X, scores = rows()
    y = targets(kind, scores)
    dense, thin = (model_of(kind, variant) for _ in range(2))
    dense.fit(X, y)
    thin.fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(thin.intercept_, dense.intercept_, rtol=1e-9, atol=1e-12)
    predicted, again = dense.predict(X), dense.predict(sparse.coo_array(X))
    if kind.startswith("number"):
        np.testing.assert_allclose(again, predicted, atol=1e-12)
    else:
        np.testing.assert_array_equal(again, predicted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_learns_and_the_seed_and_engine_say_how(kind: str, variant: str) -> None:
    X, scores = rows(300)
    y = targets(kind, scores)
    model = model_of(kind, variant).fit(X[:200], y[:200])
    enough = 0.6 if kind == "multilabel" or variant == "sampled" else 0.75
    assert model.score(X[200:], y[200:]) > enough
    again = model_of(kind, variant, engine="threads").fit(X[:200], y[:200])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    before = file_of(model)
    model.predict(X)
    assert file_of(model) == before
    assert model.n_samples_seen_ == 200


@pytest.mark.parametrize("slack", ["linear", "squared", "none"])
def test_one_pass_is_the_algorithm_of_crammer(slack: str) -> None:
    X, scores = rows()
    y = np.where(scores[:, 0] > 0, 1, -1)
    model = Classifier(slack=slack, C=0.4, fit_intercept=False, shuffle=False).fit(X, y)
    variant = {"linear": "PA-I", "squared": "PA-II", "none": "PA"}[slack]
    want = crammer(X, y, variant, 0.4, 1.0)[-1]
    np.testing.assert_allclose(model.coef_[0], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", ["averaging", "full", "diag"])
def test_missing_labels_contribute_nothing(variant: str) -> None:
    X, scores = rows()
    Y = (scores > 0).astype(float)
    Y[::2, 0] = np.nan
    Y[::3, 1] = np.nan
    params = {"batch_size": 1, "shuffle": False}
    model = model_of("multilabel", variant, **params).fit(X, Y)
    for q in range(3):
        seen = ~np.isnan(Y[:, q])
        alone = model_of("binary", variant, **params).fit(X[seen], Y[seen, q])
        np.testing.assert_allclose(model.coef_[q], alone.coef_[0], rtol=1e-9, atol=1e-12)
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
    model = Classifier(shuffle=False).fit(X, y)
    others = OneVsRestClassifier(Classifier(shuffle=False)).fit(X, y)
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
    ones = np.hstack([X[:10], np.ones((10, 1))])
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
        Regressor().fit(X, scores).predict(X, return_std=True)


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


def test_order_of_visits_is_shuffled_by_fit_alone() -> None:
    X, y = load_iris(return_X_y=True)  # sorted by class
    sorted_score = Classifier(shuffle=False).fit(X, y).score(X, y)
    assert Classifier(random_state=0).fit(X, y).score(X, y) > sorted_score
    twice = Classifier(random_state=0, n_passes=2).fit(X, y)
    assert twice.n_samples_seen_ == 300


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("kind", "y", "words"),
    [
        ("multiclass", ["ash"] * 29 + ["pine"], "pine"),
        ("multiclass", [0.5] * 30, "continuous"),
        ("multiclass", np.eye(30)[:, :3], "shape"),
        ("multiclass", None, "requires y"),
        ("multilabel", np.full((30, 3), 2), "indicator"),
        ("multilabel", np.zeros((30, 4)), "3 columns"),
        ("numbers", np.zeros((30, 2)), "3 columns"),
        ("numbers", np.zeros(30), "3 columns"),
        ("number", [np.nan] * 30, "NaN"),
        ("number", ["1"] * 30, "dtype"),
        ("number", [1e200] * 30, "at most"),
        ("number", np.ma.array(np.zeros(30), mask=[1] * 30), "masked"),
        ("number", sparse.csr_array(np.zeros((30, 1))), "dense"),
        ("number", None, "requires y"),
        ("number", 3.0, "rows|scalar|expected"),
    ],
)
def test_poisoned_targets_leave_no_trace(kind: str, y: Any, words: str) -> None:
    X, scores = rows(30)
    model = model_of(kind, "diag").fit(X, targets(kind, scores))
    before = file_of(model)
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        model.partial_fit(X, y)
    assert type(model).__name__ in str(caught.value)
    assert file_of(model) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"loss": "averaging"}, "began to learn with loss='gibbs' and covariance='full'"),
        ({"covariance": "diag"}, "covariance='diag' instead"),
        ({"fit_intercept": False}, "fit_intercept"),
        ({"slack": "squared"}, "slack.*gibbs"),
        ({"C": 0.0}, "'C'"),
        ({"batch_size": 2000}, "batch_size"),
        ({"shuffle": "yes"}, "shuffle"),
    ],
)
def test_parameters_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    X, scores = rows(30)
    model = model_of("binary", "full").fit(X, targets("binary", scores))
    before = file_of(model)
    good = model.get_params()
    model.set_params(**change)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, targets("binary", scores))
    model.set_params(**good)
    assert file_of(model) == before


def test_hard_margins_are_for_single_rows() -> None:
    with pytest.raises(ValueError, match=r"slack.*batch_size"):
        Classifier(slack="none", batch_size=2).fit(*load_iris(return_X_y=True))


def test_weights_that_overflow_are_refused() -> None:
    X, scores = rows(30)
    model = Regressor(slack="none", fit_intercept=False)
    with pytest.raises(ValueError, match="Regressor cannot learn from X"):
        model.fit(1e-150 * X, 1e98 * scores)
    assert not hasattr(model, "_learned")


def test_clone_and_pickle() -> None:
    X, scores = rows(30)
    model = model_of("multiclass", "full").fit(X, targets("multiclass", scores))
    assert not hasattr(clone(model), "_learned")
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
