"""scikit-learn's own checks of every estimator, with each expected failure and its reason."""

from collections.abc import Callable
from typing import Any

import pytest

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.clusters.estimator import Clusters
from everlearn.components.estimator import ComponentTree
from everlearn.components.settings import ComponentTreeOptions
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.scaled import ScaledPCA
from everlearn.registry import ESTIMATORS
from everlearn.testing.checks import scikit_learn_checks
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.topic_model import TopicModel
from everlearn.trees.estimator import TopicTree

NOT_CHECKED = {"ImagePipeline": "it takes images, and scikit-learn has no checks with images"}
LINEAR: list[dict[str, Any]] = [
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
PLAIN = [
    DPMixture(),
    DPMixture(family="full"),
    DPMixture(family="zero-mean"),
    DPMixture(learner="stochastic"),
    DPMixture(dtype="float32"),
    DPMixture(memory_budget="4MB"),
    Clusters(),
    Clusters(n_clusters=2),
    TopicModel(n_topics=5),
    TopicModel(n_topics="infer"),
    MedLDAClassifier(),
    MedLDAClassifier(strategy="ovr"),
    MedLDAClassifier(word_weights=True),
    MedHDPClassifier(),
    MedLDARegressor(),
    MedLDARegressor(loss="gibbs"),
    TopicTree(n_sweeps=5),
    TopicTree(n_sweeps=2, learning="memoized", options={"merge": False}),
    TopicTree(learning="stream", options={"stream_sweeps": 2}),
    *[BayesianPassiveAggressiveClassifier(**params) for params in LINEAR],
    *[BayesianPassiveAggressiveRegressor(**params) for params in LINEAR],
    ComponentTree(max_nodes=8, options={"patience": 1}, engine="serial"),
    ComponentTree(
        depth=2,
        max_nodes=4,
        tol=1e-3,
        engine="serial",
        options=ComponentTreeOptions(patience=1),
    ),
    OnlinePPCA(),
    OnlinePPCA(constraint=None, batch_size=5),
    OnlinePPCA(constraint="task", fit_method="em", max_iter=2000),
    OnlinePPCA(constraint="previous", constraint_weight=2.0),
    OnlinePPCA(n_mixtures=2, random_state=0, tol=0.1),
    ScaledPCA(n_components=2),
    ScaledPCA(batch_size=7),
]
WITH_PROBABILITIES = [
    MedLDAClassifier(loss="gibbs"),
    MedLDAClassifier(loss="gibbs", strategy="ovr"),
    MedHDPClassifier(loss="gibbs"),
]
NEGATIVE_NUMBERS = {
    "check_decision_proba_consistency": "it sends negative numbers, whatever the tags say, and "
    "these models learn from counts"
}
CLUMPED = [
    ClumpedTopicModel(),
    ClumpedTopicModel(family="diagonal"),
    ClumpedTopicModel(family="multinomial"),
]
A_ROW_PER_DOCUMENT = dict.fromkeys(
    (
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    ),
    "a table without groups is one document, which has one mixture of topics, not one a row",
)
COUNTS = DPMixture(family="multinomial")
TAKEN_FOR_A_CLASSIFIER = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"),
    "it takes whatever has `predict_proba` for a classifier of four classes; no tag helps",
)


class WithoutProbabilities(DPMixture):
    """A mixture without the method that the checks of sparse input misread.

    `test_sparse_input_of_any_format` in `tests/mixture` tests these probabilities.
    """

    @property
    def predict_proba(self) -> Any:
        raise AttributeError("hidden from a check that is meant for classifiers")


CHECKED = [
    *scikit_learn_checks(PLAIN),
    *scikit_learn_checks(WITH_PROBABILITIES, NEGATIVE_NUMBERS),
    *scikit_learn_checks(CLUMPED, A_ROW_PER_DOCUMENT),
    *scikit_learn_checks([COUNTS], TAKEN_FOR_A_CLASSIFIER),
    *[
        part
        for part in scikit_learn_checks([WithoutProbabilities(family="multinomial")])
        if str(part.id).endswith(tuple(TAKEN_FOR_A_CLASSIFIER))
    ],
]


@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
@pytest.mark.parametrize(("estimator", "check"), CHECKED)
def test_contract(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_every_estimator_is_checked() -> None:
    checked = {type(part.values[0]).__name__ for part in CHECKED} - {"WithoutProbabilities"}
    assert checked | NOT_CHECKED.keys() == {entry.name for entry in ESTIMATORS}
