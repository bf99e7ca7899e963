"""Log-probabilities of a tree."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.trees.model import level_prior_of_counts, level_prior_of_logs, topic_evidence
from oracles import tree_gibbs


def test_evidence_is_what_topics_contribute() -> None:
    counts = np.random.default_rng(0).integers(0, 5, (6, 3)).astype(float)
    expected = [tree_gibbs.dirichlet_multinomial(c, np.full(6, 0.3)) for c in counts.T]
    assert_allclose(topic_evidence(counts, 0.3), expected)


def test_the_level_prior_stays_without_words() -> None:
    alpha = np.array([3.0, 2.0, 1.0])
    for counts in (np.zeros((0, 3)), np.zeros((4, 3))):
        assert_array_equal(level_prior_of_counts(alpha, counts), alpha)
    assert_array_equal(level_prior_of_logs(alpha, np.zeros(3), 0.0), alpha)


def test_priors_of_levels_climb() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([8.0, 1.0, 3.0])
    shares = rng.dirichlet(truth, 4000)
    found = np.ones(3)
    for _ in range(200):
        found = level_prior_of_logs(found, np.log(shares).sum(axis=0), len(shares))
    assert_allclose(found, truth, rtol=0.1)
    counts = np.array([rng.multinomial(60, p) for p in shares]).astype(float)
    found = np.ones(3)
    for _ in range(100):
        found = level_prior_of_counts(found, counts)
    assert_allclose(found, truth, rtol=0.15)
