"""Single runs of the scene experiment: features, resamples, and the scores of models on them."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.mixture import BayesianGaussianMixture

from benchmarks.corpora import DATA
from benchmarks.images import caltech
from benchmarks.remember import is_remembered, remembered
from benchmarks.table import ROOT
from everlearn import DPMixture
from everlearn.engine.progress import watched_growth
from everlearn.images import HOG, LBP, CNNFeatures, ScaledPCA, image_pipeline
from everlearn.metrics.clustering import adjusted_mutual_information, clustering_scores

PAPER = "par_ingmm"
KEPT = ROOT / "out" / "reproduce" / PAPER
WEIGHTS = DATA / "models" / "efficientnet_lite0_fp16w.onnx"
FEATURES = {
    "HOG": lambda: HOG(),
    "LBP": lambda: LBP(),
    "CNN": lambda: CNNFeatures(WEIGHTS, output="features"),
}
N_COMPONENTS = 100
MANY = 9_000
"""Images of the end-to-end run: the data set, repeated."""
PER_CATEGORY = 24
"""Images of each of the 102 categories in a resample, out of 30."""


# --------------------------------------------------------------------- features


def described(name: str) -> dict[str, Any]:
    """Describe, reduce and cluster 9,000 images: seconds of each step."""
    return remembered(
        PAPER, f"end-to-end-{name}", lambda: _end_to_end(name), _params(_shared(random_state=0))
    )


def is_described(name: str) -> bool:
    """Whether the end-to-end run is in the cache."""
    return is_remembered(PAPER, f"end-to-end-{name}", _params(_shared(random_state=0)))


def _end_to_end(name: str) -> dict[str, Any]:
    files = list(islice(cycle(caltech().photographs.files()), MANY))
    transformer = FEATURES[name]().fit()
    transformer.transform(files[:1])  # loads what is not loaded yet
    with _measured() as features:
        rows = transformer.transform(files)
    with _measured() as reduction:
        reduced = ScaledPCA(N_COMPONENTS).fit_transform(rows)
    _shared(random_state=0).fit(reduced[:100])  # compiles
    model = _shared(random_state=0)
    with _measured() as clustering, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(reduced)
    return {
        "width": rows.shape[1],
        "features": features,
        "reduction": reduction,
        "clustering": clustering,
        "K": model.n_components_,
    }


def feature_rows(name: str) -> np.ndarray:
    """The features of the 3,060 images, cached on disk."""
    path = KEPT / f"features-{name}.npy"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        _kept(path, FEATURES[name]().transform(caltech().photographs))
    return np.load(path, mmap_mode="r")


def _kept(path: Path, rows: np.ndarray) -> None:
    """Write an array to a file that gets its name when it is complete."""
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.save(file, rows)
    partial.rename(path)


@contextmanager
def _measured() -> Iterator[dict[str, float]]:
    spent: dict[str, float] = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield spent
    spent |= {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


# -------------------------------------------------------------------- resamples


def chosen(size: int, resample: int, y: np.ndarray) -> np.ndarray:
    """Positions of the images of a resample.

    Ten categories: ten folders with all their images, other folders in each resample. All of them:
    24 of the 30 images of each folder, drawn anew.
    """
    n_folders = int(y.max()) + 1
    if size == n_folders:
        rng = np.random.default_rng(resample)
        drawn = [
            rng.choice(np.flatnonzero(y == k), PER_CATEGORY, replace=False)
            for k in range(n_folders)
        ]
        return np.sort(np.concatenate(drawn))
    folders = np.random.default_rng(0).permutation(n_folders)
    return np.flatnonzero(np.isin(y, folders[size * resample : size * (resample + 1)]))


@dataclass(frozen=True)
class Scene:
    """Features and a resample of the images."""

    features: str
    size: int
    resample: int

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        """Reduced rows of unit mean variance, and classes."""
        y = caltech().y
        rows = chosen(self.size, self.resample, y)
        path = KEPT / f"reduced-{self.features}-{self.size}-{self.resample}.npy"
        if not path.exists():
            X = np.asarray(feature_rows(self.features)[rows], np.float64)
            _kept(path, ScaledPCA(N_COMPONENTS).fit_transform(X))
        return np.load(path), y[rows]


# ----------------------------------------------------------------------- models


def _shared(**params: Any) -> DPMixture:
    """The mixture at the end of image pipelines."""
    return image_pipeline("hog").named_steps["mixture"].set_params(**params)


def _dp(family: str, prior: str) -> Callable[[int, int], DPMixture]:
    return lambda k, seed: DPMixture(family=family, prior=prior, random_state=seed, engine="serial")


def _at_true_k(family: str, prior: str) -> Callable[[int, int], DPMixture]:
    """The same with at most the true number of components, without births and merges."""
    model = _dp(family, prior)
    return lambda k, seed: model(k, seed).set_params(max_components=k, moves=())


MODELS: dict[str, Callable[[int, int], Any]] = {
    "full": _dp("full", "wishart"),
    "zero-mean": _dp("zero-mean", "wishart"),
    "diagonal, Wishart": _dp("diagonal", "wishart"),
    "Par-InGMM": _dp("diagonal", "par-ingmm"),
    "diagonal, shared": lambda k, seed: _shared(random_state=seed, engine="serial"),
    "KMeans, true K": lambda k, seed: KMeans(k, n_init=10, random_state=seed),
    "BayesianGaussianMixture, 2 K": lambda k, seed: BayesianGaussianMixture(
        n_components=2 * k, random_state=seed
    ),
    "BayesianGaussianMixture, diagonal, 2 K": lambda k, seed: BayesianGaussianMixture(
        n_components=2 * k, covariance_type="diag", max_iter=200, random_state=seed
    ),
    "HDBSCAN": lambda k, seed: HDBSCAN(min_cluster_size=5, copy=True),
}
OURS = tuple(MODELS)[:5]
AT_TRUE_K: dict[str, Callable[[int, int], Any]] = {
    "full": _at_true_k("full", "wishart"),
    "zero-mean": _at_true_k("zero-mean", "wishart"),
    "diagonal, Wishart": _at_true_k("diagonal", "wishart"),
    "Par-InGMM": _at_true_k("diagonal", "par-ingmm"),
    "diagonal, shared": _at_true_k("diagonal", "shared"),
}
"""The families with the true number of components."""


def clustered(scene: Scene, name: str, true_k: bool = False) -> dict[str, Any]:
    """Scores, K, time and laps of a model on a scene, or of a family at the true K."""
    make = (AT_TRUE_K if true_k else MODELS)[name]
    model = make(scene.size, scene.resample)
    return remembered(PAPER, _name(scene, name, true_k), lambda: _run(scene, make), _params(model))


def is_done(scene: Scene, name: str, true_k: bool = False) -> bool:
    """Whether that run is in the cache."""
    model = (AT_TRUE_K if true_k else MODELS)[name](scene.size, scene.resample)
    return is_remembered(PAPER, _name(scene, name, true_k), _params(model))


def _name(scene: Scene, model: str, true_k: bool) -> str:
    words = f"{scene.features}-{scene.size}-{model}-{'told-' if true_k else ''}{scene.resample}"
    return words.replace(", ", "-").replace(" ", "-")


def _params(model: Any) -> dict[str, str]:
    """Parameters of a model, which tell its cached runs from those with other settings."""
    return {name: repr(value) for name, value in model.get_params(deep=False).items()}


def _run(scene: Scene, make: Callable[[int, int], Any]) -> dict[str, Any]:
    X, y = scene.load()
    model = make(scene.size, scene.resample)
    if isinstance(model, DPMixture):
        make(2, 0).fit(X[:40])  # compiles what is not compiled yet
    with warnings.catch_warnings(), watched_growth() as trace:
        warnings.simplefilter("ignore")
        start = time.process_time()
        labels = model.fit_predict(X)
        cpu = time.process_time() - start
    return {
        **asdict(clustering_scores(y, labels)),
        "ami_arithmetic": adjusted_mutual_information(y, labels, "arithmetic"),
        "bound": model.bound_ if isinstance(model, DPMixture) else None,
        "cpu": cpu,
        "trace": trace,
    }
