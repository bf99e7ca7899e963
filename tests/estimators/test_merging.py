"""Models learned apart become one: statistics add, whoever learned them."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

import everlearn
from estimators.corpora import TOKENS
from estimators.corpora import X as COUNTS
from everlearn.core.families.recentred import recentred
from everlearn.core.stats import Stats
from everlearn.estimators.merging import merge
from everlearn.estimators.mixture import DPMixture
from everlearn.estimators.passive_aggressive import BayesianPassiveAggressiveClassifier
from everlearn.estimators.ppca import OnlinePPCA
from everlearn.estimators.supervised import MedLDAClassifier
from everlearn.estimators.topics import TopicModel

RNG = np.random.default_rng(5)
LABELS = RNG.integers(3, size=900)
POINTS = np.array([-10.0, 0.0, 10.0])[LABELS, None] + RNG.normal(size=(900, 3))
FAMILIES = ("diagonal", "full", "zero-mean")


def fitted(X, **params):
    return DPMixture(random_state=0, engine="serial", **params).fit(X)


def mass(model):
    return model._learned.state.total


class TestMixtures:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_everything_counts_once(self, family):
        shards = [fitted(part, family=family) for part in np.split(POINTS, 3)]
        both = merge(shards)
        assert both.n_rows_seen_ == 900
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
        assert both.n_rows_seen_ == 900
        assert_array_equal(np.sort(both.component_ids_), np.sort(base.component_ids_))
        expected = fitted(POINTS[:300]).set_params(moves=())
        expected.partial_fit(POINTS[300:])
        assert_allclose(mass(both).n.sum(), 900, rtol=1e-12)
        order = np.argsort(mass(both).ids), np.argsort(mass(expected).ids)
        assert_allclose(mass(both).n[order[0]], mass(expected).n[order[1]], rtol=1e-6)
        assert_allclose(mass(both).t[order[0]], mass(expected).t[order[1]], rtol=1e-6, atol=1e-6)

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
        assert both.n_rows_seen_ == 1800

    def test_open_rows_are_sealed_first(self):
        shards = [DPMixture(random_state=0).partial_fit(part) for part in np.split(POINTS, 2)]
        assert merge(shards)._learned.state.n_open == 0

    def test_gaps_in_one_of_them(self):
        gaps = np.where(RNG.random((450, 3)) < 0.1, np.nan, POINTS[450:])
        both = merge([fitted(POINTS[:450]), fitted(gaps)])
        assert both.n_rows_seen_ == 900
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
            from dataclasses import replace

            f1, f2 = replace(f1, missing=True), replace(f2, missing=True)
        r = RNG.random((900, 2))

        def stats(family, r=r):
            t = r.T @ family.features(X)
            return Stats(np.arange(2), r.sum(axis=0), t, np.zeros(2), 0.0)

        found, expected = recentred(f2, stats(f2), f1.origin), stats(f1)
        assert_allclose(found.t, expected.t, rtol=1e-9, atol=1e-8)


class TestTopics:
    def test_counts_add_and_topics_find_each_other(self):
        whole = TopicModel(n_topics=4, n_passes=5, random_state=0).fit(COUNTS)
        shards = [copy.deepcopy(whole) for _ in range(2)]
        order = np.array([2, 0, 3, 1])
        state = shards[1]._learned.states[0]
        state.counts[:] = state.counts[:, order]
        both = merge(shards)
        assert_allclose(
            both.components_ - both.word_prior, 2 * (whole.components_ - whole.word_prior)
        )
        assert both._learned.n_documents == 2 * whole._learned.n_documents

    def test_words_are_told_apart_by_name(self):
        shards = [
            TopicModel(n_topics=3, random_state=0).fit(part) for part in (TOKENS[:9], TOKENS[9:60])
        ]
        both = merge(shards)
        masses = (both.components_ - both.word_prior).sum(axis=0)
        counts = dict(zip(both.vocabulary_, masses, strict=True))
        for word in ("word00", "word17"):
            assert_allclose(counts[word], sum(doc.count(word) for doc in TOKENS[:60]), rtol=1e-9)

    def test_a_base_counts_once(self):
        base = TopicModel(n_topics=4, random_state=0).fit(COUNTS[:100])
        shards = [copy.deepcopy(base).partial_fit(COUNTS[i : i + 50]) for i in (100, 150)]
        both = merge(shards, base=base)
        assert_allclose(
            (both.components_ - both.word_prior).sum(axis=0),
            np.asarray(COUNTS[:200].sum(axis=0)).ravel(),
            rtol=1e-9, atol=1e-9,
        )  # fmt: skip
        assert both._learned.n_documents == 200


class TestOthers:
    def test_moments_add(self):
        params = {"n_components": 2, "constraint": "step", "kept_components": 3, "random_state": 0}
        shards = [OnlinePPCA(**params).fit(part) for part in np.split(POINTS, 3)]
        both, whole = merge(shards), OnlinePPCA(**params).fit(POINTS)
        assert_allclose(both.mean_, whole.mean_, rtol=1e-9, atol=1e-12)
        assert_allclose(both.score(POINTS), whole.score(POINTS), rtol=1e-9)

    def test_gaussian_weights_add(self):
        y = (POINTS[:, 0] > 0).astype(int)
        params = {"loss": "gibbs", "covariance": "full", "random_state": 0, "variance": 2.0}
        shards = [
            BayesianPassiveAggressiveClassifier(**params).fit(POINTS[i::2], y[i::2])
            for i in range(2)
        ]
        both = merge(shards)
        a, b, c = (m._learned.state.belief for m in (*shards, both))
        prior = np.eye(a.precision.shape[-1]) / 2.0
        assert_allclose(c.precision, a.precision + b.precision - prior, rtol=1e-12)
        assert_allclose(np.linalg.solve(c.precision[0], c.shift[0]), both._learned.state.mean[0])
        assert both.score(POINTS, y) > 0.95


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
            (
                lambda: OnlinePPCA(n_components=1, constraint=None).fit(POINTS),
                "constraint='step' or 'task'",
            ),
            (
                lambda: BayesianPassiveAggressiveClassifier().fit(POINTS, LABELS > 1),
                "loss='gibbs'",
            ),
        ],
    )
    def test_what_is_no_sum(self, make, words):
        with pytest.raises(ValueError, match=words):
            merge([make(), make()])

    def test_estimators_that_cannot_be_joined(self):
        models = [MedLDAClassifier(n_topics=4).fit(COUNTS[:40], LABELS[:40]) for _ in range(2)]
        with pytest.raises(TypeError, match="merge cannot join MedLDAClassifier"):
            merge(models)

    def test_a_base_with_open_rows(self):
        base = DPMixture(random_state=0).partial_fit(POINTS)
        with pytest.raises(ValueError, match=r"base without open rows.*Got 900"):
            merge([copy.deepcopy(base), copy.deepcopy(base)], base=base)
