"""Intervals of the shares of topics: coverage, and what they depend on."""

import numpy as np
import pytest

from everlearn import TopicModel
from everlearn.testing.data import planted_topics
from everlearn.topics.uncertainty import share_intervals

RNG = np.random.default_rng


def test_intervals_hold_the_share_as_often_as_they_say() -> None:
    """Over 300 sets of 60 documents, whose proportions and lengths are planted."""
    rate, inside = 0.9, []
    alpha = np.array([0.5, 0.3, 0.2])
    for seed in range(300):
        rng = RNG(seed)
        theta, lengths = rng.dirichlet(alpha, 60), rng.integers(20, 200, 60)
        low, high = share_intervals(theta, lengths, rate, seed).T
        inside.append((low < alpha) & (alpha < high))
    error = np.sqrt(rate * (1 - rate) / len(inside))
    # With 60 documents the bootstrap is a little too narrow: by a 60th in variance.
    assert (np.abs(np.mean(inside, axis=0) - rate) < 3.5 * error + 0.01).all()


def test_intervals_of_a_fitted_model_hold_the_share_among_many_documents() -> None:
    X = planted_topics(1500, 3, 40, 50, overlap=0.2, random_state=0).X
    model = TopicModel(n_topics=3, random_state=0, engine="serial").fit(X[:300])
    lengths = np.asarray(X.sum(axis=1)).ravel()
    theta = model.transform(X)
    truth = (theta * lengths[:, None]).sum(axis=0) / lengths.sum()
    inside = []
    for start in range(0, 1500, 50):
        low, high = model.credible_intervals(X[start : start + 50], rate=0.9).T
        inside.append((low < truth) & (truth < high))
    error = np.sqrt(0.9 * 0.1 / len(inside) / 3)
    assert abs(np.mean(inside) - 0.9) < 4 * error


def test_more_documents_make_intervals_narrower_and_longer_ones_do_not() -> None:
    theta, lengths = RNG(0).dirichlet(np.ones(4), 400), np.full(400, 50)
    few, many = (
        share_intervals(theta[:100], lengths[:100], 0.9, 0),
        share_intervals(theta, lengths, 0.9, 0),
    )
    ratio = np.diff(many, axis=1) / np.diff(few, axis=1)
    np.testing.assert_allclose(ratio, 0.5, atol=0.15)
    longer = share_intervals(theta, 10 * lengths, 0.9, 0)
    np.testing.assert_allclose(longer, many, atol=1e-12)


def test_what_has_no_interval_is_refused() -> None:
    texts = ["cats purr", "stocks fall"] * 20
    model = TopicModel(n_topics=2, random_state=0, engine="serial").fit(texts)
    with pytest.raises(ValueError, match=r"at least two documents .* Got 1"):
        model.credible_intervals(["cats purr", "zebra"])
    with pytest.raises(ValueError, match="'rate'"):
        model.credible_intervals(texts, rate=0)
    a, b = model.credible_intervals(texts), model.credible_intervals(texts)
    np.testing.assert_array_equal(a, b)
    assert ((a[:, 0] <= model.topic_shares_) & (model.topic_shares_ <= a[:, 1])).all()
