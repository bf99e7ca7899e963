"""scikit-learn's own battery for both estimators, none expected to fail."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.linear.classifier import (
    BayesianPassiveAggressiveClassifier,
)
from everlearn.linear.regressor import (
    BayesianPassiveAggressiveRegressor,
)

VARIANTS: list[dict[str, Any]] = [
    {},
    {"loss": "averaging"},
    {"loss": "averaging", "slack": "linear", "batch_size": 1},
    {"loss": "averaging", "slack": "none", "batch_size": 1},
    {"slack": "linear"},
    {"batch_size": 8},
    {"fit_intercept": False, "max_iter": 100},
    {"covariance": "diag"},
    {"slack": "linear", "inference": "sampled", "batch_size": 16},
    {"slack": "linear", "covariance": "diag", "batch_size": 16},
]


@parametrize_with_checks(
    [BayesianPassiveAggressiveClassifier(**params) for params in VARIANTS]
    + [BayesianPassiveAggressiveRegressor(**params) for params in VARIANTS]
)
def test_scikit_learn_contract(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    check(estimator)
