"""Models that cannot be merged are refused, and the message says what is not alike."""

import copy
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from everlearn.estimator.merge_checks import check_contains, check_grown, totals
from everlearn.estimator.merging import merge
from everlearn.images.pipeline import image_pipeline
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.topic_model import TopicModel
from support.corpora import LABELS as CORPUS_LABELS
from support.corpora import X as COUNTS

RNG = np.random.default_rng(5)
LABELS = RNG.integers(3, size=300)
POINTS = np.array([-10.0, 0.0, 10.0])[LABELS, None] + RNG.normal(size=(300, 3))
GIBBS = {"loss": "gibbs", "covariance": "full", "random_state": 0}


def fitted(X, **params):
    return DPMixture(random_state=0, engine="serial", **params).fit(X)


class TestOtherData:
    """Sums over other columns or other classes are sums of different things."""

    def test_classes(self):
        y = (POINTS[:, 0] > 0).astype(int)
        models = [
            BayesianPassiveAggressiveClassifier(**GIBBS).fit(POINTS, np.array(names)[y])
            for names in (("cat", "dog"), ("horse", "zebra"))
        ]
        with pytest.raises(
            ValueError, match=r"same classes.*\['cat', 'dog'\] and \['horse', 'zebra'\]"
        ):
            merge(models)

    @pytest.mark.parametrize(
        "make",
        [
            lambda X: fitted(X),
            lambda X: OnlinePPCA(n_components=1).fit(X),
            lambda X: TopicModel(n_topics=2, random_state=0).fit(X.abs().round().astype(int)),
            lambda X: BayesianPassiveAggressiveRegressor(**GIBBS).fit(
                X, X["a" if "a" in X else "x"]
            ),
        ],
        ids=["mixture", "ppca", "topics", "linear"],
    )
    def test_columns(self, make):
        models = [make(pd.DataFrame(POINTS, columns=list(names))) for names in ("abc", "cba")]
        with pytest.raises(ValueError, match=r"same feature names.*'a', 'b', 'c'.*'c', 'b', 'a'"):
            merge(models)
        narrow = make(pd.DataFrame(POINTS[:, :2], columns=["a", "b"]))
        with pytest.raises(ValueError, match=r"same width\. Got 3 and 2 features"):
            merge([models[0], narrow])


class TestRefusals:
    def test_too_few_or_not_alike(self):
        model = fitted(POINTS)
        with pytest.raises(ValueError, match=r"at least two models. Got 1"):
            merge([model])
        with pytest.raises(TypeError, match=r"one class. Got DPMixture and TopicModel"):
            merge([model, TopicModel(n_topics=2).fit(COUNTS[:9])])
        with pytest.raises(ValueError, match="fitted models"):
            merge([model, DPMixture()])
        with pytest.raises(ValueError, match=r"'concentration' of 1\.0 and 2\.0"):
            merge([model, fitted(POINTS, concentration=2.0)])
        with pytest.raises(ValueError, match="3 and 2 features"):
            merge([model, fitted(POINTS[:, :2])])

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: fitted(POINTS, learner="stochastic"), "learner='memoized'"),
            (lambda: TopicModel(n_topics="infer").fit(COUNTS[:9]), "n_topics=a number"),
            (lambda: TopicModel(n_topics=2, retention=0.9).fit(COUNTS[:9]), "retention=1.0"),
            (lambda: MedLDAClassifier(n_topics=4).fit(COUNTS[:40], LABELS[:40]), "loss='gibbs'"),
            (
                lambda: OnlinePPCA(n_components=1, constraint=None).fit(POINTS),
                "constraint='step' or 'task'",
            ),
            (
                lambda: BayesianPassiveAggressiveClassifier(loss="averaging").fit(
                    POINTS, LABELS > 1
                ),
                "loss='gibbs'",
            ),
        ],
    )
    def test_what_is_no_sum(self, make, words):
        with pytest.raises(ValueError, match=words):
            merge([make(), make()])

    def test_estimators_that_cannot_be_joined(self):
        models = [MedHDPClassifier().fit(COUNTS[:40], LABELS[:40]) for _ in range(2)]
        with pytest.raises(TypeError, match="merge cannot join MedHDPClassifier"):
            merge(models)

    def test_pipelines_and_models_that_are_no_list(self):
        pipeline = image_pipeline("hog")
        with pytest.raises(TypeError, match="merge cannot join ImagePipeline"):
            merge([pipeline, pipeline])
        for single in (DPMixture(), pipeline):
            kind = type(single).__name__
            with pytest.raises(TypeError, match=rf"merge needs a list of models\. Got a {kind}"):
                merge(single)
        with pytest.raises(TypeError, match=r"merge needs a list of models\. Got a int"):
            merge(3)

    def test_paths(self):
        with pytest.raises(TypeError, match=r"path 'a\.evl': read it first, by everlearn\.load"):
            merge(["a.evl", "b.evl"])


def test_classes_are_not_merged_with_columns_of_an_indicator():
    """Both are called 0 and 1, and have one and two tasks."""
    y = (CORPUS_LABELS[0] == CORPUS_LABELS).astype(int)
    two = MedLDAClassifier(n_topics=4, loss="gibbs", random_state=0).fit(COUNTS, y)
    columns = MedLDAClassifier(n_topics=4, loss="gibbs", random_state=0)
    columns.fit(COUNTS, np.stack([1 - y, y], axis=1))
    with pytest.raises(ValueError, match=r"same kind of labels\. Got binary and multilabel"):
        merge([two, columns])


@pytest.fixture(scope="module")
def model():
    return fitted(POINTS)


class TestParameters:
    """Parameters are compared by value; those of the machine may differ."""

    def test_engines_and_seeds_may_differ(self):
        one = fitted(POINTS)
        other = copy.deepcopy(one).set_params(engine="threads", random_state=7, verbose=0)
        assert merge([one, other]).n_samples_seen_ == 600

    @pytest.mark.parametrize("one", [3.0, {"a": [1, 2]}, np.zeros(2), "data", None])
    @pytest.mark.parametrize("other", [4.0, {"a": [1, 3]}, {"b": [1, 2]}, np.ones(2), np.zeros(3)])
    def test_others_may_not(self, one, other, model):
        models = [copy.copy(model) for _ in range(2)]
        models[0].concentration, models[1].concentration = one, other
        with pytest.raises(ValueError, match=r"same parameters\. Got 'concentration'"):
            merge(models)


class TestBase:
    SEEN: ClassVar = {"seed": 3, "rows": 100}

    @pytest.mark.parametrize("own", [{"seed": 3, "rows": 100}, {"seed": 3, "rows": 400}])
    def test_a_model_that_went_on(self, own):
        check_grown(0, own, self.SEEN)

    @pytest.mark.parametrize(
        ("own", "words"),
        [
            ({"seed": 4, "rows": 400}, "Model 2 did not: its seed is another"),
            ({"seed": 3, "rows": 99}, "Model 2 did not: it has 99 rows, the base 100"),
        ],
    )
    def test_a_model_that_began_otherwise(self, own, words):
        with pytest.raises(ValueError, match=words):
            check_grown(2, own, self.SEEN)

    def test_counts_contain_those_of_the_base_but_for_rounding(self):
        base = np.array([[1e6, 3.0]])
        check_contains(0, base - 1e-4, base, "words")
        check_contains(0, np.zeros((0, 2)), np.zeros((0, 2)), "words")
        for own in (base - [[0.0, 1.0]], base[:, :1]):
            with pytest.raises(ValueError, match="it does not contain words of the base"):
                check_contains(0, own, base, "words")

    def test_the_base_counts_once(self):
        base, new = np.array([5.0, 1.0]), [np.array([1.0, 0.0]), np.array([0.0, 2.0])]
        assert_array_equal(totals([base + one for one in new], base), [6.0, 3.0])
        assert_array_equal(totals(new, None), [1.0, 2.0])
        assert totals([3, 4], 1) == 6
