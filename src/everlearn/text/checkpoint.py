"""Checkpoint schema of a model's vocabulary and stop words."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from everlearn.core.documents import LARGEST
from everlearn.store.schema import (
    Array,
    Converted,
    Optional,
    Record,
    Scalar,
    Schema,
    expect,
)
from everlearn.text.inputs import KINDS, WordSpace
from everlearn.text.stop_words import StopWords
from everlearn.text.vocabulary import Vocabulary
from everlearn.text.waiting import WaitingWords


class _SavedWords(NamedTuple):
    """A vocabulary as arrays: all words in one text, the end of each in it, and the limit."""

    text: NDArray[Any]
    ends: NDArray[Any]
    max_features: int

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> _SavedWords:
        return cls(*vocabulary.to_utf8(), vocabulary.max_features)

    def vocabulary(self) -> Vocabulary:
        return Vocabulary.from_utf8(*self)


def _check_words(space: WordSpace, place: str) -> None:
    named, words = space.kind == "words", space.vocabulary
    expect(words is not None or not named, f"{place}/vocabulary", "there for words with names")
    fits = words is None or len(words) == space.n_words
    expect(fits, f"{place}/n_words", "the number of words in the vocabulary")


def _check_stop_words(found: StopWords, place: str) -> None:
    n_words = 0 if found.is_chosen else len(found.vocabulary)
    right = len(found.sums) == n_words
    expect(right, f"{place}/sums", f"of {n_words} words")


def _vocabulary(of: str) -> Converted:
    """The schema of a vocabulary; `of` names its sizes."""
    fields: dict[str, Schema] = {
        "text": Array(f"{of}bytes", dtypes=("uint8",), low=0, high=255),
        "ends": Array(f"{of}words", dtypes=("int64",), low=0, high=2**53),
        "max_features": Scalar(int, 0, LARGEST),
    }
    saved = Record(_SavedWords, fields)
    return Converted(saved, save=_SavedWords.of, restore=_SavedWords.vocabulary)


_COUNT: Final = Scalar(int, 0, 2**62)
_STOP_WORDS: Final = Record(
    StopWords,
    {
        "vocabulary": _vocabulary("stop "),
        "is_chosen": Scalar(bool),
        "n_documents": _COUNT,
        "n_tokens": _COUNT,
        "n_squares": _COUNT,
        "sums": Array("counted words", 3, low=0),
    },
    _check_stop_words,
)
_WAITING: Final = Record(
    WaitingWords,
    {
        "vocabulary": _vocabulary("waiting "),
        "seen": Array("waiting words", dtypes=("int64",), low=1, high=2**53),
    },
)
WORDS: Final = Record(
    WordSpace,
    {
        "kind": Scalar(str, choices=tuple(KINDS)),
        "n_words": Scalar(int, 1, LARGEST),
        "vocabulary": Optional(_vocabulary("")),
        "stop_words": Optional(_STOP_WORDS),
        "waiting": Optional(_WAITING),
    },
    _check_words,
    lambda space: {"W": space.n_words},
)
"""Schema of a `WordSpace`. It sets the size W, the number of words."""
