"""Linear models keep the promises of all estimators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier as Classifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor
from everlearn.testing.checks import Case, Check, Spoilt, checks_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5)) * (RNG.random((120, 5)) < 0.8)
SCORES = X @ RNG.normal(size=(5, 3)) + 0.1 * RNG.normal(size=(120, 3))
NAMES = ["ash", "elm", "oak"]
TARGETS: dict[str, Any] = {
    "binary": np.where(SCORES[:, 0] > 0, "yes", "no"),
    "multiclass": np.array(NAMES, object)[SCORES.argmax(axis=1)],
    "multilabel": (SCORES > 0).astype(int),
    "number": SCORES[:, 0],
    "numbers": SCORES,
}
CLASSES = {"binary": ["no", "yes"], "multiclass": NAMES}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "averaging": {"loss": "averaging", "slack": "linear", "batch_size": 1},
    "batch": {"loss": "averaging", "batch_size": 10},
    "no intercept": {"fit_intercept": False},
    "full": {"slack": "linear", "batch_size": 2},
    "diag": {"slack": "linear", "covariance": "diag", "batch_size": 5},
    "squared diag": {"covariance": "diag"},
    "sampled": {"slack": "linear", "inference": "sampled", "batch_size": 10},
}


def with_entry(value: float) -> Any:
    changed = X[:30].copy()
    changed[7, 2] = value
    return changed


def spoilt_inputs(kind: str) -> dict[str, Spoilt]:
    y = TARGETS[kind]
    rows = {
        "nan": (with_entry(np.nan), "NaN"),
        "infinity": (with_entry(np.inf), "infinity"),
        "huge": (with_entry(1e200), "at most"),
        "huge sparse": (sparse.csr_array(with_entry(-1e200)), "at most"),
        "wide": (np.hstack([X, X])[:30], "10 features"),
        "text": (X[:30].astype(str), "expected numbers"),
        "empty": (X[:0], "0 sample"),
        "flat": (X[0], "reshape(-1, 1)"),
        "nothing": (None, "X"),
        "short": (X[:29], "rows"),
    }
    return {name: Spoilt((rows, y[:30]), words) for name, (rows, words) in rows.items()}


def case_of(kind: str, variant: str, table: Any = X) -> Case:
    numbers = kind.startswith("number")
    y = TARGETS[kind]

    def make(**params: Any) -> Any:
        known = {"random_state": 3, **VARIANTS[variant], **params}
        return Regressor(**known) if numbers else Classifier(**known)

    methods = ("predict",) if numbers else ("predict", "decision_function")
    form = ", sparse" if sparse.issparse(table) else ""
    return Case(
        f"{kind}, {variant}{form}",
        make,
        [(table[i : i + 30], y[i : i + 30]) for i in range(0, 120, 30)],
        table[:10],
        methods,
        {"classes": CLASSES[kind]} if kind in CLASSES else {},
        spoilt_inputs(kind),
    )


CASES = [case_of("multiclass", variant) for variant in VARIANTS]
CASES += [case_of(kind, "full") for kind in TARGETS if kind != "multiclass"]
CASES += [case_of("number", "averaging"), case_of("multilabel", "batch")]
CASES += [case_of("binary", variant, sparse.csr_array(X)) for variant in ("averaging", "diag")]


@pytest.mark.parametrize(("case", "check"), checks_of(CASES))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)
