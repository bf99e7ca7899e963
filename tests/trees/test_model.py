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
