"""Topics that say the same are joined: judged by the evidence, with nothing lost."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln

from everlearn.core.priors import SharedSticks
from everlearn.inference.topic_merges import evidence_gain, is_due, merged
from everlearn.inference.topic_model import Loss, TopicLearner, first_state
from everlearn.inference.topic_state import FixedSpread, Gaussians

AVERAGING = Loss("averaging", 16.0, 50.0, 4e-4)
GIBBS = Loss("gibbs", 164.0, 1.0, 10.0)
N_WORDS = 30


def state_of(loss, n_topics=6, n_tasks=3, seed=0):
    """Topics k and k + 3 are of one class and have the same words; no two classes do."""
    learner = TopicLearner(SharedSticks(1.0, 1.0), 0.1, loss)
    state = first_state(learner, N_WORDS, n_topics, np.arange(n_tasks), 0)
    rng = np.random.default_rng(seed)
    for k in range(n_topics):
        own = np.arange(N_WORDS) % n_tasks == k % n_tasks
        state.counts[own, k] = rng.poisson(40.0 / (1 + k // n_tasks), own.sum())
    state.totals[:] = state.counts.sum(axis=0)
    return learner, replace(state, tables=np.arange(1.0, n_topics + 1))


def log_evidence(counts, smoothing):
    """Of the words of a topic, its distribution integrated out."""
    prior = smoothing * len(counts)
    words = (gammaln(counts + smoothing) - gammaln(smoothing)).sum()
    return words - gammaln(counts.sum() + prior) + gammaln(prior)


def test_gain_is_the_difference_of_evidences():
    _, state = state_of(AVERAGING)
    for keep, drop in ((0, 3), (0, 1), (4, 1)):
        a, b = state.counts[:, keep], state.counts[:, drop]
        expected = log_evidence(a + b, 0.1) - log_evidence(a, 0.1) - log_evidence(b, 0.1)
        assert evidence_gain(state, keep, drop, 0.1) == pytest.approx(expected, rel=1e-10)
    assert evidence_gain(state, 0, 3, 0.1) > 0 > evidence_gain(state, 0, 1, 0.1)


def test_when_merges_are_due():
    assert [t for t in range(200) if is_due(t)] == [8, 16, 32, 64, 128, 192]


@pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
def test_topics_of_a_class_with_the_same_words_are_joined(loss):
    learner, state = state_of(loss)
    counts, ids = state.counts.copy(), state.ids.copy()
    after = merged(learner, state)
    assert after.ids.tolist() == [0, 1, 2]
    assert after.codes.tolist() == [0, 1, 2]
    assert after.tables.tolist() == [5, 7, 9]
    np.testing.assert_array_equal(after.counts[:, :3], counts[:, :3] + counts[:, 3:])
    np.testing.assert_array_equal(after.totals, after.counts.sum(axis=0))
    assert after.next_id == state.next_id
    assert after.weights.mean.shape == (3, 3)
    np.testing.assert_allclose(after.weights.mean, state.weights.mean[:, :3])
    np.testing.assert_array_equal(state.counts, counts)
    np.testing.assert_array_equal(state.ids, ids)


def test_another_class_or_other_words_are_left_alone():
    learner, state = state_of(AVERAGING)
    apart = merged(learner, replace(state, codes=np.arange(6) + 10))
    assert apart.n_topics == 6
    learner, state = state_of(AVERAGING, n_topics=3)
    same_class = merged(learner, replace(state, codes=np.zeros(3, int)))
    assert same_class.n_topics == 3


def test_joined_gaussians_have_seen_all_documents_and_the_prior_once():
    rng = np.random.default_rng(1)
    prior, variance = np.array([[3.0, -1.0, 3.0, 3.0]]), 0.5
    rows, inverses, pulls = rng.random((20, 4)), rng.gamma(1.0, 1.0, 20), rng.normal(size=20)

    def posterior(rows, prior):
        precision = np.eye(rows.shape[1]) / variance + rows.T @ (inverses[:, None] * rows)
        return Gaussians(precision[None], prior / variance + pulls @ rows)

    position = np.array([0, 1, 0, 0])
    found = posterior(rows, prior).joined(position, np.ones(4), prior, variance)
    together = np.stack([rows[:, [0, 2, 3]].sum(axis=1), rows[:, 1]], axis=1)
    expected = posterior(together, prior[:, :2])
    np.testing.assert_allclose(found.precision, expected.precision, rtol=1e-12)
    np.testing.assert_allclose(found.shift, expected.shift, rtol=1e-12)


def test_joined_means_weigh_by_mass():
    weights = FixedSpread(np.array([[1.0, 5.0, 3.0], [0.0, 2.0, 4.0]]))
    found = weights.joined(np.array([0, 1, 0]), np.array([3.0, 9.0, 1.0]), np.zeros((2, 3)), 1.0)
    np.testing.assert_allclose(found.mean, [[1.5, 5.0], [1.0, 2.0]])
