"""Draws of max-margin topic models follow the laws they are said to follow."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import psi

from everlearn.core.documents import Documents
from everlearn.topics.batches import Batch, Targets
from everlearn.topics.bayespa import learn_batch
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, first_state
from oracles import bayespa as oracle
from support.topic_learners import FIXED, SERIAL


class TestLaws:
    """Batches of 20,000 documents of one token: frequencies within 4.5 standard deviations."""

    n = 20_000

    def state(self, learner, n_tasks=0):
        state = first_state(learner, 3, 3, np.arange(n_tasks), 5)
        state.counts[:] = np.array([[3.0, 0.0, 0.0], [1.0, 0.2, 0.5], [1.0, 2.0, 0.0]])
        if learner.word_factor == "collapsed":
            state.counts[:] = 1e8 * (state.counts + 0.4)  # a batch must not matter
        state.totals[:] = state.counts.sum(axis=0)
        return state

    def observed(self, learner, state, targets):
        before = state.totals.copy()
        documents = Documents.from_tokens([[1]] * self.n)
        after, _ = learn_batch(learner, state, Batch.of(documents, targets), SERIAL)
        return np.rint(after.totals - before)

    @pytest.mark.parametrize("word_factor", ["ratio", "digamma", "collapsed"])
    def test_word_factors(self, word_factor):
        learner = TopicSettings(FIXED, 0.3, None, word_factor, n_sweeps=1)
        state = self.state(learner)
        smoothing = 0.3
        delta = state.counts + smoothing
        expected = delta[1] / delta.sum(axis=0)
        if word_factor == "digamma":
            expected = np.exp(psi(delta[1]) - psi(delta.sum(axis=0)))
        observed = self.observed(learner, state, Targets.none(self.n))
        assert oracle.deviations(observed, expected / expected.sum()) < 4.5

    def test_digamma_and_ratio_agree_where_there_is_much_data(self):
        states = []
        for word_factor in ("ratio", "digamma"):
            learner = TopicSettings(FIXED, 0.3, None, word_factor)
            state = self.state(learner)
            state.counts[:] = 1e9 * (state.counts + 1.0)
            state.totals[:] = state.counts.sum(axis=0)
            states.append(self.observed(learner, state, Targets.none(self.n)))
        assert np.abs(states[0] - states[1]).max() < 5

    @pytest.mark.parametrize("word_factor", ["ratio", "digamma"])
    def test_the_second_round_has_seen_the_first(self, word_factor):
        """Counts of the first round, times the ghosts, are in the word factors of the second."""
        learner = TopicSettings(FIXED, 0.3, None, word_factor, n_sweeps=1, n_rounds=2, ghosts=2)
        first = self.state(learner)
        first.counts[:] = before = 2000.0 * first.counts
        first.totals[:] = before.sum(axis=0)
        before = before.copy()
        again = replace(first, counts=before.copy(), totals=first.totals.copy())
        once = replace(learner, n_rounds=1)
        documents = Documents.from_tokens([[1]] * self.n)
        after, _ = learn_batch(once, first, Batch.of(documents, Targets.none(self.n)), SERIAL)
        delta = after.counts + 0.3
        expected = delta[1] / delta.sum(axis=0)
        if word_factor == "digamma":
            expected = np.exp(psi(delta[1]) - psi(delta.sum(axis=0)))
        twice, _ = learn_batch(learner, again, Batch.of(documents, Targets.none(self.n)), SERIAL)
        gained = (twice.counts - before).sum(axis=0)
        assert gained.sum() == pytest.approx(2 * self.n)
        assert oracle.deviations(np.rint(gained / 2), expected / expected.sum()) < 4.5

    @pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_averaging(self, word_factor, sign):
        """The start is uniform, its multiplier is the document's own, then one draw."""
        loss = Loss("averaging", 1.2, 0.4, 2.0)
        learner = TopicSettings(FIXED, 0.3, loss, word_factor, "uniform", n_sweeps=1)
        state = self.state(learner, 1)
        mean = np.array([[1.0, -0.8, 0.3]])
        state = replace(state, weights=FixedSpread(mean))
        delta = state.counts + 0.3
        factor = delta[1] / delta.sum(axis=0)
        expected = np.zeros(3)
        for start in range(3):
            tau = oracle.multiplier_alone(1.2, sign, mean[0], np.eye(3)[start], 2.0, 0.8)
            weights = factor * np.exp(sign * tau * mean[0])
            expected += weights / weights.sum() / 3
        targets = Targets(np.full((self.n, 1), sign, np.int8), np.full((self.n, 1), 1.2))
        observed = self.observed(learner, state, targets)
        assert oracle.deviations(observed, expected) < 4.5

    @pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_gibbs(self, word_factor, sign):
        loss = Loss("gibbs", 1.2, 0.9, 0.5, mean_only=True)
        learner = TopicSettings(FIXED, 0.3, loss, word_factor, "uniform", n_sweeps=1)
        state = self.state(learner, 1)
        root = np.random.default_rng(0).normal(size=(3, 3))
        weights = Gaussians((root @ root.T + np.eye(3))[None], np.array([[1.0, -2.0, 0.5]]))
        state = replace(state, weights=weights)
        mean, covariance = weights.moments()
        labels = oracle.GibbsLabels(np.array([sign]), np.array([1.2]), mean, covariance, 0.9)
        delta = state.counts + 0.3
        factors = delta / delta.sum(axis=0)
        expected = np.zeros(3)
        for start in range(3):
            given = labels.inverse_means([start])
            expected += (
                oracle.conditional(
                    lambda z, given=given: (
                        oracle.log_words([1], z, factors) + labels.log_given(z, given)
                    ),
                    [0],
                    0,
                    3,
                )
                / 3
            )
        targets = Targets(np.full((self.n, 1), sign, np.int8), np.full((self.n, 1), 1.2))
        assert oracle.deviations(self.observed(learner, state, targets), expected) < 4.5
