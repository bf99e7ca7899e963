"""scikit-learn's own battery for the topic models, with a single expected failure."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.topic_model import TopicModel

TOPIC_MODELS = [
    TopicModel(n_topics=5),
    TopicModel(n_topics="infer"),
    MedLDAClassifier(),
    MedLDAClassifier(loss="gibbs"),
    MedLDAClassifier(strategy="ovr"),
    MedLDAClassifier(loss="gibbs", strategy="ovr"),
    MedLDAClassifier(word_weights=True),
    MedHDPClassifier(),
    MedHDPClassifier(loss="gibbs"),
    MedLDARegressor(),
    MedLDARegressor(loss="gibbs"),
]


def expected_failures(estimator: Any) -> dict[str, str]:
    if not (hasattr(estimator, "decision_function") and hasattr(estimator, "predict_proba")):
        return {}
    reason = "it sends negative numbers, which are no counts, whatever the tags say"
    return {"check_decision_proba_consistency": reason}


@parametrize_with_checks(TOPIC_MODELS, expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    check(estimator)
