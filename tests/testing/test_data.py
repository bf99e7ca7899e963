"""Planted topics are what they say: the counts follow the truth, and so do the labels."""

import numpy as np
import pytest
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import LogisticRegression

from everlearn.testing.data import planted_topics


def test_truth_is_made_of_probabilities():
    planted = planted_topics(50, 5, 40, labels="minor", random_state=0)
    for table, shape in ((planted.theta, (50, 5)), (planted.phi, (5, 40))):
        assert table.shape == shape
        assert table.min() >= 0
        np.testing.assert_allclose(table.sum(axis=1), 1)


def test_counts_follow_the_truth():
    planted = planted_topics(2000, 4, 20, 50, random_state=1)
    lengths = planted.documents.lengths
    assert lengths.mean() == pytest.approx(50, abs=4 * np.sqrt(50 / 2000))
    chances = planted.theta @ planted.phi
    expected = lengths @ chances
    spread = np.sqrt(lengths @ (chances * (1 - chances)))
    assert (np.abs(planted.X.sum(axis=0) - expected) < 4 * spread).all()


@pytest.mark.parametrize("overlap", [0.0, 0.3])
def test_overlap_is_the_share_of_common_words(overlap):
    phi = planted_topics(1, 6, 60, overlap=overlap, random_state=2).phi
    shared = np.sort(phi, axis=0)[:-1]
    np.testing.assert_allclose(shared, np.broadcast_to(phi.min(axis=0), shared.shape), atol=1e-15)
    assert phi.min(axis=0).sum() == pytest.approx(overlap)


def test_main_labels_are_the_largest_topics():
    planted = planted_topics(200, 4, 40, random_state=3)
    np.testing.assert_array_equal(planted.labels, planted.theta.argmax(axis=1))
    assert np.unique(planted.labels).size == 4


def test_minor_labels_are_a_tenth_of_the_tokens():
    planted = planted_topics(400, 6, 60, labels="minor", random_state=4)
    minor = planted.theta[:, -2:]
    np.testing.assert_allclose(minor.sum(axis=1), 0.1)
    np.testing.assert_array_equal(planted.labels, minor.argmax(axis=1))
    assert 0.4 < planted.labels.mean() < 0.6


@pytest.mark.parametrize("seed", range(3))
def test_topics_found_without_labels_miss_the_minor_direction(seed):
    planted = planted_topics(600, 6, 120, 100, labels="minor", random_state=seed)
    X, y = planted.X, planted.labels
    blind = LatentDirichletAllocation(4, random_state=0).fit_transform(X)
    words = np.asarray(X.toarray() / planted.documents.lengths[:, None])

    def accuracy(Z):
        return (
            LogisticRegression(C=1e4, max_iter=1000).fit(Z[:300], y[:300]).score(Z[300:], y[300:])
        )

    assert accuracy(blind) < 0.7
    assert accuracy(words) > 0.85
    assert accuracy(planted.theta) > 0.97


def test_the_seed_decides():
    one, same, other = (planted_topics(20, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.X.toarray(), same.X.toarray())
    assert (one.X.toarray() != other.X.toarray()).any()


def test_minor_labels_need_three_topics():
    with pytest.raises(ValueError, match="at least 3 topics, got 2"):
        planted_topics(10, 2, labels="minor")
