"""Rare words wait until enough texts have them."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from everlearn import TopicModel, load
from everlearn.text.waiting import WaitingWords


def many(n: int, seed: int = 0) -> list[list[str]]:
    """Texts of words whose frequencies fall as those of a language."""
    rng = np.random.default_rng(seed)
    return [[f"w{i}" for i in rng.zipf(1.3, 20) if i < 10**6] for _ in range(n)]


def test_words_are_ripe_once_they_are_in_enough_texts() -> None:
    texts = [["a", "a", "b"], ["b", "c"], ["b", "a"]]
    ripe, waiting = WaitingWords().learn(texts, [], 3, 10)
    assert ripe == {"b"}
    assert (waiting.vocabulary.words, waiting.seen.tolist()) == (["a", "c"], [2, 1])
    ripe, waiting = waiting.learn([["a", "c"], ["d"]], ["b"], 3, 10)
    assert ripe == {"a"}
    assert (waiting.vocabulary.words, waiting.seen.tolist()) == (["c", "d"], [2, 1])


def test_counting_does_not_depend_on_how_texts_are_cut() -> None:
    texts = many(200)
    wanted = {word for word, n in Counter(w for t in texts for w in set(t)).items() if n >= 4}
    for size in (1, 7, 200):
        known: set[str] = set()
        waiting = WaitingWords()
        for start in range(0, 200, size):
            ripe, waiting = waiting.learn(texts[start : start + size], known, 4, 10**6)
            known |= ripe
        assert known == wanted
        assert waiting.seen.max() < 4


def test_few_words_wait_and_frequent_ones_are_not_forgotten() -> None:
    waiting, found = WaitingWords(), set()
    for i in range(60):
        texts = [[f"rare{i}_{j}" for j in range(10)], ["often"] if i % 3 == 0 else []]
        ripe, waiting = waiting.learn(texts, found, 15, 40)
        found |= ripe
        assert len(waiting.seen) <= 40
    assert found == {"often"}


def test_words_of_a_corpus_are_those_of_enough_texts() -> None:
    texts = many(150)
    n = Counter(word for text in texts for word in set(text))
    model = TopicModel(n_topics=3, text={"min_df": 5}, random_state=0).fit(texts)
    assert set(model.vocabulary_) == {word for word in n if n[word] >= 5}
    assert model.n_tokens_seen_ == sum(n[word] >= 5 for text in texts for word in text)


def test_words_of_a_stream_join_when_they_are_in_enough_texts(tmp_path: Path) -> None:
    model = TopicModel(n_topics=2, text={"min_df": 3}, random_state=0)
    model.partial_fit(["cat dog", "cat dog", "cat dog bird"])
    assert model.vocabulary_.tolist() == ["cat", "dog"]
    model.partial_fit(["bird"])
    model.save(tmp_path / "model.evl")  # "bird" is in two texts so far
    for one in (model, load(tmp_path / "model.evl")):
        one.partial_fit(["bird bird fish"])
        assert one.vocabulary_.tolist() == ["cat", "dog", "bird"]
        assert one.n_tokens_seen_ == 8
        one.transform(["fish"])
        one.partial_fit(["fish", "fish"])
        assert one.vocabulary_.tolist() == ["cat", "dog", "bird", "fish"]


def test_first_texts_without_a_frequent_word_are_refused() -> None:
    model = TopicModel(n_topics=2, text={"min_df": 3})
    with pytest.raises(ValueError, match="expected a word in 'min_df' of the first documents"):
        model.partial_fit(["cat dog", "cat"])
    assert not hasattr(model, "_learned")
    with pytest.raises(ValueError, match="a token of document 1 must be a string"):
        model.partial_fit([["cat"], [3]])


def test_a_full_vocabulary_lets_nothing_wait() -> None:
    model = TopicModel(n_topics=2, text={"min_df": 2, "max_features": 2}, random_state=0)
    model.partial_fit(["cat dog", "cat dog"])
    model.partial_fit(["bird", "bird fish"])
    assert model.vocabulary_.tolist() == ["cat", "dog"]
    assert len(model._learned.words.waiting.seen) == 0
