"""What users of the linear estimators rely on."""

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from everlearn.errors import NotConvergedWarning
from everlearn.linear.beliefs import DiagonalBelief
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier as Classifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor
from oracles.passive_aggressive import crammer
from support.streams import file_of

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "averaging": {"loss": "averaging", "slack": "linear", "batch_size": 1},
    "squared": {"loss": "averaging", "batch_size": 1},
    "hard": {"loss": "averaging", "slack": "none", "batch_size": 1},
    "batch": {"loss": "averaging", "slack": "linear", "batch_size": 10},
    "no intercept": {"fit_intercept": False},
    "full": {"slack": "linear", "batch_size": 2},
    "diag": {"slack": "linear", "covariance": "diag", "batch_size": 5},
    "squared diag": {"covariance": "diag"},
    "sampled": {"slack": "linear", "inference": "sampled", "batch_size": 10},
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
def test_one_pass_of_fit_is_a_sequence_of_partial_fits(kind: str, variant: str) -> None:
    X, scores = rows()
    y = targets(kind, scores)
    params = {"shuffle": False, "max_iter": 1}
    whole = model_of(kind, variant, **params).fit(X, y)
    parts = model_of(kind, variant, **params)
    size = 32 if "batch_size" not in VARIANTS[variant] else 30
    for start in range(0, 120, size):
        piece = slice(start, start + size)
        parts.partial_fit(X[piece], y[piece], **options(kind))
    assert file_of(whole) == file_of(parts)
    once = model_of(kind, variant, **params).partial_fit(X, y, **options(kind))
    assert file_of(whole) == file_of(once)


@pytest.mark.parametrize("begun", ["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_first_rows_say_what_zeros_mean(variant: str, kind: str, begun: str) -> None:
    X, scores = rows()
    y = targets(kind, scores)
    first = sparse.csr_array(X[:32]) if begun == "sparse" else X[:32]
    dense, thin = (model_of(kind, variant) for _ in range(2))
    for model, table in ((dense, X), (thin, sparse.coo_array(X).tocsr())):
        model.partial_fit(first, y[:32], **options(kind))
        model.partial_fit(table[32:], y[32:])
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(thin.intercept_, dense.intercept_, rtol=1e-9, atol=1e-12)
    predicted, again = dense.predict(X), dense.predict(sparse.coo_array(X))
    if kind.startswith("number"):
        np.testing.assert_allclose(again, predicted, atol=1e-12)
    else:
        np.testing.assert_array_equal(again, predicted)


@pytest.mark.parametrize("kind", ["multiclass", "number"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sparse_columns_are_divided_by_their_entries(kind: str, variant: str) -> None:
    """Units of sparse columns do not matter, and rare columns do not become long."""
    X, scores = rows(200)
    X[:, 4] *= np.random.default_rng(3).random(200) < 0.05
    y = targets(kind, scores)
    factors = 10.0 ** np.array([-20.0, 3.0, 0.0, 5.0, -4.0])
    models = [model_of(kind, variant).fit(sparse.csr_array(X * u), y) for u in (1.0, factors)]
    units = models[0]._learned.state.units
    sizes = [np.sqrt(np.square(column[column != 0]).mean()) for column in X.T]
    wanted = np.array(sizes) * np.sqrt((X != 0).sum(axis=1).mean())
    if variant not in ("hard", "sampled"):  # these pass once, in units that follow
        np.testing.assert_allclose(units.unit, wanted, rtol=1e-9)
    assert not units.origin.any()
    factor_pair = zip(models, (1, factors), strict=True)
    one, two = (model.predict(sparse.csr_array(X * factor)) for model, factor in factor_pair)
    if kind == "number":
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(two, one)


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
    plain = {"loss": "averaging", "slack": "linear", "batch_size": 1, "max_iter": 1}
    sorted_score = Classifier(shuffle=False, **plain).fit(X, y).score(X, y)
    assert Classifier(random_state=0, **plain).fit(X, y).score(X, y) > sorted_score
    once = Classifier(random_state=0, max_iter=1).fit(X, y)
    assert once.n_samples_seen_ == 150
    assert once.n_iter_ == 1


# ------------------------------------------------------------------ passes and units


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_units_of_columns_and_numbers_do_not_matter(kind: str, variant: str) -> None:
    """Predictions in other units are the same predictions, after `fit` and in a stream."""
    X, scores = rows()
    y = targets(kind, scores)
    numbers = kind.startswith("number")
    units, level = 10.0 ** np.array([-20.0, 3.0, 0.0, 5.0, -4.0]), 5.0 * (variant != "no intercept")
    factor, origin = (1e6, 1e7 * (variant != "no intercept")) if numbers else (1, 0)
    moved_y = factor * y + origin if numbers else y
    moved = (X + level) * units
    for stream in (False, True):
        one, two = model_of(kind, variant), model_of(kind, variant)
        for model, table, goals in ((one, X, y), (two, moved, moved_y)):
            if not stream:
                model.fit(table, goals)
                continue
            for start in range(0, 120, 40):
                piece = slice(start, start + 40)
                model.partial_fit(table[piece], goals[piece], **options(kind))
        if numbers:
            got = (two.predict(moved) - origin) / factor
            np.testing.assert_allclose(got, one.predict(X), rtol=1e-4, atol=1e-4)
            shown = moved @ np.atleast_2d(two.coef_).T + two.intercept_
            np.testing.assert_allclose(np.squeeze(shown), two.predict(moved), rtol=1e-6)
        else:
            assert np.mean(two.predict(moved) == one.predict(X)) > 0.99


@pytest.mark.parametrize("kind", KINDS)
def test_fit_makes_passes_until_scores_settle(kind: str) -> None:
    """In the end, batches and order do not matter."""
    X, scores = rows()
    y = targets(kind, scores)
    models = [
        model_of(kind, "default", batch_size=size, random_state=seed, tol=1e-6).fit(X, y)
        for seed, size in enumerate((1, 7, 32, 120))
    ]
    for model in models:
        assert 1 < model.n_iter_ < 1000
        assert model.n_samples_seen_ == 120
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-3)
    with pytest.warns(NotConvergedWarning, match=r"max_iter=2 .* tol=1e-06"):
        model_of(kind, "default", max_iter=2, tol=1e-6).fit(X, y)


def test_a_stream_goes_on_from_a_fit() -> None:
    X, scores = rows(300)
    model = Regressor().fit(X[:100], scores[:100])
    for start in range(100, 300, 50):
        model.partial_fit(X[start : start + 50], scores[start : start + 50])
    assert model.n_samples_seen_ == 300
    whole = Regressor().fit(X, scores)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.02)
    np.testing.assert_allclose(model.coef_variance_, whole.coef_variance_, rtol=0.2)


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


@pytest.mark.parametrize(("n", "form"), [(299, "full"), (300, "diag")])
def test_wide_rows_have_independent_weights(n: int, form: str) -> None:
    X = np.random.default_rng(0).normal(size=(8, n))
    model = Classifier().partial_fit(X, np.arange(8) % 2, classes=[0, 1])
    assert isinstance(model._learned.state.belief, DiagonalBelief) == (form == "diag")


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
        ("number", ["1"] * 30, "expected numbers"),
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
        ({"slack": "none"}, "slack.*gibbs"),
        ({"slack": "squared", "inference": "sampled"}, "slack.*sampled"),
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
        Classifier(loss="averaging", slack="none", batch_size=2).fit(*load_iris(return_X_y=True))


def test_weights_that_overflow_are_refused() -> None:
    X, scores = rows(30)
    X[20] = 1e-160
    hard = {"loss": "averaging", "slack": "none", "batch_size": 1, "fit_intercept": False}
    model = Regressor(**hard)
    with pytest.raises(ValueError, match="Regressor cannot learn from X"):
        model.fit(X, scores)
    assert not hasattr(model, "_learned")


def test_clone_and_pickle() -> None:
    X, scores = rows(30)
    model = model_of("multiclass", "full").fit(X, targets("multiclass", scores))
    assert not hasattr(clone(model), "_learned")
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
