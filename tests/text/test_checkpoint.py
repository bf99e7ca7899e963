"""The words of a model come back from a file as they were."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.store.schema import Reading
from everlearn.text.checkpoint import WORDS
from everlearn.text.inputs import WordSpace
from everlearn.text.stop_words import StopWords
from everlearn.text.vocabulary import Vocabulary

NAMED = WordSpace(
    "words", 3, replace(Vocabulary.fixed(["ash", "", "Eiche \ud800"]), max_features=9)
)


def packed(space: WordSpace) -> tuple[Any, dict[str, Any]]:
    arrays: dict[str, Any] = {}
    return WORDS.pack(space, "words", arrays), arrays


def unpacked(header: Any, arrays: dict[str, Any]) -> WordSpace:
    space: WordSpace = WORDS.unpack(header, "words", Reading(arrays))
    return space


@pytest.mark.parametrize("kind", ["counts", "ids"])
def test_words_without_names_come_back(kind: Any) -> None:
    assert unpacked(*packed(WordSpace(kind, 5))) == WordSpace(kind, 5)


def test_words_with_names_come_back() -> None:
    back = unpacked(*packed(NAMED))
    assert (back.kind, back.n_words) == ("words", 3)
    assert back.vocabulary is not None
    assert back.vocabulary.words == ["ash", "", "Eiche \ud800"]
    assert back.vocabulary.max_features == 9


@pytest.mark.parametrize("n_texts", [3, 150])
def test_stop_words_come_back_while_they_are_counted_and_afterwards(n_texts: int) -> None:
    found = StopWords().learn([["the", "ash"], ["the", "", "elm"], ["the"]] * (n_texts // 3))
    back = unpacked(*packed(replace(NAMED, stop_words=found))).stop_words
    assert back is not None
    assert back.is_chosen == (n_texts == 150)
    assert back.vocabulary.words == found.vocabulary.words
    np.testing.assert_array_equal(back.sums, found.sums)
    for name in ("n_documents", "n_tokens", "n_squares"):
        assert getattr(back, name) == getattr(found, name)


def test_stop_words_that_cannot_be_are_refused() -> None:
    found = StopWords().learn([["the", "ash"]] * 3)
    header, arrays = packed(replace(NAMED, stop_words=found))
    arrays["words/stop_words/sums"] = arrays["words/stop_words/sums"][1:]
    with pytest.raises(CheckpointError, match="words/stop_words/sums"):
        unpacked(header, arrays)


@pytest.mark.parametrize(
    ("place", "value"),
    [("ends", [0, 9, 4]), ("ends", [3, 3, 99]), ("ends", [3, 3]), ("ends", [1, 2, 3])],
)
def test_what_is_no_vocabulary_is_refused(place: str, value: list[int]) -> None:
    header, arrays = packed(NAMED)
    arrays[f"words/vocabulary/{place}"] = np.array(value)
    with pytest.raises(CheckpointError):
        unpacked(header, arrays)


def test_words_with_names_need_a_vocabulary_of_their_number() -> None:
    header, arrays = packed(NAMED)
    with pytest.raises(CheckpointError, match="words/vocabulary"):
        unpacked({**header, "vocabulary": None}, {})
    with pytest.raises(CheckpointError, match="words/n_words"):
        unpacked({**header, "n_words": 4}, arrays)
