"""Split texts into tokens, and find out what form the documents in X have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

Form: TypeAlias = Literal["counts", "ids", "tokens", "texts"]
"""A table of counts, arrays of word numbers, lists of strings, or strings."""


def tokenize(
    texts: Sequence[Any], token_pattern: str, stop_words: Collection[str] | None = None
) -> list[list[str]]:
    r"""The tokens of each text in lower case, as scikit-learn's `CountVectorizer` finds them.

    Parameters
    ----------
    texts : sequence of str
        The documents.
    token_pattern : str
        Regular expression of a token.
    stop_words : collection of str or None, default=None
        Tokens to leave out, in any case.

    Examples
    --------
    >>> tokenize(["The cat, the hat"], r"\w+", stop_words=["the"])
    [['cat', 'hat']]
    """
    left_out = None if stop_words is None else [word.lower() for word in stop_words]
    vectorizer = CountVectorizer(token_pattern=token_pattern, stop_words=left_out)
    tokens_of = vectorizer.build_analyzer()
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"document {i} must be a string like the others, got {text!r:.40}; "
                "an empty document is ''"
            )
    return [tokens_of(text) for text in texts]


def runs_of_words(texts: list[list[str]], shortest: int, longest: int) -> list[list[str]]:
    """Words of each text in runs of these lengths, joined by spaces; shorter runs come first.

    Examples
    --------
    >>> runs_of_words([["new", "york", "city"]], 1, 2)
    [['new', 'york', 'city', 'new york', 'york city']]
    """
    if shortest == longest == 1:
        return texts
    return [
        [
            " ".join(words[start : start + n])
            for n in range(shortest, longest + 1)
            for start in range(len(words) - n + 1)
        ]
        for words in texts
    ]


_NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts without spaces: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_LONG_WORD = 4
"""Letters of such a script that hardly any word has."""
_LOOKED_AT = 1000
"""Number of texts of a call to examine, evenly spaced."""


def are_not_split(texts: Sequence[str], tokens: Sequence[Sequence[str]]) -> bool:
    """Whether most texts stay whole, or come in long runs of a script without spaces."""
    step = -(-len(texts) // _LOOKED_AT) if len(texts) else 1
    whole = n_texts = 0
    for text, words in zip(texts[::step], tokens[::step], strict=True):
        if text.strip():
            n_texts += 1
            letters = len(_NO_SPACES.findall(text))
            is_run = letters > len(text) / 2 and letters > _LONG_WORD * len(words)
            is_run |= len(words) == 1 and len(words[0]) > 2 * _LONG_WORD and len(text.split()) == 1
            whole += is_run
    return 2 * whole > n_texts


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
    if isinstance(X, Mapping) and not sparse.issparse(X):
        raise ValueError("expected a list of documents, got a mapping; pass list(X.values())")
    if isinstance(X, Iterator):
        raise ValueError(
            "expected a list of documents, got an iterator; pass list(X), or call partial_fit "
            "with some documents at a time"
        )
    _refuse_tables_of_texts(X)
    documents = listed(X)
    if documents is None:
        return "counts"
    first = next((d for d in documents if isinstance(d, str) or _size(d)), None)
    if isinstance(first, str):
        return "texts"
    if isinstance(first, bytes):
        raise ValueError("documents are bytes; decode them first: [d.decode() for d in documents]")
    if first is None:
        return "counts" if known is None else known
    if isinstance(first, Mapping):
        name = next((name for name, value in first.items() if _is_text(value)), "text")
        raise ValueError(
            f"documents are mappings; pass their texts: [d[{name!r}] for d in documents]"
        )
    token = next(iter(first))
    if isinstance(token, str):
        return "tokens"
    if isinstance(token, bytes):
        raise ValueError("words are bytes; decode them first: word.decode()")
    if known in ("counts", "ids"):
        return known
    return "ids" if _are_ids(documents) else "counts"


def _refuse_tables_of_texts(X: Any) -> None:
    """Raise a ValueError for a data frame or a table with a column of texts."""
    columns = getattr(X, "columns", None)
    if columns is None:
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OSTU" and X.size:
            texts = [k for k in range(X.shape[1]) if _is_text(X[0, k])]
            if texts:
                raise ValueError(f"X is a table of strings; pass one column: X[:, {texts[0]}]")
        return
    for name in columns:
        values = list(X[name][:1])
        if values and _is_text(values[0]):
            raise ValueError(f"X is a data frame; pass one column: df[{name!r}]")


def _is_text(value: object) -> bool:
    """Whether it is a string, and not a number in quotes."""
    if not isinstance(value, (str, bytes)):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


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
