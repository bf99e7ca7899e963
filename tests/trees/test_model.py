"""Log-probabilities of a tree."""

import numpy as np
from numpy.testing import assert_allclose

from everlearn.trees.model import topic_evidence
from oracles import tree_gibbs


def test_evidence_is_what_topics_contribute() -> None:
    counts = np.random.default_rng(0).integers(0, 5, (6, 3)).astype(float)
    expected = [tree_gibbs.dirichlet_multinomial(c, np.full(6, 0.3)) for c in counts.T]
    assert_allclose(topic_evidence(counts, 0.3), expected)
