"""`Clusters` keeps the promises of all estimators."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.testing.checks import Case, Check, Spoilt, checks_of
from support.cluster_data import WIDTH, model_of, rows_of

X = rows_of(160)


def with_entry(value: Any, dtype: Any = float) -> Any:
    changed = X[:20].astype(dtype)
    changed[3, 2] = value
    return changed


SPOILT: dict[str, tuple[Any, str]] = {
    "nan": (with_entry(np.nan), "NaN"),
    "infinity": (with_entry(np.inf), "infinity"),
    "huge": (with_entry(1e200), "1e+200"),
    "text": (with_entry("many", object), "many"),
    "complex": (with_entry(1j, complex), "omplex"),
    "an object": (with_entry(object(), object), "X"),
    "too wide": (np.hstack([X, X])[:20], f"{2 * WIDTH} features"),
    "too narrow": (X[:20, 1:], f"{WIDTH - 1} features"),
    "no columns": (X[:20, :0], "0 feature(s)"),
    "no rows": (X[:0], "0 sample(s)"),
    "one dimension": (X[0], "reshape(-1, 1)"),
    "three dimensions": (X[None, :20], "shape (1, 20, "),
    "sparse": (sparse.csr_array(X[:20]), "parse"),
    "dates": (np.full((20, WIDTH), "2020-01-01", "M8[D]"), "dtype"),
    "ragged": ([[1.0, 2.0], [1.0]], "X"),
    "nothing": (None, "X"),
    "a text": ("text", "X"),
    "a frame of text": (pd.DataFrame([["no"] * WIDTH]), "no"),
}
VARIANTS: dict[str, dict[str, Any]] = {"default": {}, "four": {"n_clusters": 4}}


def case_of(name: str) -> Case:
    return Case(
        name,
        lambda **params: model_of(**VARIANTS[name], **params),
        [(X[start : start + 40],) for start in range(0, 160, 40)],
        X[:10],
        ("predict", "score_samples", "score"),
        {},
        {kind: Spoilt((rows,), words) for kind, (rows, words) in SPOILT.items()},
        {"memory_budget": "250kB"},
    )


@pytest.mark.parametrize(("case", "check"), checks_of([case_of(name) for name in VARIANTS]))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)
