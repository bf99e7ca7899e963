"""Lists of stop words: scikit-learn's for English, those of the package stop-words for others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

_PACKAGE = "stop_words"


def _languages() -> list[str]:
    """Languages that the package has lists for; none if it is not installed."""
    if find_spec(_PACKAGE) is None:
        return []
    from stop_words import AVAILABLE_LANGUAGES  # noqa: PLC0415

    return sorted(AVAILABLE_LANGUAGES)


@dataclass(frozen=True, slots=True)
class Language:
    """A constraint: the name of a language with a list of stop words, such as "german"."""

    def allows(self, value: object) -> bool:
        """Whether there is a list for the language."""
        return isinstance(value, str) and (value == "english" or value in _languages())

    def __str__(self) -> str:
        if known := _languages():
            return f"'english' or another language ({', '.join(known)})"
        return (
            "'english' (\"pip install 'everlearn[languages]'\" brings 'german', 'french' and 30 "
            "more languages)"
        )


def stop_words_of(language: str) -> Collection[str]:
    """The stop words of a language that `Language` allows."""
    if language == "english":
        return list(ENGLISH_STOP_WORDS)
    from stop_words import get_stop_words  # noqa: PLC0415

    words: list[str] = get_stop_words(language)
    return words
