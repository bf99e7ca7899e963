"""`Clusters` beside clusterings that are told more, on sets with classes or known clusters.

Nothing is tuned: all models have their defaults, but KMeans is told the true number of clusters,
and BayesianGaussianMixture twice that number. UMAP + HDBSCAN needs the extra 'bench'.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import StandardScaler

from benchmarks.clock import cpu_seconds
from benchmarks.linear import CLASSES, HOME
from benchmarks.table import Table
from everlearn import Clusters
from everlearn.testing.data import planted_mixture

try:
    from umap import UMAP
except ImportError:  # the table has no figures for it then
    UMAP = None

Vectors = tuple[np.ndarray, np.ndarray]
MOST_ROWS, SEEDS, MANY_COLUMNS = 5000, (0, 1, 2), 20
MIN_CLUSTER = 15


def _vectors(name: str) -> Vectors:
    file = np.load(HOME / "clustering_vectors" / f"{name}.npz")
    return file["X"].astype(float), file["y"]


def _planted(n_rows: int, n_columns: int, n_clusters: int, **options: Any) -> Vectors:
    planted = planted_mixture(n_rows, n_columns, n_clusters, random_state=1, **options)
    return planted.X, planted.labels


def _mnist() -> Vectors:
    file = np.load(HOME / "mnist/mnist.npz")
    X = file["X_train"][:10_000].reshape(10_000, -1).astype(float)
    return PCA(50, random_state=0).fit_transform(X), file["y_train"][:10_000]


def _caltech(n_classes: int) -> Vectors:
    file = np.load(HOME / "caltech101/caltech101_sample_features.npz")
    chosen = np.random.default_rng(0).choice(102, n_classes, replace=False)
    rows = np.isin(file["y"], chosen)
    return file["X"][rows].astype(float), file["y"][rows]


def _news() -> Vectors:
    """Posts by their words: TF-IDF of words in 5 posts or more, reduced to 100 dimensions."""
    with np.load(HOME / "20newsgroups" / "rennie_bydate_train.npz") as file:
        parts = (file["data"], file["indices"], file["indptr"])
        counts = sparse.csr_matrix(parts, shape=tuple(file["shape"]))
        y = file["labels"]
    seen = np.asarray((counts > 0).sum(axis=0)).ravel()
    words = TfidfTransformer(sublinear_tf=True).fit_transform(
        counts[:, (seen >= 5) & (seen <= 0.2 * len(y))]
    )
    return TruncatedSVD(100, random_state=0).fit_transform(words), y


def _directions() -> Vectors:
    """Vectors of unit length like those of an encoder: 25 groups with directions in common."""
    rng = np.random.default_rng(7)
    centres, shared = rng.normal(size=(25, 384)), rng.normal(size=(30, 384)) / np.sqrt(30)
    y = rng.choice(25, 4000, p=rng.dirichlet(np.full(25, 3.0)))
    X = 0.45 * centres[y] + 0.7 * rng.normal(size=(4000, 384))
    X += 0.72 * rng.normal(size=(4000, 30)) @ shared
    return X / np.linalg.norm(X, axis=1)[:, None], y


SETS: Mapping[str, Callable[[], Vectors]] = {
    **{name: lambda name=name: _vectors(name) for name in (
        "s1", "s2", "s3", "a1", "a2", "d31", "r15", "unbalance", "hepta", "asterisk_k8",
        "birch1", "birch2", "wdbc",
    )},
    "planted, 20 in 10 columns": lambda: _planted(5000, 10, 20, shape="oblique"),
    "planted, 30 in 40 columns": lambda: _planted(5000, 40, 30, shape="axis-parallel"),
    **{name: CLASSES[name] for name in (
        "iris", "wine", "statlog", "htru2", "letter", "digits", "optdigits",
    )},
    "MNIST, 50 components": _mnist,
    "Caltech features, 10 classes": lambda: _caltech(10),
    "Caltech features, 102 classes": lambda: _caltech(102),
    "20 Newsgroups, 100 dimensions": _news,
    "directions like an encoder's": _directions,
}  # fmt: skip


def run() -> Table:
    """Agreement with the classes, for each set and model."""
    table = Table(
        "Clusters, beside models that are told their number",
        [
            "set", "rows x columns", "K", "K of `Clusters`", "`Clusters`", "two seeds",
            "`cut(K)`", "KMeans, told K", "BGM, told 2 K", "HDBSCAN", "UMAP + HDBSCAN", "CPU s",
        ],
        "Adjusted mutual information (AMI) with the classes; 1 is perfect. `Clusters` has its "
        f"defaults and learns all rows; means over seeds {SEEDS}. \"two seeds\" is the AMI between "
        "labels of two seeds, `cut(K)` the level with the true number of clusters. Peers learn at "
        f"most {MOST_ROWS:,} rows, standardised where `Clusters` does so by itself. BGM is "
        "BayesianGaussianMixture with full covariances, diagonal ones from "
        f"{MANY_COLUMNS} columns on; HDBSCAN has `min_cluster_size={MIN_CLUSTER}`, and its noise "
        "counts as one more cluster. CPU seconds are those of `Clusters`.",
    )  # fmt: skip
    rows = []
    for name, load in SETS.items():
        X, y = load()
        rows.append(_measured(table, name, X, np.unique(y, return_inverse=True)[1]))
    means = np.nanmean(np.array(rows), axis=0)
    table.add("mean", "", "", "", *(f"{mean:.3f}" for mean in means[:-1]), f"{means[-1]:.1f}")
    return table


def _measured(table: Table, name: str, X: np.ndarray, y: np.ndarray) -> list[float]:
    n_classes, found, labels, at_true, seconds = int(y.max()) + 1, [], [], [], []
    for seed in SEEDS:
        model = Clusters(random_state=seed)
        seconds.append(cpu_seconds(lambda model=model: model.fit(X)))
        labels.append(model.labels_)
        found.append(model.n_clusters_)
        at_true.append(_agreement(y, model.cut(n_classes).predict(X)))
    some = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
    Z, z = X[some], y[some]
    if model.levels_.units == "standardised":
        Z = StandardScaler().fit_transform(Z)
    figures = [
        float(np.mean([_agreement(y, own) for own in labels])),
        _agreement(labels[0], labels[1]),
        float(np.mean(at_true)),
        *(_agreement(z, predict(Z, n_classes)) for predict in (_kmeans, _bgm, _hdbscan, _umap)),
        float(np.mean(seconds)),
    ]
    shown = ["" if np.isnan(figure) else f"{figure:.3f}" for figure in figures[:-1]]
    numbers = ", ".join(map(str, found))
    shape = f"{len(X):,} x {X.shape[1]}"
    table.add(name, shape, f"{n_classes}", numbers, *shown, f"{figures[-1]:.1f}")
    return figures


def _agreement(y: np.ndarray, labels: np.ndarray | None) -> float:
    if labels is None:
        return float("nan")
    some = np.random.default_rng(0).permutation(len(y))[: 2 * MOST_ROWS]
    return float(adjusted_mutual_info_score(y[some], labels[some]))


def _kmeans(X: np.ndarray, k: int) -> np.ndarray:
    return KMeans(k, n_init=3, random_state=0).fit_predict(X)


def _bgm(X: np.ndarray, k: int) -> np.ndarray:
    kind = "full" if X.shape[1] < MANY_COLUMNS else "diag"
    k = min(2 * k, len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianGaussianMixture(n_components=k, covariance_type=kind, random_state=0)
        return model.fit_predict(X)


def _hdbscan(X: np.ndarray, _: int) -> np.ndarray:
    return HDBSCAN(min_cluster_size=MIN_CLUSTER, copy=True).fit_predict(X)


def _umap(X: np.ndarray, _: int) -> np.ndarray | None:
    if UMAP is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = UMAP(random_state=0, n_jobs=1).fit_transform(X)
    return _hdbscan(flat, 0)


# ------------------------------------------------------------ one cluster, and streams


def _draws(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    if kind == "Gaussian":
        return rng.standard_normal(shape)
    return rng.standard_t(4, shape) if kind == "Student t, 4 degrees" else rng.random(shape)


def one() -> Table:
    """How often rows without clusters are one cluster."""
    table = Table(
        "Clusters of rows that have none",
        ["rows", "300", "1,000", "5,000"],
        "Draws with exactly one cluster, of 10: two draws in each of 2, 5, 10, 20 and 50 columns. "
        "Goals: Gaussian 10, Student t 8, cube 5.",
    )
    for kind in ("Gaussian", "Student t, 4 degrees", "uniform in a cube"):
        counts = []
        for n in (300, 1000, 5000):
            found = [
                Clusters(random_state=seed)
                .fit(_draws(kind, np.random.default_rng((seed, d, n)), (n, d)))
                .n_clusters_
                for d in (2, 5, 10, 20, 50)
                for seed in range(2)
            ]
            counts.append(found.count(1))
        table.add(kind, *map(str, counts))
    return table


STREAMED = ("s1", "statlog", "optdigits", "MNIST, 50 components", "planted, 20 in 10 columns")
N_BATCHES = 10


def streams() -> Table:
    """A stream of batches in three orders, beside one call of fit."""
    table = Table(
        "Clusters of streams",
        ["set", "`fit`", "shuffled", "sorted by class", "drifting", "ids kept"],
        f"AMI with the classes after {N_BATCHES} batches of at most {MOST_ROWS:,} rows in all. "
        "\"drifting\" is sorted with noise. \"ids kept\" is the share of the first batch's rows "
        "whose id is the same after the next batch; the mean over batches and orders.",
    )  # fmt: skip
    for name in STREAMED:
        X, y = SETS[name]()
        some = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
        X, y = X[some], np.unique(y[some], return_inverse=True)[1]
        noise = np.random.default_rng(1).normal(size=len(y)) * y.max() / 6
        orders = (np.arange(len(y)), np.argsort(y, kind="stable"), np.argsort(y + noise))
        runs = [_streamed(X[order], y[order]) for order in orders]
        batch = _agreement(y, Clusters(random_state=0).fit(X).labels_)
        kept = float(np.mean([run[1] for run in runs]))
        table.add(name, f"{batch:.3f}", *(f"{run[0]:.3f}" for run in runs), f"{kept:.1%}")
    return table


def _streamed(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    model, kept, step = Clusters(random_state=0), [], -(-len(X) // N_BATCHES)
    for first in range(0, len(X), step):
        before = model.predict(X[:step]) if first else None
        model.partial_fit(X[first : first + step])
        if before is not None:
            kept.append(np.mean(model.predict(X[:step]) == before))
    return _agreement(y, model.predict(X)), float(np.mean(kept))
