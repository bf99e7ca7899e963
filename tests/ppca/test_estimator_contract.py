"""scikit-learn's own battery for `OnlinePPCA`, none expected to fail."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.ppca.estimator import OnlinePPCA

VARIANTS: list[dict[str, Any]] = [
    {},
    {"constraint": None, "batch_size": 5},
    {"constraint": "task", "solver": "em", "fit_method": "em", "max_iter": 2000},
    {"constraint": "previous", "constraint_form": "gain", "constraint_weight": 2.0},
    {"n_mixtures": 2, "random_state": 0, "tol": 0.1},
]


@parametrize_with_checks([OnlinePPCA(**params) for params in VARIANTS])
def test_scikit_learn_contract(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    check(estimator)
