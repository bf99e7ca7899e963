"""Raw text to tokens, and telling apart the forms in which documents come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

Analyzer: TypeAlias = Callable[[str], Iterable[str]]
"""The tokens of one text."""
Form: TypeAlias = Literal["counts", "ids", "tokens", "texts"]
"""A table of counts, arrays of word numbers, lists of strings, or strings."""


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How a text is cut into tokens: scikit-learn's `CountVectorizer` does it.

    Attributes
    ----------
    lowercase : bool, whether the text is put into lower case first
    token_pattern : str, regular expression of a token
    stop_words : tuple of str, "english" or None, tokens to leave out

    Examples
    --------
    >>> TextSettings(stop_words=("the",)).analyzer()("The cat, the hat")
    ['cat', 'hat']
    """

    lowercase: bool = True
    token_pattern: str = r"(?u)\b\w\w+\b"
    stop_words: tuple[str, ...] | str | None = None

    def analyzer(self) -> Analyzer:
        """The function from text to tokens."""
        stop_words = self.stop_words
        vectorizer = CountVectorizer(
            lowercase=self.lowercase,
            token_pattern=self.token_pattern,
            stop_words=list(stop_words) if isinstance(stop_words, tuple) else stop_words,
        )
        analyze: Analyzer = vectorizer.build_analyzer()
        return analyze


def tokenize(texts: Sequence[Any], how: TextSettings | Analyzer) -> list[list[str]]:
    """The tokens of each text, by settings or by any function from text to tokens."""
    analyze = how.analyzer() if isinstance(how, TextSettings) else how
    out = []
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"document {i} must be a string as others are, got {text!r:.40}; "
                "an empty document is ''"
            )
        out.append(list(analyze(text)))
    return out


def document_form(X: Any, known: Form | None = None) -> Form:
    """The form in which documents come, judged by the first that is not empty.

    Sparse tables, frames and arrays with two axes are counts. A list holds strings, lists of
    strings, or rows of numbers. Rows of numbers have the form that is already known, if it is one
    of numbers. Otherwise they are numbers of words if they are integer arrays, or integers in rows
    of different lengths, and counts in all other cases, as everywhere in scikit-learn.
    """
    if isinstance(X, (str, bytes)):
        raise ValueError(
            f"expected a list of documents, got one {type(X).__name__}; "
            "for a single document give a list that holds it"
        )
    documents = listed(X)
    if documents is None:
        return "counts"
    first = next((d for d in documents if isinstance(d, str) or _size(d)), None)
    if isinstance(first, str):
        return "texts"
    if first is None:
        return "counts" if known is None else known
    if isinstance(next(iter(first)), str):
        return "tokens"
    if known in ("counts", "ids"):
        return known
    return "ids" if _are_ids(documents) else "counts"


def listed(X: Any) -> list[Any] | None:
    """The documents of a list or of a column of a frame; None, if X is something else."""
    has_one_axis = not sparse.issparse(X) and len(getattr(X, "shape", ())) == 1
    return list(X) if isinstance(X, (list, tuple)) or has_one_axis else None


def _are_ids(documents: Sequence[Any]) -> bool:
    """Whether rows of numbers that could be counts as well are taken for numbers of words."""
    uneven = len({_size(d) for d in documents}) > 1
    if not uneven and not all(isinstance(d, np.ndarray) for d in documents):
        return False
    return all(np.asarray(d).dtype.kind in "iu" for d in documents if _size(d))


def _size(document: Any) -> int:
    """Number of entries of a document; none, if it is no sequence."""
    return len(document) if hasattr(document, "__len__") else 0
