"""Linear models without any parameter set, against LinearSVC and BayesianRidge on scaled columns.

python -m benchmarks linear            the tables, into docs/benchmarks.md
python -m benchmarks.linear choose     cross-validate C, epsilon and batch_size on training parts
"""

import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.corpora import DATA
from benchmarks.table import Table
from everlearn import (
    BayesianPassiveAggressiveClassifier,
    BayesianPassiveAggressiveRegressor,
)

HOME = Path(os.environ.get("EVERLEARN_DATA", DATA))
N_SPLITS, MOST_ROWS, CALL = 10, 4000, 50
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
GRIDS: dict[str, tuple[Any, ...]] = {
    "C": (0.1, 0.3, 1.0, 3.0, 10.0),
    "epsilon": (0.001, 0.01, 0.1, 0.3),
    "batch_size": (1, 8, 32, 128),
}


def run() -> Table:
    """Accuracy and R2 after `fit`, after one pass in small calls, and of the peer."""
    table = Table(
        "Linear models, no parameter set",
        ["table", "rows x columns", "`fit`", "one pass", "peer", "`fit` less peer", "passes"],
        f"Means over {N_SPLITS} random splits, 7 rows to learn from for 3 to test with, at most "
        f"{MOST_ROWS:,} rows. Accuracy, peer `make_pipeline(StandardScaler(), LinearSVC())`; below "
        "the line R2, peer `make_pipeline(StandardScaler(), BayesianRidge())`. One pass: "
        f"`partial_fit` with {CALL} rows a call. Columns are in the units that they come in. Asked "
        "for: at most 0.01 of accuracy and 0.02 of R2 below the peer.",
    )
    svm = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
    for name, load in CLASSES.items():
        _measure(table, name, load, BayesianPassiveAggressiveClassifier, svm)
    ridge = make_pipeline(StandardScaler(), MultiOutputRegressor(BayesianRidge()))
    table.add(*["---"] * len(table.columns))
    for name, load in NUMBERS.items():
        _measure(table, name, load, BayesianPassiveAggressiveRegressor, ridge)
    return table


def choose() -> None:
    """Mean score below the best value of the grid, over all tables, by folds of training parts."""
    for parameter, values in GRIDS.items():
        kinds = [(NUMBERS, BayesianPassiveAggressiveRegressor)]
        if parameter != "epsilon":
            kinds.append((CLASSES, BayesianPassiveAggressiveClassifier))
        for tables, kind in kinds:
            lost = np.zeros(len(values))
            for load in tables.values():
                X, _, y, _ = next(iter(_splits(*load())))
                folds = list(KFold(3, shuffle=True, random_state=0).split(X))
                scores = [
                    np.mean(
                        [
                            _scored(kind(random_state=0, **{parameter: value}), X, y, *f)
                            for f in folds
                        ]
                    )
                    for value in values
                ]
                lost += (np.max(scores) - scores) / len(tables)
            found = ", ".join(f"{v}: {x:.4f}" for v, x in zip(values, lost, strict=True))
            print(kind.__name__, parameter, "below the best:", found, flush=True)


def _scored(model: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Of `fit` and of one pass, half each; models that forget are no worse than a mean."""
    pieces = [train[i : i + CALL] for i in range(0, len(train), CALL)]
    classes = {"classes": np.unique(y)} if hasattr(model, "decision_function") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(X[train], y[train]).score(X[test], y[test])
        again = type(model)(**model.get_params())
        for piece in pieces:
            again.partial_fit(X[piece], y[piece], **classes)
    return 0.5 * (max(fitted, 0.0) + max(again.score(X[test], y[test]), 0.0))


def _splits(X: np.ndarray, y: np.ndarray) -> list[Split]:
    parts = ShuffleSplit(
        N_SPLITS, train_size=int(0.7 * min(len(X), MOST_ROWS)),
        test_size=int(0.3 * min(len(X), MOST_ROWS)), random_state=0,
    ).split(X)  # fmt: skip
    return [(X[a], X[b], y[a], y[b]) for a, b in parts]


def _measure(table: Table, name: str, load: Callable[[], Any], kind: Any, peer: Any) -> None:
    X, y = load()
    found = []
    for learn, test, y_learn, y_test in _splits(X, y):
        model, stream = kind(random_state=0), kind(random_state=0)
        classes = {"classes": np.unique(y)} if hasattr(model, "decision_function") else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(learn, y_learn)
            flat = y_learn.ndim == 1 and not classes
            peer.fit(learn, y_learn[:, None] if flat else y_learn)
        for i in range(0, len(learn), CALL):
            stream.partial_fit(learn[i : i + CALL], y_learn[i : i + CALL], **classes)
        scores = [one.score(test, y_test) for one in (model, stream)]
        passes = getattr(model, "n_iter_", 1)
        found.append((*scores, peer.score(test, y_test), passes))
    fit, one_pass, theirs, passes = np.mean(found, axis=0)
    shape = f"{X.shape[0]:,} x {X.shape[1]}"
    table.add(
        name, shape, f"{fit:.3f}", f"{one_pass:.3f}", f"{theirs:.3f}", f"{fit - theirs:+.3f}",
        f"{passes:.0f}",
    )  # fmt: skip


# ------------------------------------------------------------------ tables


@lru_cache
def _file(place: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(HOME / place) as file:
        end = "_train" if "X_train" in file else ""
        return np.asarray(file[f"X{end}"], float), file[f"y{end}"]


def _column(place: str, j: int) -> tuple[np.ndarray, np.ndarray]:
    """A column from the others."""
    X = _file(place)[0]
    return np.delete(X, j, axis=1), X[:, j]


def _in_odd_units() -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.make_classification(
        2000, 20, n_informative=8, flip_y=0.2, shuffle=False, random_state=2
    )
    return (X + 100.0) * 10.0 ** np.random.default_rng(0).integers(-6, 7, 20), y


def _houses() -> tuple[np.ndarray, np.ndarray]:
    """Skewed columns in their own units, prices that are cut off at 5."""
    rng, n = np.random.default_rng(0), 5000
    income, age = rng.gamma(4, 1, n), rng.uniform(1, 52, n)
    rooms, people = rng.lognormal(1.6, 0.4, n), rng.lognormal(7, 0.7, n)
    north = rng.uniform(32, 42, n)
    west = -119 - 0.8 * (north - 36) + rng.normal(0, 1, n)
    price = 0.4 * income + 0.01 * age + 0.1 * rooms - 0.4 * np.sqrt(np.abs(north - 34))
    price = np.minimum(price + rng.lognormal(-0.8, 0.8, n), 5.0)
    return np.column_stack([income, age, rooms, people, north, west]), price


def _diabetes(factor: float = 1.0, level: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    return X, factor * y + level


WDBC, STATLOG = "clustering_vectors/wdbc.npz", "clustering_vectors/statlog.npz"
CLASSES: dict[str, Callable[[], Any]] = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "optdigits": lambda: _file("optdigits/optdigits.npz"),
    "letter": lambda: _file("letter/letter.npz"),
    "htru2": lambda: _file("htru2/htru2.npz"),
    "statlog": lambda: _file(STATLOG),
    "four classes, made": lambda: datasets.make_classification(
        2000, 20, n_informative=8, n_classes=4, random_state=0
    ),
    "wide, made": lambda: datasets.make_classification(300, 100, n_informative=10, random_state=1),
    "odd units, made": _in_odd_units,
    "one in twenty, made": lambda: datasets.make_classification(
        3000, 15, n_informative=5, weights=[0.95], random_state=3
    ),
}
NUMBERS: dict[str, Callable[[], Any]] = {
    "diabetes": _diabetes,
    "diabetes + 1,000": lambda: _diabetes(level=1e3),
    "diabetes x 10,000": lambda: _diabetes(factor=1e4),
    "linnerud": lambda: datasets.load_linnerud(return_X_y=True),
    "friedman1": lambda: datasets.make_friedman1(1000, noise=1, random_state=0),
    "friedman2": lambda: datasets.make_friedman2(1000, noise=100, random_state=0),
    "friedman3": lambda: datasets.make_friedman3(1000, noise=0.1, random_state=0),
    "linear, made": lambda: datasets.make_regression(
        500, 20, n_informative=10, noise=30, random_state=0
    ),
    "low rank, made": lambda: datasets.make_regression(
        200, 50, effective_rank=8, noise=2, random_state=1
    ),
    "wide, made": lambda: datasets.make_regression(
        120, 200, n_informative=10, noise=50, random_state=2
    ),
    "uncorrelated, made": lambda: datasets.make_sparse_uncorrelated(500, 10, random_state=0),
    "houses, made": _houses,
    "wine, alcohol": lambda: (
        datasets.load_wine().data[:, 1:],
        datasets.load_wine().data[:, 0],
    ),
    "wdbc, column 8": lambda: _column(WDBC, 8),
    "statlog, column 18": lambda: _column(STATLOG, 18),
    "htru2, column 4": lambda: _column("htru2/htru2.npz", 4),
    "letter, column 7": lambda: _column("letter/letter.npz", 7),
}

if __name__ == "__main__":
    if sys.argv[1:] != ["choose"]:
        sys.exit("python -m benchmarks.linear choose")
    choose()
