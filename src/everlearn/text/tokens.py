"""Split texts into tokens, and find out what form the documents in X have."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Sized
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

Form: TypeAlias = Literal["counts", "ids", "tokens", "texts"]
"""A table of counts, arrays of word numbers, lists of strings, or strings."""


def tokenize(
    texts: Sequence[Any], token_pattern: str, stop_words: Collection[str] | str | None = None
) -> list[list[str]]:
    r"""The tokens of each text in lower case, as scikit-learn's `CountVectorizer` finds them.

    Parameters
    ----------
    texts : sequence of str
        The documents.
    token_pattern : str
        Regular expression of a token.
    stop_words : collection of str, "english" or None, default=None
        Tokens to leave out, in any case.

    Examples
    --------
    >>> tokenize(["The cat, the hat"], r"\w+", stop_words=["the"])
    [['cat', 'hat']]
    """
    if stop_words is not None and not isinstance(stop_words, str):
        stop_words = [word.lower() for word in stop_words]
    vectorizer = CountVectorizer(token_pattern=token_pattern, stop_words=stop_words)
    tokens_of = vectorizer.build_analyzer()
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"document {i} must be a string like the others, got {text!r:.40}; "
                "an empty document is ''"
            )
    return [tokens_of(text) for text in texts]


def document_form(X: Any, known: Form | None = None) -> Form:
    """The form of the documents, judged by the first one that is not empty.

    Sparse tables, data frames and arrays with two axes are counts. A list may hold strings, lists
    of strings, or rows of numbers. Rows of numbers can be counts or word numbers: the `known` form
    decides, if it is one of the two. Otherwise integer arrays, and integers in rows of different
    lengths, are word numbers. All other rows are counts, as in scikit-learn.
    """
    if isinstance(X, (str, bytes)):
        raise ValueError(
            f"expected a list of documents, got one {type(X).__name__}; "
            "put a single document into a list"
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
    """The documents of a list, array or data frame column; None if X is something else."""
    has_one_axis = not sparse.issparse(X) and len(getattr(X, "shape", ())) == 1
    return list(X) if isinstance(X, (list, tuple)) or has_one_axis else None


def _are_ids(documents: Sequence[Any]) -> bool:
    """Whether rows of numbers are word numbers rather than counts."""
    uneven = len({_size(d) for d in documents}) > 1
    if not uneven and not all(isinstance(d, np.ndarray) for d in documents):
        return False
    return all(np.asarray(d).dtype.kind in "iu" for d in documents if _size(d))


def _size(document: object) -> int:
    """Number of entries of a document; 0 if it is no sequence."""
    return len(document) if isinstance(document, Sized) else 0
