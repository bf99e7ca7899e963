"""Models learned apart become one: statistics add, whoever learned them."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

import everlearn
from everlearn.core.families.recentred import recentred
from everlearn.core.stats import Stats
from everlearn.estimator.merging import merge
from everlearn.images.pipeline import image_pipeline
from everlearn.linear.classifier import (
    BayesianPassiveAggressiveClassifier,
)
from everlearn.linear.regressor import (
    BayesianPassiveAggressiveRegressor,
)
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.merging import sealed_state
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.topic_model import TopicModel
from support.corpora import LABELS as CORPUS_LABELS
from support.corpora import X as COUNTS

RNG = np.random.default_rng(5)
LABELS = RNG.integers(3, size=900)
POINTS = np.array([-10.0, 0.0, 10.0])[LABELS, None] + RNG.normal(size=(900, 3))
FAMILIES = ("diagonal", "full", "zero-mean")


def fitted(X, **params):
    return DPMixture(random_state=0, engine="serial", **params).fit(X)


def mass(model):
    return model._learned.state.total


def recentred_sum(model, other):
    """The first feature of all rows, added up, from the origin of another model."""
    state = model._learned.state
    family, origin = state.model.family, other._learned.state.model.family.origin
    return recentred(family, state.total, origin).t.sum(axis=0)[0]


class TestMixtures:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_everything_counts_once(self, family):
        shards = [fitted(part, family=family) for part in np.split(POINTS, 3)]
        both = merge(shards)
        assert both.n_samples_seen_ == 900
        assert_allclose(mass(both).n.sum(), 900, rtol=1e-12)
        assert_allclose(mass(both).base, sum(mass(s).base for s in shards), rtol=1e-12)
        if family != "zero-mean":
            assert_allclose(both.weights_ @ both.means_, POINTS.mean(axis=0), atol=0.15)

    def test_components_of_different_models_find_each_other(self):
        shards = [fitted(part) for part in np.split(POINTS, 3)]
        both = merge(shards)
        assert both.n_components_ == 3
        assert adjusted_rand_score(LABELS, both.predict(POINTS)) == 1.0
        whole = fitted(POINTS, prior="data")
        assert_allclose(np.sort(both.means_[:, 0]), np.sort(whole.means_[:, 0]), atol=1e-2)

    def test_joining_raises_the_bound(self):
        shards = [fitted(part) for part in np.split(POINTS, 3)]
        joined = [m for m in merge(shards).history_.moves if m.kind == "merge"]
        assert len(joined) == 6
        assert all(move.gain > 0 for move in joined)

    def test_a_base_counts_once_and_ids_match(self):
        base = fitted(POINTS[:300])
        shards = [
            copy.deepcopy(base).set_params(moves=()).partial_fit(part)
            for part in (POINTS[300:600], POINTS[600:])
        ]
        both = merge(shards, base=base.set_params(moves=()))
        assert both.n_samples_seen_ == 900
        assert_array_equal(np.sort(both.component_ids_), np.sort(base.component_ids_))
        expected = fitted(POINTS[:300]).set_params(moves=())
        expected.partial_fit(POINTS[300:])
        assert_allclose(mass(both).n.sum(), 900, rtol=1e-12)
        order = np.argsort(mass(both).ids), np.argsort(mass(expected).ids)
        assert_allclose(mass(both).n[order[0]], mass(expected).n[order[1]], rtol=1e-6)
        assert_allclose(mass(both).t[order[0]], mass(expected).t[order[1]], rtol=1e-6, atol=1e-6)

    def test_no_more_components_than_allowed(self):
        """Those that cost least are joined, if the bound would rather keep them apart."""
        shards = [
            fitted(part + shift, max_components=2) for part, shift in ((POINTS, 0), (POINTS, 50))
        ]
        assert [shard.n_components_ for shard in shards] == [2, 2]
        both = merge(shards)
        assert both.n_components_ == 2
        assert_allclose(np.sort(mass(both).n), [900, 900], rtol=1e-9)
        assert np.isfinite(both.bound_)

    def test_batches_keep_their_names(self):
        def taught(*names):
            model = DPMixture(random_state=0, engine="serial", moves=("merge",))
            for name in names:
                start = 100 * "abcdef".index(name)
                model.partial_fit(POINTS[start : start + 100], batch_id=name)
            return model

        both = merge([taught("a", "b"), taught("c", "d")])
        assert both.forget("b").n_samples_seen_ == 300
        assert_allclose(mass(both).n.sum(), 300, rtol=1e-9)
        assert_allclose(
            both.weights_ @ both.means_,
            POINTS[[*range(100), *range(200, 400)]].mean(axis=0),
            atol=0.2,
        )
        twice = merge([taught("a", "b"), taught("a", "c")])  # one batch, as in partial_fit
        assert twice.forget("a").n_samples_seen_ == 200

    def test_batches_of_the_base_count_once(self):
        base = DPMixture(random_state=0, engine="serial", moves=())
        base.partial_fit(POINTS[:100], batch_id="old").partial_fit(POINTS[100:300])
        base._learned = replace(base._learned, state=sealed_state(base))
        shards = [
            copy.deepcopy(base).partial_fit(POINTS[i : i + 100], batch_id=i) for i in (300, 400)
        ]
        both = merge(shards, base=base)
        assert both.n_samples_seen_ == 500
        assert both.forget("old").n_samples_seen_ == 400
        assert_allclose(mass(both).n.sum(), 400, rtol=1e-9)
        assert both.forget(300).n_samples_seen_ == 300
        for shard in shards:
            shard.forget("old")
        with pytest.raises(ValueError, match="batch 'old' was forgotten in more than one"):
            merge(shards, base=base)

    def test_priors_with_arrays(self):
        prior = {"mean": np.zeros(3)}
        shards = [fitted(part, prior=dict(prior)) for part in np.split(POINTS, 2)]
        assert merge(shards).n_samples_seen_ == 900
        shards[1].set_params(prior={"mean": np.ones(3)})
        with pytest.raises(ValueError, match=r"same parameters\. Got 'prior'"):
            merge(shards)

    def test_a_base_whose_rows_are_not_there(self):
        params = {"family": "zero-mean", "prior": {"scale": np.eye(3)}, "moves": ()}
        few, many = (fitted(part, **params) for part in (POINTS[:20], POINTS[20:]))
        with pytest.raises(ValueError, match="'base' that all models began as copies of"):
            merge([few, few], base=many)

    def test_a_base_must_be_what_all_began_as(self):
        base = fitted(POINTS[:100])
        copied = copy.deepcopy(base).partial_fit(POINTS[100:200])
        with pytest.raises(ValueError, match=r"'base' that all models began .* Model 1 did not"):
            merge([copied, fitted(POINTS[300:])], base=base)

    def test_models_stay_as_they_are_and_the_new_one_goes_on(self, tmp_path):
        shards = [fitted(part) for part in np.split(POINTS, 2)]
        before = [pickle.dumps(s.to_checkpoint()[1]) for s in shards]
        both = merge(shards)
        assert [pickle.dumps(s.to_checkpoint()[1]) for s in shards] == before
        both.save(tmp_path / "m.evl")
        again = everlearn.load(tmp_path / "m.evl")
        assert both.partial_fit(POINTS).bound_ == again.partial_fit(POINTS).bound_
        assert both.n_samples_seen_ == 1800

    def test_open_rows_are_sealed_first(self):
        shards = [DPMixture(random_state=0).partial_fit(part) for part in np.split(POINTS, 2)]
        assert merge(shards)._learned.state.n_open == 0

    def test_gaps_in_one_of_them(self):
        gaps = np.where(RNG.random((450, 3)) < 0.1, np.nan, POINTS[450:])
        both = merge([fitted(POINTS[:450]), fitted(gaps)])
        assert both.n_samples_seen_ == 900
        assert np.isfinite(both.bound_)


@pytest.mark.parametrize("missing", [False, True])
def test_other_origins_give_the_statistics_of_other_features(missing):
    X = POINTS.copy()
    X[3, 1] = np.nan if missing else X[3, 1]
    for kind in ("diagonal", "full"):
        if missing and kind == "full":
            continue
        one, two = (fitted(X[i : i + 450], family=kind, moves=()) for i in (0, 450))
        f1, f2 = one._learned.state.model.family, two._learned.state.model.family
        if missing:
            f1, f2 = replace(f1, missing=True), replace(f2, missing=True)
        r = RNG.random((900, 2))

        def stats(family, r=r):
            t = r.T @ family.features(X)
            return Stats(np.arange(2), r.sum(axis=0), t, np.zeros(2), 0.0)

        found, expected = recentred(f2, stats(f2), f1.origin), stats(f1)
        assert_allclose(found.t, expected.t, rtol=1e-9, atol=1e-8)


GIBBS = {"loss": "gibbs", "covariance": "full", "random_state": 0}


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

    def test_a_base_with_open_rows(self):
        base = DPMixture(random_state=0).partial_fit(POINTS)
        with pytest.raises(ValueError, match=r"base without open rows.*Got 900"):
            merge([copy.deepcopy(base), copy.deepcopy(base)], base=base)


def test_classes_are_not_merged_with_columns_of_an_indicator():
    """Both are called 0 and 1, and have one and two tasks."""
    y = (CORPUS_LABELS[0] == CORPUS_LABELS).astype(int)
    two = MedLDAClassifier(n_topics=4, loss="gibbs", random_state=0).fit(COUNTS, y)
    columns = MedLDAClassifier(n_topics=4, loss="gibbs", random_state=0)
    columns.fit(COUNTS, np.stack([1 - y, y], axis=1))
    with pytest.raises(ValueError, match=r"same kind of labels\. Got binary and multilabel"):
        merge([two, columns])
