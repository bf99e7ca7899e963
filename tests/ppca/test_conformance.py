"""`OnlinePPCA` keeps the promises of all estimators, in every form that its state can have."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.testing.checks import Case, Check, Spoilt, checks_of
from support.ppca_data import SETTINGS, WIDTH, model_of, rows_of


def batches() -> list[tuple[np.ndarray]]:
    """A stream whose plane changes in the middle, with gaps in every other batch."""
    parts = [rows_of(60, seed=step // 3, gaps=0.05 * (step % 2)) for step in range(6)]
    return [(part,) for part in parts]


def with_entry(value: Any, dtype: Any = float) -> Any:
    changed = rows_of(9).astype(dtype)
    changed[-1, -1] = value
    return changed


X = rows_of(9)
SPOILT: dict[str, tuple[Any, str]] = {
    "inf": (with_entry(np.inf), "infinity"),
    "minus inf": (with_entry(-np.inf), "infinity"),
    "huge": (with_entry(1e300), "1e+300"),
    "text": (with_entry("many", object), "many"),
    "complex": (with_entry(1j, complex), "omplex"),
    "too wide": (np.hstack([X, X]), f"{2 * WIDTH} features"),
    "too narrow": (X[:, 1:], f"{WIDTH - 1} features"),
    "no rows": (X[:0], "0 sample"),
    "one dimension": (X[0], "reshape(-1, 1)"),
    "a number": (7.0, "got 7.0"),
    "nothing": (None, "X"),
    "sparse": (sparse.csr_array(X), "parse"),
    "dates": (np.full(X.shape, "2020-01-01", "M8[D]"), "dtype"),
    "a frame of text": (pd.DataFrame([["no"] * WIDTH]), "no"),
}


def case_of(setting: str) -> Case:
    return Case(
        setting,
        lambda **params: model_of(setting, **params),
        batches(),
        rows_of(20, 1, gaps=0.1),
        ("transform", "score_samples", "impute"),
        spoilt={name: Spoilt((rows,), words) for name, (rows, words) in SPOILT.items()},
    )


@pytest.mark.parametrize(("case", "check"), checks_of([case_of(name) for name in SETTINGS]))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("method", ["transform", "score_samples", "impute", "fit"])
@pytest.mark.parametrize("spoilt", SPOILT)
def test_every_method_refuses_spoilt_rows(method: str, spoilt: str) -> None:
    model = model_of("mixture").partial_fit(rows_of(60))
    rows, words = SPOILT[spoilt]
    if method == "fit" and spoilt.startswith("too"):
        model.fit(rows)
        return
    with pytest.raises((TypeError, ValueError)) as caught:
        getattr(model, method)(rows)
    assert words in str(caught.value)
    assert "OnlinePPCA" in str(caught.value)
    assert model.n_samples_seen_ == 60
