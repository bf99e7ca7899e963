"""Topic models keep the promises of all estimators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everlearn.testing.checks import Case, Check, Spoilt, checks_of
from support.corpora import (
    BATCH,
    CLASSIFIERS,
    INDICATORS,
    LABELS,
    NAMES,
    TEXTS,
    X,
    made,
    model_of,
    targets_of,
)
from support.spoilt_documents import COUNTS, DOCUMENTS, N


def replaced(y: np.ndarray, value: Any) -> np.ndarray:
    changed = y[:N].astype(object)
    changed[5] = value
    return changed


def wrong_targets(y: np.ndarray) -> dict[str, tuple[Any, str]]:
    """Labels or numbers that cannot be learned with the first `N` documents."""
    wanted = f"expected {N} numbers" if y.dtype.kind == "f" else f"expected a label for each of {N}"
    few, many = f", got {N - 1}", f", got {N + 1}"
    rest = "" if y.dtype.kind == "f" else " rows"
    return {
        "too few": (y[: N - 1], f"{wanted}{rest}{few}"),
        "too many": (y[: N + 1], f"{wanted}{rest}{many}"),
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
    case_of("topics, number, texts", "lda", TEXTS, stop_words="auto"),
    case_of("topics, warm-up", "lda, young"),
    case_of("topics, infer", "hdp"),
    case_of("classes, averaging", "averaging"),
    case_of("classes, gibbs", "gibbs"),
    case_of("classes, own topics", "gibbs, ovr", retention=0.9),
    case_of("classes, word weights, texts", "averaging, words", TEXTS),
    multilabel(),
    case_of("classes, born", "born, words", TEXTS),
    case_of("classes, born, gibbs", "born, gibbs"),
    case_of("numbers", "number", TEXTS, text={"min_df": 2}),
    case_of("numbers, gibbs", "number, gibbs"),
]


@pytest.mark.parametrize(("case", "check"), checks_of(CASES))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)
