"""The words that describe a topic, against the plain formula."""

import numpy as np
import pytest

from everlearn.text.ranking import TopicWords

PRIOR = 0.1


def words_of(counts: np.ndarray) -> TopicWords:
    return TopicWords(counts, counts.sum(axis=0), len(counts), PRIOR)


def plain_scores(counts: np.ndarray) -> np.ndarray:
    """p log(p / p of the other topics), a cell at a time."""
    n_words, k = counts.shape
    smooth, scores = counts + PRIOR, np.zeros(counts.shape)
    for topic in range(k):
        rest = sum(smooth[:, j] for j in range(k) if j != topic)
        for word in range(n_words):
            p = smooth[word, topic] / smooth[:, topic].sum()
            scores[word, topic] = p * np.log(p / (rest[word] / rest.sum()))
    return scores


def test_the_ranking_is_the_formula() -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(0.3, 20.0, (40, 5))).astype(float)
    scores = plain_scores(counts)
    for topic, places in enumerate(words_of(counts).top(40)):
        np.testing.assert_allclose(scores[places, topic], np.sort(scores[:, topic])[::-1])


def test_words_of_all_topics_come_after_words_of_one() -> None:
    counts = np.zeros((12, 2))
    counts[0] = 50.0  # "the"
    counts[1:4, 0] = counts[4:7, 1] = 9.0
    table = words_of(counts)
    first, second = table.top(3)
    assert first.tolist() == [1, 2, 3]
    assert second.tolist() == [4, 5, 6]
    assert [places[0] for places in table.top(3, "probability")] == [0, 0]


def test_a_topic_that_has_nearly_all_tokens_has_distinct_words() -> None:
    counts = np.full((30, 2), 1.0)
    counts[:, 0] = 1000.0
    counts[0] = [1000.0, 20.0]  # common, but more so elsewhere
    counts[1] = [1000.0, 0.0]
    assert words_of(counts).top(1)[0].tolist() == [1]


def test_an_only_topic_lists_its_likeliest_words() -> None:
    table = words_of(np.array([[1.0], [5.0], [3.0], [5.0]]))
    assert table.top(3)[0].tolist() == table.top(3, "probability")[0].tolist() == [1, 3, 2]
    assert table.log_lifts(0).tolist() == [1.0] * 4


def test_topics_without_tokens_are_ranked() -> None:
    places = words_of(np.zeros((3, 2))).top(2)
    assert [p.tolist() for p in places] == [[0, 1], [0, 1]]


def test_topics_of_several_models_are_compared_with_all() -> None:
    counts = np.random.default_rng(1).gamma(0.3, 20.0, (20, 6))
    parts = [words_of(counts[:, :2]), words_of(counts[:, 2:])]
    joined, whole = TopicWords.joined(parts).top(5), words_of(counts).top(5)
    assert [p.tolist() for p in joined] == [p.tolist() for p in whole]


@pytest.mark.parametrize("n", [1, 3, 9, 10, 99])
def test_as_many_words_as_there_are(n: int) -> None:
    assert {len(p) for p in words_of(np.eye(10)).top(n)} == {min(n, 10)}


def test_own_words_are_those_that_a_topic_has_more_often() -> None:
    counts = np.array([[50.0, 50.0], [9.0, 0.0], [0.0, 9.0], [0.0, 0.0], [6.0, 6.0]])
    table = words_of(counts)
    assert [p.tolist() for p in table.top(5, own=True)] == [[1], [2]]
    likely = table.top(5, "probability", own=True)
    assert [p.tolist() for p in likely] == [[0, 1, 4], [0, 2, 4]]
