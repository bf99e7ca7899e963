"""Topic models learned apart become one: counts and weights add up."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.estimator.merging import merge
from everlearn.topics.medlda import MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.state import anchor_means
from everlearn.topics.topic_model import TopicModel
from support.corpora import LABELS as CORPUS_LABELS
from support.corpora import TOKENS
from support.corpora import X as COUNTS


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
