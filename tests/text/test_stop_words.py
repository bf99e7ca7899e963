"""Stop words that are found in the texts."""

from pathlib import Path

import numpy as np
import pytest

from everlearn import MedLDAClassifier, TopicModel, TopicTree, load, merge
from everlearn.text.stop_words import ENOUGH, StopWords

COMMON = [f"the{i}" for i in range(5)]
SUBJECTS = [[f"s{topic}w{i}" for i in range(30)] for topic in range(4)]


def planted_texts(n: int, seed: int, length: int = 40) -> list[list[str]]:
    """Each text has one subject; half of its words are common to all, at rates from 2 to 20 %."""
    rng = np.random.default_rng(seed)
    rates = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    found = []
    for i in range(n):
        words = rng.choice(SUBJECTS[i % 4], length).tolist()
        common = rng.choice(COMMON, length, p=rates).tolist()
        is_common = rng.random(length) < 0.5
        found.append(np.where(is_common, common, words).tolist())
    return found


def joined(texts: list[list[str]]) -> list[str]:
    return [" ".join(text) for text in texts]


@pytest.mark.parametrize("n", [ENOUGH, 400, 3000])
@pytest.mark.parametrize("seed", range(3))
def test_planted_stop_words_are_found(n: int, seed: int) -> None:
    """Of the 120 other words, at most one is taken for a stop word after 100 texts."""
    found = StopWords().learn(planted_texts(n, seed)).words
    assert set(COMMON) <= set(found)
    assert len(found) - len(COMMON) <= (1 if n == ENOUGH else 0)


def test_long_texts_of_many_words_have_stop_words() -> None:
    assert StopWords().learn(planted_texts(100, 0, length=2000)).words == COMMON


def test_the_variation_is_that_of_the_plain_formula() -> None:
    texts = [["a"] * 3 + ["b"] * 5, ["b"] * 4, ["a"] * 2 + ["c"] * 4] * 10
    found = StopWords().learn(texts)
    x = np.array([[text.count(word) for word in "abc"] for text in texts], float)
    n = np.array([len(text) for text in texts], float)
    assert not found.is_chosen
    assert found.vocabulary.words == ["a", "b", "c"]
    assert (found.n_documents, found.n_tokens, found.n_squares) == (30, n.sum(), (n * n).sum())
    np.testing.assert_array_equal(
        found.sums, np.stack([x.sum(0), (x * x).sum(0), (n[:, None] * x).sum(0)], axis=1)
    )


def test_texts_without_common_words_lose_none() -> None:
    rng = np.random.default_rng(0)
    texts = [rng.choice(SUBJECTS[i % 4], 40).tolist() for i in range(300)]
    found = StopWords().learn(texts)
    assert found.is_chosen
    assert found.words == []
    assert found.leave_out(texts) == texts


def test_counting_goes_on_from_call_to_call_and_ends_for_good() -> None:
    texts, parts = planted_texts(ENOUGH, 5), StopWords()
    for start in range(0, ENOUGH, 10):
        assert parts.words == []
        assert parts.leave_out(texts[:1]) == texts[:1]
        parts = parts.learn(texts[start : start + 10])
    assert parts.words == StopWords().learn(texts).words == COMMON
    assert len(parts.sums) == 0
    assert parts.learn([["new"] * 9] * 500) is parts


def test_words_of_joined_parts() -> None:
    one, other = StopWords.chosen(["a", "b"], 100), StopWords.chosen(["b", "c"], 200)
    both = StopWords.joined([one, StopWords(), other])
    assert (both.words, both.n_documents) == (["a", "b", "c"], 300)
    assert not StopWords.joined([StopWords().learn([["a"]]), StopWords()]).vocabulary.words


@pytest.mark.parametrize("estimator", [TopicModel, TopicTree, MedLDAClassifier])
def test_models_learn_without_the_words_they_find(estimator: type, tmp_path: Path) -> None:
    texts = planted_texts(160, 1)
    y = np.arange(160) % 4 if estimator is MedLDAClassifier else None
    model = estimator(stop_words="auto", random_state=0).fit(joined(texts), y)
    assert model.stop_words_ == COMMON
    assert not set(COMMON) & set(model.vocabulary_)
    plain = estimator(random_state=0).fit(
        [[word for word in text if word not in COMMON] for text in texts], y
    )
    np.testing.assert_array_equal(model.components_, plain.components_)
    probe = joined(planted_texts(8, 2))
    np.testing.assert_array_equal(
        model.transform(probe),
        plain.transform([[w for w in text.split() if w not in COMMON] for text in probe]),
    )


def test_a_stream_finds_its_stop_words_once_it_has_seen_enough(tmp_path: Path) -> None:
    texts = joined(planted_texts(200, 3))
    model = TopicModel(n_topics=4, stop_words="auto", random_state=0)
    model.partial_fit(texts[:60])
    assert model.stop_words_ == []
    model.save(tmp_path / "model.evl")  # in the middle of counting
    back = load(tmp_path / "model.evl")
    for one in (model, back):
        one.partial_fit(texts[60:120])
        one.partial_fit(texts[120:])
        assert one.stop_words_ == COMMON
    np.testing.assert_array_equal(model.components_, back.components_)
    assert set(COMMON) <= set(model.vocabulary_)  # from the first 60 texts
    before = model.n_tokens_seen_
    model.partial_fit([" ".join(COMMON * 9)])
    assert model.n_tokens_seen_ == before
    np.testing.assert_allclose(
        model.transform([" ".join(COMMON)]), model.transform([""]), atol=1e-12
    )


def test_merged_models_leave_out_the_words_of_both() -> None:
    models = [
        TopicModel(n_topics=4, stop_words="auto", random_state=0).fit(joined(planted_texts(150, s)))
        for s in range(2)
    ]
    assert merge(models).stop_words_ == COMMON


def test_other_settings_find_no_words() -> None:
    model = TopicModel(n_topics=2, random_state=0).fit(joined(planted_texts(120, 0)))
    assert model.stop_words_ == []
