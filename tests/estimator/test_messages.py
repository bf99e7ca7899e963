"""A map of messages: wrong calls of new users, and what they read.

Every message names the parameter, what was expected and what came. The model stays as it was.
"""

import pickle
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.components.estimator import ComponentTree
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.scaled import ScaledPCA

pytestmark = [
    pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning"),
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
]
X = np.random.default_rng(0).normal(size=(30, 3))
Y = (X[:, 0] > 0).astype(int)
DATES = "of dtype datetime64[us]: make numbers of it, such as days since a date, or leave it out"
GAPS = np.where(X > 1, np.nan, X)
NEW: dict[str, Callable[[], Any]] = {
    "DPMixture": lambda: DPMixture(family="diagonal", max_components=2, max_laps=2, random_state=0),
    "ClumpedTopicModel": lambda: ClumpedTopicModel(),
    "ComponentTree": lambda: ComponentTree(max_nodes=3, max_iter=2, random_state=0),
    "OnlinePPCA": lambda: OnlinePPCA(1),
    "ScaledPCA": lambda: ScaledPCA(2),
    "BayesianPassiveAggressiveClassifier": lambda: BayesianPassiveAggressiveClassifier(),
    "BayesianPassiveAggressiveRegressor": lambda: BayesianPassiveAggressiveRegressor(),
}
CLF, REG = LINEAR = ("BayesianPassiveAggressiveClassifier", "BayesianPassiveAggressiveRegressor")
WITH_GAPS = ("DPMixture", "OnlinePPCA")
TABLE = "rows must be a table, such as [[1.0, 2.0]] or a data frame; got "
COLUMN = "use reshape(-1, 1) if it is a column, reshape(1, -1) if a row"
FRAME = pd.DataFrame({"ms": [1.0, 2.0], "way": ["web", "app"]})
MISSING = (
    "contains NaN (a missing value), which it does not take; DPMixture and OnlinePPCA do. Fill "
    "gaps, such as by sklearn.impute.SimpleImputer, or leave these rows out"
)
ROWS: dict[str, tuple[Callable[[], Any], str]] = {
    "None": (lambda: None, TABLE + "None"),
    "a number": (lambda: 3.0, TABLE + "3.0"),
    "a scalar array": (lambda: np.array(3.0), TABLE + "shape ()"),
    "a path": (lambda: "data.csv", TABLE + "'data.csv'; read a file first"),
    "a Path": (lambda: Path("a.csv"), "('a.csv'); read a file first, as by pandas.read_csv or rea"),
    "a set": (lambda: {1.0, 2.0}, TABLE + "a value of type set"),
    "a model": (lambda: OnlinePPCA(), TABLE + "a value of type OnlinePPCA"),
    "a class": (lambda: OnlinePPCA, TABLE + "the class OnlinePPCA"),
    "a function": (lambda: len, TABLE + "a value of type builtin_function_or_method"),
    "a lazy frame": (lambda: pl.LazyFrame({"a": [1.0]}), TABLE + "a LazyFrame; call collect()"),
    "one column": (lambda: X[:, 0], f"{TABLE}shape (30,). Reshape your data: {COLUMN}"),
    "numbers": (lambda: [1.0, 2.0], f"{TABLE}shape (2,). Reshape your data: {COLUMN}"),
    "a range": (lambda: range(5), f"{TABLE}shape (5,). Reshape your data: {COLUMN}"),
    "pandas series": (lambda: pd.Series(X[:, 0]), f"{TABLE}shape (30,). Reshape your data"),
    "polars series": (lambda: pl.Series(X[:, 0]), f"{TABLE}shape (30,). Reshape your data"),
    "no columns": (lambda: np.empty((5, 0)), "Found array with 0 feature(s) (shape=(5, 0))"),
    "no rows": (lambda: np.empty((0, 3)), "Found array with 0 sample(s) (shape=(0, 3))"),
    "records": (lambda: [{"a": 1.0}], TABLE + "a list of dicts; pandas.DataFrame(X) makes"),
    "uneven rows": (lambda: [[1.0, 2.0], [3.0]], "the same number of entries, got rows of 1, 2"),
    "uneven objects": (
        lambda: np.array([[1, 2], [3]], dtype=object),
        "rows must all have the same number of entries, got rows of 1, 2",
    ),
    "complex": (lambda: X + 1j, "expected real numbers, got an array of dtype complex128; pass"),
    "text": (lambda: X.astype(str), "expected numbers, got an array with '0.12573"),
    "a text column": (lambda: FRAME, "'web': make numbers of it, learn categories by DPMixture(f"),
    "polars text": (
        lambda: pl.from_pandas(FRAME),
        "column 'way' with 'web': make numbers of it, learn cat",
    ),
    "arrow text": (lambda: pa.Table.from_pandas(FRAME), "column 'way' with 'web': make numbers of"),
    "dates": (lambda: pd.DataFrame({"t": pd.date_range("2020", periods=3)}), DATES),
    "categories": (lambda: FRAME.astype({"way": "category"}), "column 'way' with 'web'"),
    "durations": (
        lambda: np.zeros((2, 2), "m8[s]"),
        "64[s]: make numbers of it, such as days since a date, or",
    ),
    "a record array": (lambda: np.zeros(3, [("a", "f8")]), "an array of dtype [('a', '<f8')]"),
    "infinity": (lambda: abs(X) * np.inf, "X contains infinity"),
    "twice a name": (lambda: pd.DataFrame(X[:, :2], columns=["a", "a"]), "Expected unique column"),
}
OF_TABLES: dict[str, tuple[Callable[[], Any], str]] = {
    "a dict": (lambda: {"a": [1.0]}, "type dict; pandas.DataFrame(X) makes a table of columns"),
    "an iterator": (lambda: iter([[1.0]]), "list_iterator; make it a list, or call partial_fit"),
    "a generator": (lambda: (row for row in X), "generator; make it a list, or call partial_fit"),
    "a zip": (lambda: zip(X, X, strict=True), "type zip; make it a list, or call partial_fit"),
    "an empty list": (list, TABLE + "no rows"),
    "three axes": (
        lambda: np.zeros((2, 3, 3)),
        "shape (2, 3, 3). Reshape your data: reshape(len",
    ),
    "texts": (lambda: ["a", "b"], "expected numbers, got an array with 'a'"),
    "X and y": (lambda: (X, X[:, 0]), "tuple of arrays of shape (30, 3) and (30,); unpack it"),
}


@cache
def fitted_bytes(name: str) -> bytes:
    model = NEW[name]()
    return pickle.dumps(model.fit(X, Y) if name in LINEAR else model.fit(X))


def fitted(name: str) -> Any:
    return pickle.loads(fitted_bytes(name))


def calls(name: str, rows: Callable[[], Any]) -> list[Callable[[Any], Any]]:
    """The calls that read rows."""
    more = ([0, 1] * 15,) if name in LINEAR else ()
    first = {"classes": [0, 1]} if name == CLF else {}
    answer = "predict" if name in ("DPMixture", *LINEAR) else "transform"
    return [
        lambda model: model.fit(rows(), *more),
        lambda model: model.partial_fit(rows(), *more, **first),
        lambda model: getattr(model, answer)(rows()),
    ]


def check(model: Any, call: Callable[[Any], Any], message: str) -> None:
    """The call fails with this part of a message, which names the class, and changes nothing."""
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError, AttributeError), match=re.escape(message)) as raised:
        call(model)
    assert type(model).__name__ in str(raised.value)
    assert len(str(raised.value)) < 500
    assert pickle.dumps(model) == before


def all_rows(name: str) -> dict[str, tuple[Callable[[], Any], str]]:
    """What this model cannot take for rows."""
    found = ROWS | ({} if name == "ClumpedTopicModel" else OF_TABLES)
    if name not in WITH_GAPS:
        found |= {
            "gaps": (lambda: GAPS, MISSING),
            "a mask": (lambda: np.ma.masked_where(X > 1, X), MISSING),
            "pandas NA": (lambda: pd.DataFrame(GAPS).convert_dtypes(), MISSING),
        }
    if name not in LINEAR:
        found["sparse"] = (lambda: sparse.csr_array(X), "Use '.toarray()' to convert to a dense")
        found["sparse map"] = (
            lambda: sparse.dok_array(X),
            "Use '.toarray()' to convert to a dense",
        )
    return found


@pytest.mark.parametrize("name", NEW)
def test_rows(name: str) -> None:
    model, blank = fitted(name), NEW[name]()
    for rows, message in all_rows(name).values():
        fit, learn, answer = calls(name, rows)
        check(model, fit, message)
        check(model, answer, message)
        check(blank, learn, message)
        assert not hasattr(blank, "_learned")


@pytest.mark.parametrize("name", NEW)
def test_a_model_that_has_learned_nothing(name: str) -> None:
    for call in (calls(name, lambda: X)[2], lambda m: m.save("never.evl")):
        check(NEW[name](), call, f"This {name} instance is not fitted yet. Call 'fit'")


@pytest.mark.parametrize("name", NEW)
def test_other_columns_than_before(name: str) -> None:
    _, learn, answer = calls(name, lambda: X[:, :2])
    for call in (learn, answer):
        check(fitted(name), call, f"X has 2 features, but {name} is expecting 3 features as input.")


SHORT = "'sample_weight' of {} cannot be used: sample_weight.shape == (4,), expected (30,)"
WEIGHTS: list[tuple[Any, str]] = [
    (-np.ones(30), "'sample_weight' of {} cannot be used: Negative values"),
    (np.zeros(30), "'sample_weight' of {} cannot be used: Sample weights must contain"),
    (np.ones(4), SHORT),
    (np.ones((30, 2)), "'sample_weight' of {} cannot be used: Sample weights must be 1D"),
    (np.full(30, np.nan), "'sample_weight' of {} cannot be used: Input sample_weight contains NaN"),
    ("yes", "'sample_weight' of {} cannot be used: could not convert string to float: 'yes'"),
]


def learn_weighted(model: Any, method: str, weights: Any) -> None:
    getattr(model, method)(X, sample_weight=weights)


@pytest.mark.parametrize("name", WITH_GAPS)
def test_weights(name: str) -> None:
    for weights, message in WEIGHTS:
        for method in ("fit", "partial_fit"):
            check(
                fitted(name),
                partial(learn_weighted, method=method, weights=weights),
                message.format(name),
            )


LABEL = "'y' of BayesianPassiveAggressiveClassifier cannot be used: "
NUMBER = "'y' of BayesianPassiveAggressiveRegressor cannot be used: "
TARGETS: list[tuple[str, Callable[[], Any], str]] = [
    (CLF, lambda: None, "requires y to be passed, but the target y is None"),
    (CLF, lambda: Y[:4], LABEL + "expected a label for each of 30 rows, got 4"),
    (CLF, lambda: 1, LABEL + "expected a label for each row, got 1"),
    (CLF, lambda: "way", LABEL + "expected a label for each row, got 'way'"),
    (
        CLF,
        lambda: {"a": 1},
        LABEL + "expected a label for each row, got a value of type dict",
    ),
    (CLF, lambda: iter(Y), LABEL + "expected a label for each row, got a value of type"),
    (CLF, lambda: np.zeros((30, 2, 2)), LABEL + "expected labels of one or two dimensions"),
    (CLF, lambda: X[:, 0], LABEL + "Unknown label type: continuous. Expected classes, got"),
    (
        CLF,
        lambda: np.where(Y > 0, np.nan, 1),
        LABEL + "Input y contains NaN; a missing label",
    ),
    (CLF, lambda: [None] * 30, LABEL + "Input y contains NaN or None; a missing label"),
    (CLF, lambda: Y + 1j, LABEL + "Unknown label type: expected classes, got dtype complex"),
    (CLF, lambda: X, LABEL + "Unknown label type: a matrix must be an indicator of 0, 1"),
    (CLF, lambda: [{1}] * 30, LABEL + "expected one label for each item, or an indicator"),
    (CLF, lambda: np.zeros(30), "'y' of {} must have at least 2 classes. Got 1 class: [0.0]"),
    (REG, lambda: None, "requires y to be passed, but the target y is None"),
    (REG, lambda: Y[:4], NUMBER + "expected a number for each of 30 rows, got shape (4,)"),
    (REG, lambda: 1, NUMBER + "expected a number for each row, got 1"),
    (REG, lambda: "way", NUMBER + "expected a number for each row, got 'way'"),
    (REG, lambda: {"a": 1}, NUMBER + "expected a number for each row, got a value of type"),
    (REG, lambda: iter(Y), NUMBER + "expected a number for each row, got a value of type"),
    (
        REG,
        lambda: np.zeros((30, 2, 2)),
        NUMBER + "expected a number for each of 30 rows, got",
    ),
    (REG, lambda: X[:, 0].astype(str), NUMBER + "expected numbers, got an array with '0.12"),
    (REG, lambda: pd.date_range("2020", periods=30), NUMBER + "expected numbers, got an arr"),
    (REG, lambda: np.where(Y > 0, np.nan, 1), NUMBER + "Input y contains NaN"),
    (REG, lambda: [[1], [1, 2]], NUMBER + "rows must all have the same number of entries"),
    (REG, lambda: Y + 1j, NUMBER + "Complex data not supported: expected real numbers"),
    (REG, lambda: sparse.csr_array(X), NUMBER + "expected a dense array, got a sparse one"),
    (
        REG,
        lambda: np.ma.masked_less(Y, 1),
        NUMBER + "expected a number for each row, got mask",
    ),
]


@pytest.mark.parametrize(("name", "y", "message"), TARGETS)
def test_targets(name: str, y: Callable[[], Any], message: str) -> None:
    check(fitted(name), lambda m: m.fit(X, y()), message.format(name))


@pytest.mark.parametrize(
    "kind", [list, pd.Series, pl.Series, pd.Index, pa.array, lambda y: pd.DataFrame({"y": y})]
)
def test_targets_of_many_kinds_are_taken(kind: Callable[[Any], Any]) -> None:
    plain = fitted(REG).fit(X, X[:, 1])
    found = fitted(REG).fit(X, kind(X[:, 1])).coef_.ravel()
    np.testing.assert_allclose(found, plain.coef_, rtol=1e-9)


def given(value: Any) -> Callable[[], Any]:
    return lambda: value


@pytest.mark.parametrize("name", NEW)
def test_tables_of_many_kinds_are_taken(name: str) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    arrow, objects = pa.Table.from_pandas(frame), X.astype(object)
    answer = calls(name, lambda: X)[2](fitted(name))
    for table in (X.tolist(), frame, pl.from_pandas(frame), arrow, objects):
        model = NEW[name]()
        model.fit(table, Y) if name in LINEAR else model.fit(table)
        found = calls(name, given(table))[2](model)
        np.testing.assert_allclose(found, answer, rtol=1e-9, atol=1e-12)


def of(model: Any) -> Callable[[], Any]:
    """A model that learned the rows."""
    return lambda: model.fit(X, Y)


def clumped() -> Any:
    return fitted("ClumpedTopicModel")


def ppca() -> Any:
    return fitted("OnlinePPCA")


def scaled() -> Any:
    return fitted("ScaledPCA")


AVERAGING = BayesianPassiveAggressiveClassifier(loss="averaging")
CLASSES = "'classes' of BayesianPassiveAggressiveClassifier "
DOCUMENTS = "'X' of ClumpedTopicModel must be a list of documents with at least one, or a table of "
GROUPS = "'groups' of ClumpedTopicModel cannot be used: "
OTHERS: list[tuple[Callable[[], Any], Callable[[Any], Any], str]] = [
    (
        lambda: NEW[CLF](),
        lambda m: m.partial_fit(X, Y),
        CLASSES + "must be passed on the fir",
    ),
    (
        lambda: NEW[CLF](),
        lambda m: m.partial_fit(X, Y, classes=2),
        CLASSES + "cannot be used",
    ),
    (
        lambda: fitted(CLF),
        lambda m: m.partial_fit(X, Y + 5),
        LABEL + "expected labels among the classes [0, 1], got [5, 6]",
    ),
    (
        lambda: fitted(CLF),
        lambda m: m.partial_fit(X, Y, classes=[0, 1, 2]),
        CLASSES + "must be the same on every call to partial_fit: [0, 1]. Got [0, 1, 2]",
    ),
    (of(AVERAGING), lambda m: m.predict_proba(X), 'it needs loss="gibbs"; with other losses use'),
    (of(AVERAGING), lambda m: m.coef_variance_, "with loss='averaging' does not learn variances"),
    (lambda: fitted(REG), lambda m: m.fit(X[:, 0], X), TABLE + "shape (30,)"),
    (ppca, lambda m: m.predict(X), "it needs n_mixtures=2 or more"),
    (lambda: OnlinePPCA(9), lambda m: m.fit(X), "must be at most n_features=3. Got 9"),
    (lambda: OnlinePPCA(0.9), lambda m: m.fit(X), "'n_components' parameter of OnlinePPCA must"),  # type: ignore[arg-type]
    (lambda: OnlinePPCA(), lambda m: m.fit(X * np.nan), "expected some entries that are not missi"),
    (
        ppca,
        lambda m: m.inverse_transform(X),
        "'X' of OnlinePPCA cannot be used: expected 1 columns of latents, got 3",
    ),
    (ppca, lambda m: m.inverse_transform("a"), "'X' of OnlinePPCA cannot"),
    (
        ppca,
        lambda m: m.sample("3"),
        "must be an integer at least 1. Got '3'",
    ),
    (
        scaled,
        lambda m: m.inverse_transform(X),
        "'X' of ScaledPCA cannot be used: expected 2 columns of coordinates, got 3",
    ),
    (scaled, lambda m: m.inverse_transform("a"), "'X' of ScaledPCA cannot be"),
    (
        scaled,
        lambda m: m.inverse_transform(X[:, :2] * np.nan),
        "'X' of ScaledPCA cannot be used: Input contains NaN",
    ),
    (
        lambda: ScaledPCA(),
        lambda m: m.fit(X[:1]),
        "'X' of ScaledPCA cannot be used: Found array wit",
    ),
    (
        lambda: fitted("ComponentTree"),
        lambda m: m.inverse_transform(X[:, :1]),
        "'Z' of ComponentTree cannot be used: expected",
    ),
    (clumped, lambda m: m.fit([]), DOCUMENTS + "points. Got an empty"),
    (clumped, lambda m: m.fit(iter([X])), "make it a list, or call"),
    (
        clumped,
        lambda m: m.fit({"a": X}),
        "list(X.values()) makes a lis",
    ),
    (clumped, lambda m: m.fit(["a b"]), "TopicModel learns from texts"),
    (
        clumped,
        lambda m: m.fit([X[:, 0], X[:5, 0]]),
        DOCUMENTS + "points. Got documents of shape (30,); reshape(-1, 1) makes a point of each",
    ),
    (
        clumped,
        lambda m: m.fit([X, X[:, :2]]),
        "'X[1]' of ClumpedTopicModel cannot be used: X has 2 features",
    ),
    (
        clumped,
        lambda m: m.fit([X, None]),
        "'X[1]' of ClumpedTopicModel",
    ),
    (
        clumped,
        lambda m: m.fit([X, GAPS]),
        "'X[1]' of ClumpedTopicModel",
    ),
    (
        clumped,
        lambda m: m.fit(X, groups=[1, 2]),
        GROUPS + "expected one entry for each of 30 points, got (2,)",
    ),
    (
        clumped,
        lambda m: m.fit([X, X], groups=[1, 2]),
        "'groups' of ClumpedTopicModel must be None if X is a list of documents",
    ),
    (
        clumped,
        lambda m: m.fit(X, groups=np.full(30, np.nan)),
        GROUPS + "Input contains NaN",
    ),
]


@pytest.mark.parametrize(("make", "call", "message"), OTHERS)
def test_other_calls(make: Callable[[], Any], call: Callable[[Any], Any], message: str) -> None:
    check(make(), call, message)
