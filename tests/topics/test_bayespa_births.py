"""Topics that are born and die in a batch."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.testing.data import planted_topics
from everlearn.topics.predict import infer_expected
from everlearn.topics.priors import SharedSticks
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import word_factors
from support.topic_learners import (
    LEARNERS,
    PLANTED,
    SERIAL,
    begin,
    learn,
    learned,
    targets_of,
)

WITH_LABELS = [name for name in LEARNERS if "born" in name and name != "born"]
every_born_with_labels = pytest.mark.parametrize("name", WITH_LABELS)
every_born = pytest.mark.parametrize("name", [*WITH_LABELS, "born"])


def heavy(state, share=0.02):
    return int((state.totals[: state.n_topics] > share * state.totals.sum()).sum())


class TestBirths:
    """Property 17."""

    @every_born
    def test_no_births_without_mass(self, name):
        """Sticks that leave nothing over; with mass, the same batches do give birth."""
        for eta, born in ((1e-9, False), (20.0, True)):
            learner = replace(LEARNERS[name], prior=SharedSticks(5.0, eta))
            state = replace(begin(learner, n_topics=4), clock=1, tables=np.full(4, 3.0))
            state.counts[:] = 1.0
            state.totals[:] = 60.0
            targets = targets_of(PLANTED.labels, 4, learner.loss)
            state = learn(learner, state, PLANTED.documents, targets)
            assert (state.next_id > 4) == born  # what is born may be joined again
            assert born or state.ids.tolist() == [0, 1, 2, 3]

    @every_born
    def test_tables_follow_topics(self, name):
        state = learned(LEARNERS[name])
        assert (state.tables > 0).all()
        assert (state.tables <= state.totals[: state.n_topics] + 1e-9).all()
        assert np.unique(state.ids).size == state.n_topics
        assert state.next_id > state.ids.max()

    @pytest.mark.parametrize("limit", [4, 5])
    def test_no_more_than_allowed(self, limit):
        learner = replace(LEARNERS["born"], max_topics=limit, prior=SharedSticks(50.0, 20.0))
        assert learned(learner, n_topics=4).n_topics == limit

    @pytest.mark.parametrize(
        "loss", [Loss("averaging", 16.0, 500.0, 1e-3), Loss("gibbs", 164.0, 1.0, 10.0)]
    )
    @pytest.mark.parametrize("n_topics", [2, 5])
    @pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
    def test_planted_topics_are_found(self, loss, n_topics, word_factor):
        """Five topics with hardly a word in common and a class each: nine of ten seeds."""
        learner = TopicSettings(SharedSticks(1.0, 1.0), 0.1, loss, word_factor)
        found = []
        for seed in range(10):
            planted = planted_topics(
                400, 5, 100, 50, concentration=0.05, overlap=0.02, random_state=seed
            )
            targets = targets_of(planted.labels, 5, loss)
            state = begin(learner, n_topics=n_topics, n_tasks=5, seed=seed, n_words=100)
            state = learn(learner, state, planted.documents, targets, 40)
            found.append(heavy(state))
        assert sum(5 <= n <= 7 for n in found) >= 9, found

    @every_born_with_labels
    def test_topics_in_another_order_predict_alike(self, name):
        learner = LEARNERS[name]
        state = learned(learner)
        state = replace(state, tables=state.tables + 0.01 * np.arange(state.n_topics))  # no ties
        order = np.random.default_rng(0).permutation(state.n_topics)
        k = state.n_topics
        other = replace(
            state,
            counts=state.counts[:, order],
            totals=state.totals[order],
            ids=state.ids[order],
            tables=state.tables[order],
            weights=state.weights.select(order),
        )
        scores = []
        for each in (replace(state, counts=state.counts[:, :k].copy()), other):
            alpha = learner.prior.document_prior(each.tables)
            z = infer_expected(PLANTED.documents, word_factors(learner, each), alpha, 3, SERIAL)
            scores.append(z @ each.weights.mean.T)
        assert_allclose(scores[0], scores[1], rtol=1e-6, atol=1e-8)
