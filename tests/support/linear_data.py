"""Rows and targets of every kind for the tests of linear models."""

from typing import Any

import numpy as np

from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier as Classifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor

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
