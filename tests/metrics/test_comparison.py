"""`compare`: the difference of two models, and how sure it is."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from everlearn import DPMixture, OnlinePPCA, TopicModel
from everlearn.metrics import compare

RNG = np.random.default_rng


class Given:
    """A model whose scores are given."""

    def __init__(self, scores):
        self.scores = scores

    def score_samples(self, X):
        return self.scores


def test_the_difference_and_its_error_by_hand() -> None:
    found = compare(Given([1.0, 2.0, 6.0]), Given([0.0, 2.0, 2.0]), X=None)
    assert found.difference == pytest.approx(5 / 3)
    assert found.standard_error == pytest.approx(np.std([1, 0, 4], ddof=1) / np.sqrt(3))
    assert found.n == 3
    assert str(found) == "+1.667 ± 1.2 per row (3 rows)"


def test_the_error_is_right_over_many_sets() -> None:
    """The share of differences of equal models beyond two errors: 4.7 % with 200 rows."""
    beyond = []
    for seed in range(1000):
        a, b = RNG(seed).normal(size=(2, 200))
        found = compare(Given(a), Given(b), X=None)
        beyond.append(abs(found.difference) > 2 * found.standard_error)
    assert abs(np.mean(beyond) - 0.047) < 4 * np.sqrt(0.047 * 0.953 / 1000)


def test_models_of_different_kinds_are_compared() -> None:
    X = np.concatenate([RNG(0).normal(c, 1, (300, 3)) for c in (-5, 5)])
    rows, new = X[::2], X[1::2]
    mixture = DPMixture(random_state=0, engine="serial").fit(rows)
    flat = OnlinePPCA(n_components=1, engine="serial").fit(rows)
    theirs = GaussianMixture(1, random_state=0).fit(rows)
    for other in (flat, theirs):
        found = compare(mixture, other, new)
        assert found.difference > 2 * found.standard_error
        back = compare(other, mixture, new)
        assert back.difference == pytest.approx(-found.difference)
        assert back.standard_error == pytest.approx(found.standard_error)


def test_topic_models_are_compared_by_document() -> None:
    texts = ["cats purr and sleep", "stocks fall and rise"] * 60
    good = TopicModel(n_topics=2, random_state=0).fit(texts)
    poor = TopicModel(n_topics=1, random_state=0).fit(texts)
    found = compare(good, poor, texts[:20])
    assert found.n == 20
    assert found.difference > 0


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'b' of compare .* got dict"):
        compare(Given([1.0, 2.0]), {}, X=None)
    with pytest.raises(ValueError, match=r"shape \(2,\) and \(3,\)"):
        compare(Given([1.0, 2.0]), Given([1.0, 2.0, 3.0]), X=None)
    with pytest.raises(ValueError, match="at least 2 rows"):
        compare(Given([1.0]), Given([1.0]), X=None)
    with pytest.raises(ValueError, match="finite"):
        compare(Given([1.0, -np.inf]), Given([1.0, 2.0]), X=None)
