"""scikit-learn's own battery for `ClumpedTopicModel`.

`transform` gives a row for each document, and a table without groups is one document. So the
checks that ask for a row per point, or for the same rows from parts of a table, cannot pass.
"""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.clumps.estimator import ClumpedTopicModel

A_ROW_PER_DOCUMENT = "a table is one document, which has one mixture of topics, not one a point"
EXPECTED = dict.fromkeys(
    (
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    ),
    A_ROW_PER_DOCUMENT,
)


def expected_failures(estimator: Any) -> dict[str, str]:
    return EXPECTED


@parametrize_with_checks(
    [
        ClumpedTopicModel(),
        ClumpedTopicModel(family="diagonal"),
        ClumpedTopicModel(family="multinomial"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    check(estimator)
