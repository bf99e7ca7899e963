"""`everlearn warmup`."""

import pytest


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        (["ppca"], ["OnlinePPCA"]),
        (
            ["classifier", "ppca"],
            ["MedLDAClassifier", "BayesianPassiveAggressiveClassifier", "OnlinePPCA"],
        ),
    ],
)
def test_each_estimator_of_a_kind_is_named(invoke, kinds, names):
    result = invoke("warmup", *kinds)
    assert result.exit_code == 0, result.stderr
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == names


def test_an_unknown_kind_is_refused(invoke):
    assert invoke("warmup", "nonsense").exit_code == 2
