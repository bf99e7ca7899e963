"""Topic models keep the promises of all estimators."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.testing.checks import Case, Check, Spoilt, checks_of
from support.corpora import (
    BATCH,
    CLASSIFIERS,
    INDICATORS,
    LABELS,
    N_WORDS,
    NAMES,
    TEXTS,
    X,
    made,
    model_of,
    targets_of,
)

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
    "huge": (with_entry(1e300), "1e+300"),
    "larger than a count": (with_entry(2.0**31), "2**31 - 1"),
    "negative": (with_entry(-3.0), "Negative"),
    "fraction": (with_entry(0.5), "0.5"),
    "sparse nan": (sparse_entry(np.nan), "NaN"),
    "sparse negative": (sparse_entry(-3.0), "Negative"),
    "sparse fraction": (sparse_entry(2.5), "2.5"),
    "sparse huge": (sparse_entry(1e300), "1e+300"),
    "too wide": (sparse.hstack([X, X]).tocsr()[:N], f"{2 * N_WORDS} features"),
    "too narrow": (X[:N, 1:], f"{N_WORDS - 1} features"),
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
    "a mapping": ({"X": X[:N]}, "2D array"),
    "a frame of text": (pd.DataFrame([["no"] * N_WORDS] * N), "'no'"),
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


def replaced(y: np.ndarray, value: Any) -> np.ndarray:
    changed = y[:N].astype(object)
    changed[5] = value
    return changed


def wrong_targets(y: np.ndarray) -> dict[str, tuple[Any, str]]:
    """Labels or numbers that cannot be learned with the first `N` documents."""
    return {
        "too few": (y[: N - 1], str(N - 1)),
        "too many": (y[: N + 1], str(N + 1)),
        "no y": (None, "requires y"),
        "nan in y": (replaced(y, np.nan) if y.dtype.kind == "f" else np.full(N, np.nan), "NaN"),
        "inf in y": (replaced(y, np.inf) if y.dtype.kind == "f" else np.full(N, np.inf), "inf"),
        "another label": (replaced(y, "larch"), "larch"),
        "objects in y": ([object()] * N, "object"),
        "two columns": (np.ones((N, 2)), "y"),
        "bytes in y": (np.array([b"ash"] * N), "y"),
        "a mapping of y": ({"y": y[:N]}, "y"),
    }


def case_of(name: str, base: str, documents: Any = X, **params: Any) -> Case:
    y = targets_of(base)
    learned, spoilt = (COUNTS, {}) if documents is X else (DOCUMENTS, {})
    for kind, (bad, words) in learned.items():
        n = bad.shape[0] if hasattr(bad, "shape") and bad.ndim else N
        n = len(bad) if isinstance(bad, list) else n
        spoilt[kind] = Spoilt((bad,) if y is None else (bad, y[:n]), words)
    if y is not None:
        for kind, (bad, words) in wrong_targets(y).items():
            spoilt[kind] = Spoilt((documents[:N], bad), words)
    parts = [slice(start, start + BATCH) for start in range(0, 4 * BATCH, BATCH)]
    methods = ("transform", "perplexity") if y is None else ("transform", "predict")
    if base in CLASSIFIERS:
        methods += ("decision_function",)
    return Case(
        name,
        lambda **more: model_of(base, **{**params, **more}),
        [(documents[rows],) if y is None else (documents[rows], y[rows]) for rows in parts],
        documents[:20],
        methods,
        {"classes": NAMES} if base in CLASSIFIERS else {},
        spoilt,
    )


def multilabel() -> Case:
    parts = [slice(start, start + BATCH) for start in range(0, 4 * BATCH, BATCH)]
    half, twos = INDICATORS[:N].copy(), INDICATORS[:N].copy()
    half[5, 1], twos[7, 0] = 0.5, 2.0
    return Case(
        "multilabel",
        lambda **more: made(
            type(model_of("averaging")),
            **{"batch_size": BATCH, "random_state": 3, "engine": "serial", **more},
        ),
        [(X[rows], INDICATORS[rows]) for rows in parts],
        X[:20],
        ("transform", "decision_function", "predict"),
        {},
        {
            "too wide": Spoilt((X[:N], np.hstack([INDICATORS, INDICATORS])[:N]), "8"),
            "half a label": Spoilt((X[:N], half), "0.5"),
            "two labels of a kind": Spoilt((X[:N], twos), "2"),
            "classes": Spoilt((X[:N], LABELS[:N]), "indicator"),
            "too few": Spoilt((X[:N], INDICATORS[: N - 1]), str(N - 1)),
        },
    )


CASES = [
    case_of("topics, number", "lda"),
    case_of("topics, number, texts", "lda", TEXTS),
    case_of("topics, warm-up", "lda, young"),
    case_of("topics, infer", "hdp"),
    case_of("classes, averaging", "averaging"),
    case_of("classes, gibbs", "gibbs"),
    case_of("classes, own topics", "gibbs, ovr", retention=0.9),
    case_of("classes, word weights, texts", "averaging, words", TEXTS),
    multilabel(),
    case_of("classes, born", "born, words", TEXTS),
    case_of("classes, born, gibbs", "born, gibbs"),
    case_of("numbers", "number", TEXTS),
    case_of("numbers, gibbs", "number, gibbs"),
]


@pytest.mark.parametrize(("case", "check"), checks_of(CASES))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)
