"""A vocabulary that grows with the stream up to a limit.

A new word takes the next column when it is first seen, so the columns do not depend on how the
stream is cut into batches. Once the vocabulary is full, new words are left out. No word is ever
removed, because the statistics of a column belong to one word for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.errors import CheckpointError

LONGEST_WORD: Final = 256
"""Longer strings do not become words, so `max_features` also limits the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Words and their columns.

    Attributes
    ----------
    columns : mapping of words to 0, 1, 2 and so on, in this order
    max_features : int, number of words at which the vocabulary is full

    Examples
    --------
    >>> empty = Vocabulary(max_features=3)
    >>> grown, documents = empty.encode([["to", "be", "or"], ["not", "to", "be"]])
    >>> grown.words, len(empty), documents.words.tolist()
    (['to', 'be', 'or'], 0, [0, 1, 2, 0, 1])
    """

    columns: Mapping[str, int] = field(default_factory=dict, repr=False)
    max_features: int = 100_000

    @classmethod
    def fixed(cls, words: Sequence[str] | Mapping[str, int]) -> Vocabulary:
        """A full vocabulary of these words, in this order or in the columns of a mapping.

        Examples
        --------
        >>> Vocabulary.fixed({"no": 1, "yes": 0}).words
        ['yes', 'no']
        """
        if isinstance(words, (str, bytes)):
            raise ValueError(f"a vocabulary must be a sequence of words, got {words[:40]!r}")
        listed = _words_by_column(words) if isinstance(words, Mapping) else list(words)
        return cls(_columns_of(listed), len(listed))

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def words(self) -> list[str]:
        """The words, in the order of their columns."""
        return list(self.columns)

    def encode(
        self, token_lists: Iterable[Iterable[str]], *, grow: bool = True
    ) -> tuple[Vocabulary, Documents]:
        """The vocabulary extended by new words, and the documents over its columns.

        This vocabulary itself does not change. A new word is left out if the vocabulary is full or
        `grow` is False, or if the word is too long.

        Parameters
        ----------
        token_lists : iterable of iterables of str
            The tokens of each document.
        grow : bool, default=True
            Whether new words are added.

        Returns
        -------
        vocabulary : Vocabulary
            This object if no word was added.
        documents : Documents
            One for each token list; empty if no token is in the vocabulary.
        """
        known = self.columns
        new_words: dict[str, int] = {}
        room = self.max_features - len(self) if grow else 0
        rows = []
        for i, tokens in enumerate(token_lists):
            row = []
            for token in checked_tokens(tokens, i):
                column = known.get(token)
                if column is None:
                    column = new_words.get(token)
                if column is None and len(new_words) < room and len(token) <= LONGEST_WORD:
                    # str(): tokens may be strings of NumPy, which must not get into files
                    column = new_words[str(token)] = len(self) + len(new_words)
                if column is not None:
                    row.append(column)
            rows.append(np.array(row, dtype=np.int64))
        grown = replace(self, columns={**known, **new_words}) if new_words else self
        return grown, Documents.from_tokens(rows)

    def to_utf8(self) -> tuple[NDArray[np.uint8], IntVec]:
        """All words in one array of UTF-8 bytes, and the end of each word in it."""
        encoded = [word.encode("utf-8", "surrogatepass") for word in self.columns]
        ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
        return np.frombuffer(b"".join(encoded), dtype=np.uint8), ends

    @classmethod
    def from_utf8(cls, text: NDArray[np.uint8], ends: IntVec, max_features: int) -> Vocabulary:
        """Inverse of `to_utf8`; raises a CheckpointError for arrays it cannot have written."""
        places = [0, *ends.tolist()]
        if places != sorted(places) or places[-1] != text.size:
            raise CheckpointError(
                f"the ends of the words must rise from 0 to {text.size}, the length of their text"
            )
        data = text.tobytes()
        try:
            words = [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(places)]
            return cls(_columns_of(words), max_features)
        except ValueError as error:
            raise CheckpointError(f"the words cannot be read: {error}") from error


def checked_tokens(tokens: Iterable[Any], document: int) -> Iterable[str]:
    """The tokens of a document; raises a ValueError unless all are strings."""
    if isinstance(tokens, (str, bytes, Mapping, Set)) or not isinstance(tokens, Iterable):
        raise ValueError(
            f"document {document} must be a sequence of tokens, got {type(tokens).__name__}"
        )
    tokens = list(tokens)
    for token in tokens:
        if not isinstance(token, str):
            raise ValueError(f"a token of document {document} must be a string, got {token!r}")
    return tokens


def _columns_of(words: Sequence[Any]) -> dict[str, int]:
    """Number distinct words in their order."""
    columns: dict[str, int] = {}
    for column, word in enumerate(words):
        if not isinstance(word, str):
            raise ValueError(f"a word of a vocabulary must be a string, got {word!r}")
        if columns.setdefault(str(word), column) != column:
            raise ValueError(f"a vocabulary must not repeat a word, got {word!r} twice")
    return columns


def _words_by_column(words: Mapping[str, Any]) -> list[str]:
    """The words in the order of their columns, which must be 0, 1, 2 and so on."""
    listed = sorted(words, key=lambda word: words[word])
    if [words[word] for word in listed] != list(range(len(words))):
        raise ValueError(
            f"a vocabulary given as a mapping must number its {len(words)} words "
            f"from 0 to {len(words) - 1}, each once"
        )
    return listed
