"""What speaks for joining topics, held against the plain formulas."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln

from everlearn.core.documents import Documents
from everlearn.engine.opening import open_engine
from everlearn.metrics.topics import completion_log_likelihood
from everlearn.testing.data import planted_topics
from everlearn.topics import merges as merge_judges
from everlearn.topics.merges import (
    Completion,
    JointEvidence,
    document_gain,
    merge_topics,
    word_gain,
)
from everlearn.topics.predict import infer_expected
from everlearn.topics.priors import SharedSticks
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import first_state, word_factors

LEARNER = TopicSettings(SharedSticks(5.0, 1.0), 0.1)
PLANTED = planted_topics(120, 3, 30, 40, random_state=0)


def state_of(split=1, seed=0):
    """The planted topics, each as several that have the same words."""
    state = first_state(LEARNER, 30, 3 * split, np.empty(0, np.int64), 0)
    rng = np.random.default_rng(seed)
    state.counts[:] = rng.poisson(300.0 * np.repeat(PLANTED.phi, split, axis=0).T)
    state.totals[:] = state.counts.sum(axis=0)
    return replace(state, tables=np.arange(1.0, 3 * split + 1))


def log_evidence(counts, smoothing):
    """Of the words of a topic, its distribution integrated out."""
    prior = smoothing * len(counts)
    words = (gammaln(counts + smoothing) - gammaln(smoothing)).sum()
    return words - gammaln(counts.sum() + prior) + gammaln(prior)


def test_gain_of_words_is_the_difference_of_evidences():
    state = state_of(2)
    for keep, drop in ((0, 1), (0, 2), (4, 1)):
        a, b = state.counts[:, keep], state.counts[:, drop]
        expected = log_evidence(a + b, 0.1) - log_evidence(a, 0.1) - log_evidence(b, 0.1)
        assert word_gain(a, b, 0.1) == pytest.approx(expected, rel=1e-10)
    a, same, other = state.counts[:, :3].T
    assert word_gain(a, same, 0.1) > 0 > word_gain(a, other, 0.1)


def test_gain_of_documents_is_that_of_drawing_topics_one_by_one():
    """A token is of a topic with probability (alpha + tokens before it) / (total + all before)."""

    def log_probability(topics, alpha):
        tokens, total = np.zeros(len(alpha)), 0.0
        for k in topics:
            total += np.log((alpha[k] + tokens[k]) / (alpha.sum() + tokens.sum()))
            tokens[k] += 1
        return total

    rng = np.random.default_rng(0)
    alpha = np.array([0.7, 0.2, 1.5])
    documents = [rng.integers(0, 3, n).tolist() for n in (0, 1, 6, 9)]
    tallies = np.array([[z.count(k) for k in range(3)] for z in documents], float)
    expected = sum(
        log_probability([min(k, 1) for k in z], np.array([0.7, 1.7])) - log_probability(z, alpha)
        for z in documents
    )
    assert document_gain(tallies[:, 1:], alpha[1:]) == pytest.approx(expected, rel=1e-10)


def test_few_documents_speak_for_themselves_only():
    state = replace(state_of(1), totals=np.array([480.0, 160.0, 320.0]))
    tallies = np.ones((16, 3))
    assert JointEvidence.of(LEARNER, tallies, state).weight == 20.0
    assert JointEvidence.of(LEARNER, tallies[:15], state).weight == 1.0
    assert JointEvidence.of(LEARNER, 0 * tallies, state).weight == 1.0
    assert JointEvidence.of(replace(LEARNER, ghosts=3), tallies[:15], state).weight == 3.0


def test_completion_is_that_of_the_metric():
    """Gains are differences of held-out likelihood, proportions of joined topics added up."""
    state, pairs = state_of(2), [(0, 1), (3, 2), (0, 4)]
    with open_engine("serial") as engine:
        judge = Completion.of(LEARNER, PLANTED.documents, engine)
        assert judge is not None
        gains = judge.gains(state, pairs)
        factors = word_factors(LEARNER, state)
        alpha = LEARNER.prior.document_prior(state.tables)
        theta = infer_expected(judge.observed, factors, alpha, 5, engine)
    smooth = state.counts.T + 0.1

    def score(theta, smooth):
        phi = smooth / smooth.sum(axis=1, keepdims=True)
        return completion_log_likelihood(theta, phi, judge.held_out).sum()

    for (a, b), gain in zip(pairs, gains, strict=True):
        mixed, table = theta.copy(), smooth.copy()
        mixed[:, a] += mixed[:, b]
        mixed[:, b] = 0.0
        table[a] += table[b] - 0.1
        expected = score(mixed, table) - score(theta, smooth)
        assert gain == pytest.approx(expected, rel=1e-8)
    assert gains[0] > 0 > gains[2]


def test_gains_of_parts_of_the_words_add_up(monkeypatch):
    state, pairs = state_of(2), [(0, 1), (3, 2), (0, 4)]
    with open_engine("serial") as engine:
        judge = Completion.of(LEARNER, PLANTED.documents, engine)
        assert judge is not None
        whole = judge.gains(state, pairs)
        monkeypatch.setattr(merge_judges, "_BLOCK_NUMBERS", 6 * 37)
        np.testing.assert_allclose(judge.gains(state, pairs), whole, rtol=1e-9)


def test_topics_that_tell_unseen_words_better_as_one_are_joined():
    with open_engine("serial") as engine:
        judge = Completion.of(LEARNER, PLANTED.documents, engine)
        assert judge is not None
        assert 3 <= merge_topics(LEARNER, state_of(5), judge).n_topics <= 7
        assert merge_topics(LEARNER, state_of(1), judge).n_topics == 3


def test_too_few_documents_do_not_judge():
    with open_engine("serial") as engine:
        assert Completion.of(LEARNER, PLANTED.documents[:49], engine) is None
        assert Completion.of(LEARNER, PLANTED.documents[:50], engine) is not None
        empty = Completion.of(LEARNER, Documents.from_tokens([[]] * 60), engine)
        assert empty is not None
        assert merge_topics(LEARNER, state_of(2), empty).n_topics == 6
