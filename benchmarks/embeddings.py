"""Clusters of embeddings against known classes: the tables of docs/ask/embeddings.md.

python -m benchmarks.embeddings        prints them; takes about ten minutes
"""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.preprocessing import normalize

from benchmarks.corpora import DATA
from everlearn import DPMixture
from everlearn.images import ScaledPCA

HOME = Path(os.environ.get("EVERLEARN_DATA", DATA))
N_POSTS, N_LSA, BATCH = 6000, 200, 250
Vectors = tuple[np.ndarray, np.ndarray]
MODELS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("50, shared", 50, {"prior": "shared"}),
    ("10, full", 10, {"family": "full"}),
    ("20, shared", 20, {"prior": "shared"}),
    ("100, shared", 100, {"prior": "shared"}),
    ("50, default", 50, {}),
)


def images() -> Vectors:
    """Features of a network for photographs of Caltech-101."""
    with np.load(HOME / "caltech101" / "caltech101_sample_features.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"]
    order = np.random.default_rng(0).permutation(len(X))
    return normalize(X[order]), y[order]


def posts() -> Vectors:
    """LSA of posts to 20 newsgroups."""
    table = pd.read_parquet(HOME / "20newsgroups" / "raw_bydate.parquet")
    table = table.sample(N_POSTS, random_state=0)
    words = TfidfVectorizer(min_df=5, max_df=0.3, sublinear_tf=True, stop_words="english")
    vectors = TruncatedSVD(N_LSA, random_state=0).fit_transform(words.fit_transform(table["text"]))
    return normalize(vectors), pd.factorize(table["label"])[0]


def tell(name: str, known: np.ndarray, found: np.ndarray) -> None:
    """Print the number of clusters, AMI, and the share of rows left out."""
    n = len(set(found.tolist()) - {-1})
    score = adjusted_mutual_info_score(known, found)
    print(f"{name:32}{n:5} clusters, AMI {score:.2f}, {np.mean(found == -1):.0%} left out")


def streamed(X: np.ndarray, first: int, batch: int, **params: Any) -> np.ndarray:
    """Clusters after `fit` of the first rows, if any, and `partial_fit` of the others."""
    model = DPMixture(random_state=0, **params)
    if first:
        model.fit(X[:first])
    for start in range(first, len(X), batch):
        model.partial_fit(X[start : start + batch])
    return model.predict(X)


def compare(name: str, load: Callable[[], Vectors], best: dict[str, Any], n_best: int) -> None:
    """All models on one set of vectors."""
    X, y = load()
    print(f"\n{name}: {len(X)} rows, {X.shape[1]} columns, {len(set(y.tolist()))} classes")
    for told, n, params in MODELS:
        rows = ScaledPCA(n).fit_transform(X)
        model = DPMixture(random_state=0, max_laps=30, **params).fit(rows)
        tell(told, y, model.predict(rows))
    tell("KMeans", y, KMeans(len(set(y.tolist())), n_init=3, random_state=0).fit_predict(X))
    size = 5 if name == "images" else 15
    rows = ScaledPCA(20).fit_transform(X)
    tell("20, HDBSCAN", y, HDBSCAN(min_cluster_size=size, copy=True).fit_predict(rows))
    rows = ScaledPCA(n_best).fit_transform(X)
    tell(f"{n_best}, {best}, stream", y, streamed(rows, 0, 500, **best))


def beginnings() -> None:
    """How many vectors a stream needs at its start, with the reduction learned from these."""
    X, y = images()
    for n in (50, 100):
        for first in (500, 1000, 2000):
            rows = ScaledPCA(n).fit(X[:first]).transform(X)
            found = streamed(rows, first, BATCH, prior="shared")
            tell(f"{n} components, first {first}", y, found)


def main() -> None:
    """Print all tables."""
    warnings.simplefilter("ignore")
    compare("images", images, {"prior": "shared"}, 50)
    compare("posts", posts, {"family": "full"}, 10)
    print()
    beginnings()


if __name__ == "__main__":
    main()
