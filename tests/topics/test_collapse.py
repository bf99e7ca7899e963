"""Collapsed topics are noticed in every model, and in small batches once these are enough."""

import warnings

import numpy as np
import pytest

from everlearn.errors import TopicCollapseWarning
from everlearn.testing.data import planted_topics
from everlearn.topics.batches import BatchInfo
from everlearn.topics.collapse import RecentShares
from everlearn.topics.medlda import MedLDAClassifier
from support.corpora import made


def info(shares: list[float], n: int = 64, clock: int = 9, first: int = 0) -> BatchInfo:
    ids = np.arange(first, first + len(shares))
    return BatchInfo(clock, n, 100 * n, ids, np.array(shares), 1, True)


EVEN, HEAVY = [0.4, 0.3, 0.3], [0.0, 0.9, 0.1]


def test_a_batch_is_judged_by_itself_if_it_is_large() -> None:
    watch, found = RecentShares().add_batch([info(EVEN)])
    assert (watch, found) == (RecentShares(), None)
    watch, found = watch.add_batch([info(HEAVY)])
    assert watch == RecentShares()
    assert found is not None
    assert (found.model, found.n_topics) == (0, 3)
    assert found.share == pytest.approx(0.9)


def test_the_worst_of_all_models_is_told() -> None:
    _, found = RecentShares().add_batch(
        [info(EVEN), info([0.05, 0.85, 0.1]), info(HEAVY), info(EVEN)]
    )
    assert found is not None
    assert found.model == 2


def test_documents_of_small_batches_are_added_up() -> None:
    """A single document may well have one topic; sixteen of them should not have the same."""
    watch, found = RecentShares(), None
    for _ in range(15):
        watch, found = watch.add_batch([info(HEAVY, n=1)])
        assert found is None
    _, found = watch.add_batch([info(HEAVY, n=1)])
    assert found is not None
    watch = RecentShares()
    for i in range(64):
        watch, found = watch.add_batch([info(np.eye(4)[i % 4].tolist(), n=1)])
        assert found is None
    assert watch == RecentShares()


def test_topics_are_the_same_by_their_number() -> None:
    watch, _ = RecentShares().add_batch([info(HEAVY, n=8)])
    _, found = watch.add_batch([info(HEAVY, n=8, first=5)])
    assert found is None


def test_a_start_and_two_topics_say_nothing() -> None:
    assert RecentShares().add_batch([info(HEAVY, clock=5)]) == (RecentShares(), None)
    assert RecentShares().add_batch([info([0.99, 0.01])])[1] is None
    _, found = RecentShares().add_batch([info([0.99, 0.01]), info(HEAVY)])
    assert found is not None
    assert found.model == 1


def test_single_documents_from_a_stream_collapse_and_are_told() -> None:
    planted = planted_topics(150, 12, 200, 40, random_state=0)
    paper = {"loss": "gibbs", "C": 328, "variance": 1 / 164**2, "anchors": False}
    model = made(MedLDAClassifier, n_topics=24, random_state=0, engine="serial", **paper)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(150):
            one = slice(i, i + 1)
            model.partial_fit(planted.X[one], planted.labels[one], classes=np.arange(12))
    assert {w.category for w in caught} == {TopicCollapseWarning}
    assert "of 24 topics. " in str(caught[0].message)


def test_a_model_of_one_class_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everlearn.topics.collapse._COLLAPSED", 0.0)
    planted = planted_topics(500, 4, 100, 30, random_state=0)
    names = np.array(["ash", "elm", "fir", "oak"])
    model = MedLDAClassifier(
        n_topics=4, strategy="ovr", batch_size=64, random_state=0, engine="serial"
    )
    with pytest.warns(TopicCollapseWarning, match="4 topics for class (ash|elm|fir|oak)"):
        model.fit(planted.X, names[planted.labels])
