"""Documents that every topic model must refuse, each with words that the error has."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from support.corpora import BATCH, N_WORDS, TEXTS, TOKENS, X

N = 3 * BATCH


def with_entry(value: Any, dtype: Any = float) -> np.ndarray:
    changed = X[:N].toarray().astype(dtype)
    changed[-1, -1] = value
    return changed


def sparse_entry(value: float) -> sparse.csr_array:
    return sparse.csr_array(with_entry(value))


COUNTS: dict[str, tuple[Any, str]] = {
    "nan": (with_entry(np.nan), "NaN"),
    "inf": (with_entry(np.inf), "infinity"),
    "minus inf": (with_entry(-np.inf), "infinity"),
    "huge": (with_entry(1e300), "2**31 - 1, got 1e+300"),
    "larger than a count": (with_entry(2.0**31), "2**31 - 1"),
    "negative": (with_entry(-3.0), "Negative"),
    "fraction": (with_entry(0.5), "whole numbers, got 0.5"),
    "sparse nan": (sparse_entry(np.nan), "NaN"),
    "sparse negative": (sparse_entry(-3.0), "Negative"),
    "sparse fraction": (sparse_entry(2.5), "whole numbers, got 2.5"),
    "sparse huge": (sparse_entry(1e300), "1e+300"),
    "too wide": (sparse.hstack([X, X]).tocsr()[:N], f"{2 * N_WORDS} features"),
    "too narrow": (X[:N, 1:], f"{N_WORDS - 1} features, but"),
    "no columns": (X[:N].toarray()[:, :0], "0 feature(s)"),
    "no rows": (X[:0], "0 sample(s)"),
    "no documents": ([], "X"),
    "one dimension": (X[:N].toarray()[0], "X"),
    "three dimensions": (X[:N].toarray()[None], "dim 3"),
    "a number": (7.0, "scalar array"),
    "nothing": (None, "X"),
    "one text": ("a text", "one str"),
    "bytes": (X[:N].toarray().astype("S8"), "X"),
    "words": (with_entry("a lot", object), "a lot"),
    "objects": (with_entry(object(), object), "object"),
    "complex": (with_entry(1j, complex), "omplex"),
    "dates": (np.full((N, N_WORDS), "2020-01-01", "M8[D]"), "X"),
    "a mapping": ({"X": X[:N]}, "pass list(X.values())"),
    "a frame of text": (pd.DataFrame([["no"] * N_WORDS] * N), "pass one column"),
}
DOCUMENTS: dict[str, tuple[Any, str]] = {
    "bytes": ([*TEXTS[: N - 1], b"bytes"], "document"),
    "only bytes": ([b"bytes"] * N, "X"),
    "nothing": ([*TEXTS[: N - 1], None], "document"),
    "a number": ([*TEXTS[: N - 1], 7], "document"),
    "no documents": ([], "at least one document"),
    "one text": ("a text", "one str"),
    "one bytes": (b"a text", "one bytes"),
    "a word that is a number": ([["a", "b"], ["c", 3]], "a token of document 1"),
    "words that are bytes": ([["a", "b"], [b"c"]], "a token of document 1"),
    "a set": ([["a"], {"b"}], "document 1"),
    "mixed forms": ([*TEXTS[: N - 1], ["a", "b"]], "document"),
    "mixed forms, tokens first": ([["a", "b"], *TEXTS[: N - 1]], "document 1"),
}
ANOTHER_FORM: dict[str, tuple[Any, str]] = {
    "ragged": ([*X[:N].toarray().tolist(), [1]], "X"),
    "texts": (TEXTS[:N], "table of counts in learning and is now strings"),
    "tokens": (TOKENS[:N], "table of counts in learning and is now strings"),
}
"""After tables of counts; a new model may learn from these."""
ANOTHER_FORM_THAN_TEXTS: dict[str, tuple[Any, str]] = {
    "counts": (X[:N], "strings or lists of strings"),
    "word numbers": ([np.array([1, 2]), np.array([1])], "word numbers"),
}
"""After texts."""
