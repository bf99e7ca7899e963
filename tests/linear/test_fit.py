"""Passes of `fit` and calls of `partial_fit`."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from everlearn.errors import NotConvergedWarning
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier as Classifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor
from support.linear_data import KINDS, VARIANTS, model_of, options, rows, targets
from support.streams import file_of


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


def test_order_of_visits_is_shuffled_by_fit_alone() -> None:
    X, y = load_iris(return_X_y=True)  # sorted by class
    plain = {"loss": "averaging", "slack": "linear", "batch_size": 1, "max_iter": 1}
    sorted_score = Classifier(shuffle=False, **plain).fit(X, y).score(X, y)
    assert Classifier(random_state=0, **plain).fit(X, y).score(X, y) > sorted_score
    once = Classifier(random_state=0, max_iter=1).fit(X, y)
    assert once.n_samples_seen_ == 150
    assert once.n_iter_ == 1


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


def test_weights_that_overflow_are_refused() -> None:
    X, scores = rows(30)
    X[20] = 1e-160
    hard = {"loss": "averaging", "slack": "none", "batch_size": 1, "fit_intercept": False}
    model = Regressor(**hard)
    with pytest.raises(ValueError, match="Regressor cannot learn from X"):
        model.fit(X, scores)
    assert not hasattr(model, "_learned")
