"""scikit-learn's own battery for `TopicTree`."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.trees.estimator import TopicTree


@parametrize_with_checks(
    [
        TopicTree(n_sweeps=5),
        TopicTree(
            n_sweeps=2, learning="memoized", options={"local": "meanfield", "moves": "paper"}
        ),
        TopicTree(learning="stream", options={"stream_sweeps": 2}),
    ]
)
def test_scikit_learn_contract(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    check(estimator)
