"""Topic trees keep the promises of all estimators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.testing.checks import Case, Check, Spoilt, checks_of
from everlearn.testing.data import planted_tree
from everlearn.trees.estimator import TopicTree

N_WORDS = 130
COUNTS = planted_tree(0, n_documents=60, n_tokens=30).counts
SUBJECTS = ["cat dog cat bird", "stock bond stock fund", "violin cello cello drum", "pie tea pie"]
TEXTS = [f"the {subject} and the {subject}" for subject in SUBJECTS]
METHODS = ("predict", "transform", "score_samples", "score")
SMALL: dict[str, Any] = {
    "batch_size": 8,
    "reservoir": 10,
    "n_sweeps": 4,
    "options": {"stream_sweeps": 2, "n_passes": 4},
    "random_state": 3,
}


def one_row(value: float) -> np.ndarray:
    row = np.zeros((1, N_WORDS))
    row[0, 5] = value
    return row


SPOILT_COUNTS = {
    "fraction": Spoilt((one_row(1.5),), "whole numbers"),
    "negative": Spoilt((one_row(-1),), "Negative values"),
    "nan": Spoilt((one_row(np.nan),), "NaN"),
    "infinity": Spoilt((one_row(np.inf),), "infinity"),
    "huge": Spoilt((one_row(2.0**40),), "counts must be"),
    "narrow": Spoilt((np.ones((2, 5)),), "features"),
    "flat": Spoilt((COUNTS[0],), "2D array"),
    "empty": Spoilt((COUNTS[:0],), "0 sample"),
    "nothing": Spoilt(([],), "2D array"),
    "none": Spoilt((None,), "X"),
}
SPOILT_TEXTS = {
    "numbers": Spoilt(([3, 4],), "X"),
    "one text": Spoilt(("the cat",), "X"),
    "mixed": Spoilt((["the cat", 3],), "X"),
    "nothing": Spoilt(([],), "document"),
    "none": Spoilt((None,), "X"),
}


def tables(X: Any) -> list[tuple[Any]]:
    return [(X[i : i + 20],) for i in (0, 20, 40)]


def word_numbers(part: slice) -> list[np.ndarray]:
    return [np.repeat(np.arange(N_WORDS), row) for row in COUNTS[part]]


def case(name: str, batches: list[tuple[Any]], spoilt: dict[str, Spoilt], **how: Any) -> Case:
    options = SMALL["options"] | how.pop("options", {})

    def make(**params: Any) -> TopicTree:
        return TopicTree(**SMALL | how | {"options": options} | params)

    # Levels of the last 2,000 documents are kept, which is much beside texts of a few words.
    small: dict[str, Any] | None = None if name == "texts" else {}
    return Case(name, make, batches, batches[0][0][:5], METHODS, spoilt=spoilt, small=small)


def after_fit(name: str, X: Any, **how: Any) -> Case:
    """A tree of a corpus, which a stream goes on with."""
    plain = case(name, tables(X), SPOILT_COUNTS, **how)
    return Case(
        name,
        lambda **params: plain.make(**params).fit(X[:40]),
        plain.batches,
        plain.probe,
        METHODS,
        spoilt=SPOILT_COUNTS,
    )


CASES = [
    case("counts", tables(COUNTS), SPOILT_COUNTS),
    case("sparse", tables(sparse.csr_array(COUNTS)), SPOILT_COUNTS),
    case("texts", [(TEXTS[:2] * 6,), (TEXTS[:3] * 5,), (TEXTS * 4,)], SPOILT_TEXTS),
    case("word numbers", [(word_numbers(slice(i, i + 20)),) for i in (0, 20, 40)], SPOILT_TEXTS),
    case(
        "all options",
        tables(COUNTS),
        SPOILT_COUNTS,
        depth=4,
        level_prior=(5, 3, 2, 1),
        vocabulary=[f"w{i}" for i in range(N_WORDS)],
        max_nodes=12,
        options={"merge": False},
        text={"max_features": 1000},
    ),
    after_fit("after fit", COUNTS),
]


@pytest.mark.parametrize(("case", "check"), checks_of(CASES))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)
