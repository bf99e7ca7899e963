"""Models learned apart become one: statistics add, whoever learned them."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import everlearn
from everlearn.core.families.recentred import recentred
from everlearn.estimator.merging import merge
from everlearn.linear.classifier import (
    BayesianPassiveAggressiveClassifier,
)
from everlearn.linear.conversion import convert_data
from everlearn.linear.regressor import (
    BayesianPassiveAggressiveRegressor,
)
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.merging import sealed_state
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.topics.medlda import MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.state import anchor_means
from everlearn.topics.topic_model import TopicModel
from support.corpora import LABELS as CORPUS_LABELS
from support.corpora import TOKENS
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

    def test_a_base_with_open_rows(self):
        base = DPMixture(random_state=0).partial_fit(POINTS)
        with pytest.raises(ValueError, match=r"base without open rows.*Got 900"):
            merge([copy.deepcopy(base), copy.deepcopy(base)], base=base)

    def test_gaps_in_one_of_them(self):
        gaps = np.where(RNG.random((450, 3)) < 0.1, np.nan, POINTS[450:])
        both = merge([fitted(POINTS[:450]), fitted(gaps)])
        assert both.n_samples_seen_ == 900
        assert np.isfinite(both.bound_)


class TestTopics:
    def test_counts_add_and_topics_find_each_other(self):
        whole = TopicModel(n_topics=4, n_passes=5, random_state=0).fit(COUNTS)
        shards = [copy.deepcopy(whole) for _ in range(2)]
        order = np.array([2, 0, 3, 1])
        state = shards[1]._learned.states[0]
        state.counts[:] = state.counts[:, order]
        both = merge(shards)
        assert_allclose(
            both.components_ - both._current_settings().smoothing,
            2 * (whole.components_ - whole._current_settings().smoothing),
        )
        assert both._learned.n_documents == 2 * whole._learned.n_documents

    def test_words_are_told_apart_by_name(self):
        shards = [
            TopicModel(n_topics=3, random_state=0).fit(part) for part in (TOKENS[:9], TOKENS[9:60])
        ]
        both = merge(shards)
        masses = (both.components_ - both._current_settings().smoothing).sum(axis=0)
        counts = dict(zip(both.vocabulary_, masses, strict=True))
        for word in ("word00", "word17"):
            assert_allclose(counts[word], sum(doc.count(word) for doc in TOKENS[:60]), rtol=1e-9)

    def test_a_base_counts_once(self):
        base = TopicModel(n_topics=4, random_state=0).fit(COUNTS[:100])
        shards = [copy.deepcopy(base).partial_fit(COUNTS[i : i + 50]) for i in (100, 150)]
        both = merge(shards, base=base)
        assert_allclose(
            (both.components_ - both._current_settings().smoothing).sum(axis=0),
            np.asarray(COUNTS[:200].sum(axis=0)).ravel(),
            rtol=1e-9, atol=1e-9,
        )  # fmt: skip
        assert both._learned.n_documents == 200

    def test_a_base_that_is_none(self):
        one, two, other = (
            TopicModel(n_topics=3, random_state=0).fit(COUNTS[rows])
            for rows in (slice(0, 40), slice(40, 80), slice(80, 110))
        )
        with pytest.raises(ValueError, match="Model 0 did not: it does not contain the words"):
            merge([one, two], base=other)
        seeded = TopicModel(n_topics=3, random_state=1).fit(COUNTS[:40])
        with pytest.raises(ValueError, match="Model 0 did not: its seed is another"):
            merge([one, two], base=seeded)
        with pytest.raises(ValueError, match="Model 1 did not: it has 40 documents, the base 80"):
            merge(
                [copy.deepcopy(one).partial_fit(COUNTS[40:80]), one],
                base=copy.deepcopy(one).partial_fit(COUNTS[40:80]),
            )


class TestLabelledTopics:
    @staticmethod
    def parts(model):
        weights = model._learned.states[0].weights
        return weights.precision, weights.shift

    def test_gaussian_weights_add(self):
        params = {"n_topics": 6, "loss": "gibbs", "random_state": 0}
        whole = MedLDAClassifier(**params).fit(COUNTS[:100], CORPUS_LABELS[:100])
        shards = [copy.deepcopy(whole) for _ in range(2)]
        codes = whole._learned.states[0].codes
        order = np.argsort(codes, kind="stable")[::-1]
        order = np.array(
            [order[codes[order] == c][(codes[:k] == c).sum()] for k, c in enumerate(codes)]
        )
        assert not np.array_equal(order, np.arange(6))
        state = shards[1]._learned.states[0]
        state.counts[:] = state.counts[:, order]
        weights = state.weights.select(order)
        state.weights.precision[:], state.weights.shift[:] = weights.precision, weights.shift
        both = merge(shards)
        precision, shift = self.parts(whole)
        loss = whole._current_settings().loss
        assert_allclose(self.parts(both)[0], 2 * precision - np.eye(6) / loss.variance, rtol=1e-9)
        means = anchor_means(codes, shift.shape[0], loss.margin)
        assert_allclose(self.parts(both)[1], 2 * shift - means / loss.variance, rtol=1e-9)
        assert both.n_samples_seen_ == 200
        assert both.score(COUNTS[:100], CORPUS_LABELS[:100]) > 0.8

    @pytest.mark.parametrize("strategy", ["shared", "ovr"])
    def test_a_base_counts_once(self, strategy):
        base = MedLDAClassifier(n_topics=6, loss="gibbs", strategy=strategy, random_state=0)
        base.fit(COUNTS[:100], CORPUS_LABELS[:100])
        shards = [
            copy.deepcopy(base).partial_fit(COUNTS[i : i + 50], CORPUS_LABELS[i : i + 50])
            for i in (100, 150)
        ]
        both = merge(shards, base=base)
        for a, b, c, d in zip(*map(self.parts, (*shards, base, both)), strict=True):
            assert_allclose(d, a + b - c, rtol=1e-9, atol=1e-9)
        assert both.n_samples_seen_ == 200

    def test_numbers_in_other_units(self):
        y = np.arange(200.0)
        parts = [
            MedLDARegressor(n_topics=4, loss="gibbs", random_state=0).fit(
                COUNTS[i : i + 100], y[i : i + 100]
            )
            for i in (0, 100)
        ]
        with pytest.raises(ValueError, match="began as copies of one"):
            merge(parts)
        shards = [
            copy.deepcopy(parts[0]).partial_fit(COUNTS[100:200], y[100:200]) for _ in range(2)
        ]
        assert merge(shards, base=parts[0]).n_samples_seen_ == 2 * shards[0].n_samples_seen_ - 100


class TestOthers:
    def test_moments_add(self):
        params = {"n_components": 2, "random_state": 0, "options": {"kept_components": 3}}
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
        c = both._learned.state.belief
        units, prior = both._learned.state.units, np.eye(c.precision.shape[-1]) / 2.0
        added = [
            convert_data(m.belief.precision, m.belief.shift, m.units, units, m.prior)[0]
            for m in (shard._learned.state for shard in shards)
        ]
        assert_allclose(c.precision, added[0] + added[1] + prior, rtol=1e-12)
        assert_allclose(np.linalg.solve(c.precision[0], c.shift[0]), both._learned.state.mean[0])
        assert_allclose(units.column_scale.mean, POINTS.mean(axis=0), rtol=1e-9)
        assert_allclose(units.column_scale.spread, POINTS.std(axis=0), rtol=1e-9)
        assert both.score(POINTS, y) > 0.95

    def test_numbers_in_other_units_are_those_of_all_rows(self):
        """Squared losses of numbers are sums, in whatever units each part learned them."""
        y = 1e3 + POINTS @ [50.0, -20.0, 3.0] + np.random.default_rng(0).normal(size=len(POINTS))
        order = np.argsort(y)  # so the parts have nothing in common
        X, y = POINTS[order], y[order]
        third = len(y) // 3

        def learned(model, rows):
            return model.partial_fit(X[rows], y[rows])

        def made():
            return BayesianPassiveAggressiveRegressor(epsilon=1e-9)

        first, second, last = slice(third), slice(third, 2 * third), slice(2 * third, None)
        whole = made().fit(X, y)  # in units of all rows, as merged models are
        parts = [learned(made(), rows) for rows in (first, second, last)]
        base = learned(made(), first)
        shards = [learned(copy.deepcopy(base), rows) for rows in (second, last)]
        for both in (merge(parts), merge(shards, base=base)):
            assert both.n_samples_seen_ == len(y)
            want, got = (m.predict(X, return_std=True) for m in (whole, both))
            assert_allclose(got[0], want[0], rtol=1e-6)
            assert_allclose(got[1], want[1], rtol=1e-5)

    def test_dense_and_sparse_beginnings_do_not_mix(self):
        y = (POINTS[:, 0] > 0).astype(int)
        models = [
            BayesianPassiveAggressiveClassifier(random_state=0).fit(rows, y)
            for rows in (POINTS, sparse.csr_array(POINTS))
        ]
        with pytest.raises(ValueError, match="all began with dense rows"):
            merge(models)

    def test_a_base_that_is_none(self):
        y = (POINTS[:, 0] > 0).astype(int)
        params = {"loss": "gibbs", "covariance": "full", "random_state": 0}
        one, two, other = (
            BayesianPassiveAggressiveClassifier(**params).fit(POINTS[rows], y[rows])
            for rows in (slice(0, 300), slice(300, 600), slice(600, 900))
        )
        with pytest.raises(ValueError, match="Model 0 did not: it is less sure of some weights"):
            merge([one, two], base=other)
        assert (
            merge([one, copy.deepcopy(one).partial_fit(POINTS, y)], base=one).n_samples_seen_
            == 1200
        )
