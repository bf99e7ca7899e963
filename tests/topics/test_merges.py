"""Similar topics are joined if that raises the evidence. No counts are lost."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.topics.merges import JointEvidence, merge_is_due, merge_topics
from everlearn.topics.priors import SharedSticks
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, first_state

AVERAGING = Loss("averaging", 16.0, 50.0, 4e-4)
GIBBS = Loss("gibbs", 164.0, 1.0, 10.0)
N_WORDS = 30


def state_of(loss, n_topics=6, n_tasks=3, seed=0):
    """Topics k and k + 3 are of one class and have the same words; no two classes do."""
    learner = TopicSettings(SharedSticks(1.0, 1.0), 0.1, loss)
    state = first_state(learner, N_WORDS, n_topics, np.arange(n_tasks), 0)
    rng = np.random.default_rng(seed)
    for k in range(n_topics):
        own = np.arange(N_WORDS) % n_tasks == k % n_tasks
        state.counts[own, k] = rng.poisson(40.0 / (1 + k // n_tasks), own.sum())
    state.totals[:] = state.counts.sum(axis=0)
    return learner, replace(state, tables=np.arange(1.0, n_topics + 1))


def words_alone(learner, state):
    """A judge with the evidence of words, and without documents."""
    return JointEvidence(learner, np.zeros((0, state.n_topics)), 1.0)


def test_when_merges_are_due():
    """Whenever a quarter more documents are known, however large batches are."""
    for size in (1, 16, 64, 256):
        before = np.arange(0, 16384, size)
        due = [n for n in before.tolist() if merge_is_due(n, n + size)]
        assert due[0] == 0
        for n in (400, 1200, 16000):
            last = max(d for d in due if d < n)
            assert n - last <= 0.25 * n + size
        assert len(due) < 60
    assert merge_is_due(0, 1)
    assert merge_is_due(0, 10**6)
    period = [n for n in range(10**5, 2 * 10**5, 256) if merge_is_due(n, n + 256)]
    assert set(np.diff(period)) == {16384}


def test_documents_can_cause_or_prevent_a_merge():
    """Topics with different words are joined if every document has equal shares of both."""
    learner, state = state_of(AVERAGING, n_topics=2, n_tasks=2)
    state = replace(state, codes=np.zeros(2, int))
    assert merge_topics(learner, state, words_alone(learner, state)).n_topics == 2
    together = np.full((40, 2), 10.0)
    apart = 20.0 * np.eye(2)[np.arange(40) % 2]
    for tallies, n_left in ((together, 1), (apart, 2)):
        judge = JointEvidence(learner, tallies, 2.0)
        assert merge_topics(learner, state, judge).n_topics == n_left


def test_after_a_merge_the_judge_adds_up_the_tallies():
    """Three topics of one class become one in two rounds."""
    learner, state = state_of(AVERAGING, n_topics=3, n_tasks=1)
    tallies = np.random.default_rng(0).poisson(9.0, (30, 3)).astype(float)
    judge = JointEvidence(learner, tallies, 1.0)
    assert merge_topics(learner, replace(state, codes=np.zeros(3, int)), judge).n_topics == 1
    joined = judge.after_merge(np.array([0, 1, 0]))
    np.testing.assert_array_equal(joined.tallies[:, 0], tallies[:, 0] + tallies[:, 2])
    np.testing.assert_array_equal(joined.tallies[:, 1], tallies[:, 1])


@pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
def test_topics_of_a_class_with_the_same_words_are_joined(loss):
    learner, state = state_of(loss)
    counts, ids = state.counts.copy(), state.ids.copy()
    after = merge_topics(learner, state, words_alone(learner, state))
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


@pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
def test_topics_that_come_before_the_one_they_join_leave_no_gaps(loss):
    """The lighter topics come first, and there are spare columns at the end."""
    learner, state = state_of(loss)
    order = np.array([3, 0, 4, 1, 2, 5])
    moved = replace(
        state,
        counts=state.counts[:, order],
        totals=state.totals[order],
        ids=state.ids[order],
        codes=state.codes[order],
        tables=state.tables[order],
        weights=state.weights.select(order),
    ).with_room(state.n_words, 9)
    after = merge_topics(learner, moved, words_alone(learner, moved))
    assert after.ids.tolist() == [0, 1, 2]
    assert after.codes.tolist() == [0, 1, 2]
    assert after.tables.tolist() == [5, 7, 9]
    assert after.counts.shape[1] == moved.counts.shape[1] > 8
    np.testing.assert_array_equal(after.counts[:, :3], state.counts[:, :3] + state.counts[:, 3:])
    assert not after.counts[:, 3:].any()
    np.testing.assert_array_equal(after.totals, after.counts.sum(axis=0))
    np.testing.assert_allclose(after.weights.mean, state.weights.mean[:, :3])


def test_another_class_or_other_words_are_left_alone():
    learner, state = state_of(AVERAGING)
    judge = words_alone(learner, state)
    apart = merge_topics(learner, replace(state, codes=np.arange(6) + 10), judge)
    assert apart.n_topics == 6
    learner, state = state_of(AVERAGING, n_topics=3)
    judge = words_alone(learner, state)
    same_class = merge_topics(learner, replace(state, codes=np.zeros(3, int)), judge)
    assert same_class.n_topics == 3


def test_joined_gaussians_count_each_document_and_the_prior_once():
    rng = np.random.default_rng(1)
    prior, variance = np.array([[3.0, -1.0, 3.0, 3.0]]), 0.5
    rows, inverses, pulls = rng.random((20, 4)), rng.gamma(1.0, 1.0, 20), rng.normal(size=20)

    def posterior(rows, prior):
        precision = np.eye(rows.shape[1]) / variance + rows.T @ (inverses[:, None] * rows)
        return Gaussians(precision[None], prior / variance + pulls @ rows)

    position = np.array([0, 1, 0, 0])
    found = posterior(rows, prior).merge(position, np.ones(4), prior, variance)
    together = np.stack([rows[:, [0, 2, 3]].sum(axis=1), rows[:, 1]], axis=1)
    expected = posterior(together, prior[:, :2])
    np.testing.assert_allclose(found.precision, expected.precision, rtol=1e-12)
    np.testing.assert_allclose(found.shift, expected.shift, rtol=1e-12)


def test_joined_means_weigh_by_mass():
    weights = FixedSpread(np.array([[1.0, 5.0, 3.0], [0.0, 2.0, 4.0]]))
    found = weights.merge(np.array([0, 1, 0]), np.array([3.0, 9.0, 1.0]), np.zeros((2, 3)), 1.0)
    np.testing.assert_allclose(found.mean, [[1.5, 5.0], [1.0, 2.0]])
