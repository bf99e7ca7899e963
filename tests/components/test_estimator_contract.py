"""scikit-learn's own battery for `ComponentTree`, none of it expected to fail."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.components.estimator import ComponentTree
from everlearn.components.settings import ComponentTreeOptions


@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
@parametrize_with_checks(
    [
        ComponentTree(max_nodes=8, options={"patience": 1}, engine="serial"),
        ComponentTree(
            depth=2,
            max_nodes=4,
            tol=1e-3,
            engine="serial",
            options=ComponentTreeOptions(local="meanfield", loadings="factorised", patience=1),
        ),
    ]
)
def test_scikit_learn_contract(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    check(estimator)
