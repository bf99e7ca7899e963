"""Names of scikit-learn, gensim and papers: the error says what everlearn has instead."""

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.clusters.estimator import Clusters
from everlearn.components.estimator import ComponentTree
from everlearn.estimator import other_names
from everlearn.images.textures import HOG
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.scaled import ScaledPCA
from everlearn.registry import ESTIMATORS
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.topic_model import TopicModel
from everlearn.trees.estimator import TopicTree

CLASSES: list[Any] = [e.estimator() for e in ESTIMATORS if e.name != "ImagePipeline"]
LIMITED = "it finds the number; use max_components to limit it"
NODES = "it finds the number; use max_nodes to limit it, and depth for the levels"
CORES = 'use engine: None takes all cores, "serial" takes one'
PARAMETERS: list[tuple[Any, str, str]] = [
    (DPMixture, "n_components", LIMITED),
    (DPMixture, "n_clusters", LIMITED),
    (DPMixture, "n_topics", LIMITED),
    (Clusters, "n_components", "use n_clusters"),
    (Clusters, "eps", "look at levels_, and use n_clusters or cut"),
    (DPMixture, "covariance_type", 'use family="diagonal" or family="full"'),
    (DPMixture, "max_iter", "use max_laps"),
    (DPMixture, "alpha", "use concentration"),
    (DPMixture, "weight_concentration_prior", "use concentration"),
    (DPMixture, "reg_covar", "use prior, a mapping; see docs/ask/priors.md"),
    (DPMixture, "init_params", "it finds where to begin by itself"),
    (DPMixture, "init_components", "it finds where to begin by itself"),
    (DPMixture, "n_init", "it finds where to begin by itself"),
    (DPMixture, "n_jobs", CORES),
    (DPMixture, "min_cluster_size", "it keeps small clusters if they raise the evidence; see"),
    (DPMixture, "seed", "use random_state"),
    (DPMixture, "warm_start", "use partial_fit to go on learning"),
    (DPMixture, "max_component", "did you mean max_components?"),
    (DPMixture, "colour", "its parameters are family, prior, "),
    (TopicModel, "n_components", "use n_topics"),
    (TopicModel, "max_iter", "use n_passes"),
    (TopicModel, "alpha", "use options={'doc_topic_prior': ...}"),
    (TopicModel, "eta", "use options={'topic_word_prior': ...}"),
    (TopicModel, "beta", "use options={'topic_word_prior': ...}"),
    (TopicModel, "doc_topic_prior", "use options={'doc_topic_prior': ...}"),
    (TopicModel, "max_features", "use text={'max_features': ...}"),
    (TopicModel, "learning_decay", "batches count alike; use retention to let old ones fade"),
    (TopicTree, "n_components", NODES),
    (TopicTree, "alpha", "use level_prior"),
    (TopicTree, "eta", "use topic_word_prior"),
    (TopicTree, "gamma", "use concentration"),
    (MedLDAClassifier, "n_components", "use n_topics"),
    (MedLDAClassifier, "n_jobs", CORES),
    (MedLDARegressor, "alpha", "use options={'doc_topic_prior': ...}"),
    (MedHDPClassifier, "n_topics", "it finds the number; use max_topics to limit it"),
    (MedHDPClassifier, "alpha", "use options={'concentration': ...}"),
    (ClumpedTopicModel, "n_topics", "it finds the number; a higher topic_price gives fewer topics"),
    (ClumpedTopicModel, "covariance_type", 'use family="diagonal" or family="full"'),
    (ClumpedTopicModel, "max_iter", "it visits each document once"),
    (ClumpedTopicModel, "alpha", "it learns alpha, and reports it as alpha_"),
    (ComponentTree, "n_components", NODES),
    (ComponentTree, "min_gain", "use options={'min_gain': ...}"),
    (OnlinePPCA, "n_clusters", "use n_mixtures"),
    (OnlinePPCA, "covariance_type", "a covariance has n_components directions and equal noise in"),
    (OnlinePPCA, "n_jobs", CORES),
    (ScaledPCA, "n_component", "did you mean n_components?"),
    (BayesianPassiveAggressiveClassifier, "alpha", "use C, which is larger for less"),
    (BayesianPassiveAggressiveClassifier, "n_jobs", CORES),
    (BayesianPassiveAggressiveRegressor, "learning_rate", "it has no learning rate; a smaller C"),
    (BayesianPassiveAggressiveRegressor, "penalty", "use variance, the prior variance of a weight"),
    (HOG, "n_job", "did you mean n_jobs?"),
]
POSITIONS = "use component_ids_[transform(X).argmax(axis=1)]"
GIBBS = 'it needs loss="gibbs"; with other losses use decision_function'
AVERAGING = BayesianPassiveAggressiveClassifier(loss="averaging")
ATTRIBUTES: list[tuple[Any, str, str]] = [
    (DPMixture(), "components_", "use means_"),
    (DPMixture(), "cluster_centers_", "use means_"),
    (DPMixture(), "n_clusters_", "use n_components_"),
    (DPMixture(), "precisions_", "use numpy.linalg.inv(covariances_)"),
    (DPMixture(), "lower_bound_", "use bound_"),
    (DPMixture(), "bic", "use bound_"),
    (DPMixture(), "decision_function", "use score_samples(X)"),
    (DPMixture(), "predict_log_proba", "use numpy.log(predict_proba(X))"),
    (DPMixture(), "n_features_", "use n_features_in_"),
    (DPMixture(), "load", "use everlearn.load(path)"),
    (TopicModel(), "labels_", POSITIONS),
    (TopicModel(), "predict", POSITIONS),
    (TopicModel(), "topic_word_", "use components_"),
    (TopicModel(), "weights_", "use topic_shares_"),
    (TopicModel(), "print_topics", "use top_words(10)"),
    (TopicTree(), "show_topics", "use top_words(10)"),
    (MedLDAClassifier(), "get_topics", "use components_"),
    (TopicTree(), "predict_proba", "use transform(X)"),
    (MedLDAClassifier(loss="averaging"), "predict_proba", GIBBS),
    (MedHDPClassifier(loss="averaging"), "predict_proba", GIBBS),
    (AVERAGING, "predict_proba", GIBBS),
    (BayesianPassiveAggressiveRegressor(), "predict_proba", "use predict(X, return_std=True)"),
    (MedLDARegressor(), "predict_proba", "it predicts numbers; use predict(X)"),
    (AVERAGING, "labels_", "use predict(X)"),
    (AVERAGING, "components_", "use coef_"),
    (ClumpedTopicModel(), "labels_", "use assign(X)"),
    (ClumpedTopicModel(), "predict", "use assign(X)"),
    (ClumpedTopicModel(), "fit_predict", "use fit(X).assign(X)"),
    (ClumpedTopicModel(), "score_samples", "use score(X)"),
    (ComponentTree(), "labels_", "use predict(X)"),
    (ComponentTree(), "fit_predict", "use fit(X).predict(X)"),
    (OnlinePPCA(), "predict", "it needs n_mixtures=2 or more"),
    (OnlinePPCA(), "predict_proba", "it needs n_mixtures=2 or more"),
    (OnlinePPCA(), "covariances_", "use get_covariance()"),
    (OnlinePPCA(), "singular_values_", "use explained_variance_"),
]


@pytest.mark.parametrize(("kind", "name", "advice"), PARAMETERS)
def test_parameter(kind: Any, name: str, advice: str) -> None:
    with pytest.raises(TypeError) as constructed:
        kind(**{name: 5})
    with pytest.raises(ValueError) as changed:  # noqa: PT011
        kind().set_params(**{name: 5})
    for raised in (constructed, changed):
        assert str(raised.value).startswith(f"{kind.__name__} has no {name}: {advice}")


@pytest.mark.parametrize(("model", "name", "advice"), ATTRIBUTES)
def test_attribute(model: Any, name: str, advice: str) -> None:
    assert not hasattr(model, name)
    with pytest.raises(AttributeError) as raised:
        getattr(model, name)
    assert str(raised.value) == f"{type(model).__name__} has no {name}: {advice}"


def test_each_row_of_the_tables_helps_with_some_class() -> None:
    for name, ways in other_names._PARAMETERS.items():
        lacking = [c for c in CLASSES if name not in other_names.own_parameters(c)]
        assert any(other_names._advice(c, ways) for c in lacking), name
    for name, ways in other_names._ATTRIBUTES.items():
        assert any(other_names._advice(c, ways, skip=name) for c in CLASSES), name


def test_each_way_of_the_tables_exists() -> None:
    tables = (*other_names._PARAMETERS.values(), *other_names._ATTRIBUTES.values())
    for own, advice in {way for ways in tables for way in ways}:
        assert any(other_names._advice(c, ((own, advice),)) for c in CLASSES), own


@pytest.mark.parametrize("kind", CLASSES)
def test_parameters_by_place(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"{kind.__name__} takes its parameters by name.* Got.* 3 "):
        kind(2, 3)


@pytest.mark.parametrize("kind", CLASSES)
def test_what_needs_names_still_works(kind: Any) -> None:
    own = list(inspect.signature(kind).parameters)
    assert own == list(inspect.signature(kind.__init__).parameters)[1:]
    model = kind(**{"batch_size" if "batch_size" in own else "verbose": 7})
    for twin in (clone(model), copy.copy(model), copy.deepcopy(model)):
        assert twin.get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    blank = kind.__new__(kind)  # as unpickling begins
    with pytest.raises(AttributeError, match="has no attribute '_learned'"):
        blank._learned  # noqa: B018


def test_no_parameter_changes_if_a_name_is_wrong() -> None:
    model = DPMixture(tol=0.5)
    with pytest.raises(ValueError, match="has no n_components"):
        model.set_params(tol=0.1, n_components=3)
    assert model.tol == 0.5


def test_an_option_is_no_parameter() -> None:
    with pytest.raises(ValueError, match="has no options__n_sweeps: use options="):
        TopicModel().set_params(options__n_sweeps=3)


def test_in_a_grid_search() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), DPMixture()), {"dpmixture__n_components": [2, 3]}, cv=2
    )
    with pytest.raises(ValueError, match="DPMixture has no n_components: it finds the number"):
        search.fit(X)


def test_other_errors_of_attributes_stay_as_they_are() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        DPMixture().weights_  # noqa: B018
    with pytest.raises(AttributeError, match="'DPMixture' object has no attribute 'colour'") as e:
        DPMixture().colour  # noqa: B018
    assert e.value.name == "colour"
    model = ClumpedTopicModel().fit([np.eye(2)])
    with pytest.raises(AttributeError, match="only with track_documents=True"):
        model.document_groups_  # noqa: B018
