"""scikit-learn's own battery for `ComponentTree`, none of it expected to fail."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.components.estimator import ComponentTree


@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
@parametrize_with_checks(
    [
        ComponentTree(max_nodes=8, patience=1, engine="serial"),
        ComponentTree(
            depth=2, max_nodes=4, patience=1, local="meanfield", loadings="factorised", tol=1e-3,
            engine="serial",
        ),
    ]
)  # fmt: skip
def test_scikit_learn_contract(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    check(estimator)
