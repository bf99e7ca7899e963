"""`ClumpedTopicModel` keeps the promises of all estimators."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.testing.checks import Case, Check, Spoilt, checks_of
from support.clumped_data import FAMILIES, WIDTH, documents


def with_entry(value: Any, dtype: Any = float) -> Any:
    """Documents of which the third has a wrong entry."""

    def spoil(parts: list[Any]) -> list[Any]:
        spoilt = [part.astype(dtype) for part in parts]
        spoilt[2][-1, -1] = value
        return spoilt

    return spoil


def with_last(change: Any) -> Any:
    """Documents of which the last one is changed."""
    return lambda parts: [*parts[:-1], change(parts[-1])]


SPOILT: dict[str, tuple[Any, str]] = {
    "nan": (with_entry(np.nan), "X[2]"),
    "inf": (with_entry(np.inf), "infinity"),
    "minus inf": (with_entry(-np.inf), "X[2]"),
    "huge": (with_entry(1e300), "1e+300"),
    "text": (with_entry("many", object), "many"),
    "complex": (with_entry(1j, complex), "omplex"),
    "an object": (with_entry(object(), object), "X[2]"),
    "too wide": (with_last(lambda x: np.hstack([x, x])), f"{2 * WIDTH} features"),
    "too narrow": (with_last(lambda x: x[:, 1:]), f"{WIDTH - 1} features"),
    "no columns": (with_last(lambda x: x[:, :0]), "0 feature(s)"),
    "an empty document": (with_last(lambda x: x[:0]), "0 sample(s)"),
    "one dimension": (with_last(lambda x: x[0]), "reshape(-1, 1)"),
    "three dimensions": (with_last(lambda x: x[None]), "shape (1, "),
    "a number": (with_last(lambda x: 7.0), "got 7.0"),
    "nothing inside": (with_last(lambda x: None), "X[3]"),
    "a string inside": (with_last(lambda x: "text"), "X[3]"),
    "sparse": (with_last(sparse.csr_array), "parse"),
    "dates": (with_last(lambda x: np.full(x.shape, "2020-01-01", "M8[D]")), "dtype"),
    "ragged": (with_last(lambda x: [[1.0, 2.0, 3.0], [1.0]]), "X[3]"),
    "a frame of text": (with_last(lambda x: pd.DataFrame([["no"] * WIDTH])), "no"),
    "no documents": (lambda parts: [], "a list of documents with at least one"),
    "no tuple of documents": (lambda parts: (), "an empty tuple"),
    "nothing": (lambda parts: None, "X"),
    "a text": (lambda parts: "text", "X"),
    "a mapping": (lambda parts: {"X": parts}, "X"),
    "one row": (lambda parts: parts[0][0], "reshape(-1, 1)"),
    "a cube": (lambda parts: np.stack(parts), "Reshape your data"),
    "a frame with inf": (lambda parts: pd.DataFrame(with_entry(np.inf)(parts)[2]), "inf"),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "small": {"max_clumps": 30, "max_groups": 8, "memory_budget": "20kB"},
    "all points": {"memory_budget": None, "max_clumps": None},
    "tracked": {
        "max_clumps": 30,
        "max_groups": 8,
        "track_documents": True,
        "options": {"group_merge": "free-energy"},
    },
    "given numbers": {"max_clumps": 40, "prior": {"mean_precision": 0.2}, "topic_price": 4.0},
}


def case_of(family: str, variant: str, *, spoilt: bool = False) -> Case:
    def make(**params: Any) -> Any:
        known = {"family": family, "engine": "serial", "batch_size": 3, **VARIANTS[variant]}
        return ClumpedTopicModel(**{**known, **params})

    batches = [(documents(family, 6, seed=i, points=20)[0],) for i in range(3)]
    good = documents(family, 4, seed=4, points=20)[0]
    wrong = {name: Spoilt((spoil(good),), words) for name, (spoil, words) in SPOILT.items()}
    if family == "multinomial":
        wrong["negative"] = Spoilt((with_entry(-1.0)(good),), "Negative")
    return Case(
        f"{family}, {variant}",
        make,
        batches,
        good,
        ("transform", "document_index", "score"),
        spoilt=wrong if spoilt else {},
        small=None if variant == "all points" else {},  # it keeps them all
    )


CASES = [case_of(family, "small", spoilt=True) for family in FAMILIES]
CASES += [case_of("full", variant) for variant in VARIANTS if variant != "small"]


@pytest.mark.parametrize(("case", "check"), checks_of(CASES))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)
