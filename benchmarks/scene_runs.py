"""Single runs of the scene-clustering experiment: features, resamples, and models on them."""

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
from benchmarks.remember import remembered
from benchmarks.table import ROOT
from everlearn import DPMixture
from everlearn.features import HOG, LBP, CNNFeatures, ScaledPCA, image_pipeline
from everlearn.metrics.clustering import adjusted_mutual_information, clustering_scores
from everlearn.runtime.progress import watched_growth

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
"""Images of the end-to-end run: the set, repeated."""
PER_CATEGORY = 24
"""Images of each of the 102 categories in a resample, out of 30."""


# --------------------------------------------------------------------- features


def described(name: str) -> dict[str, Any]:
    """Describe, reduce and cluster 9,000 images; what each took."""
    return remembered(PAPER, f"end-to-end-{name}", lambda: _end_to_end(name))


def is_described(name: str) -> bool:
    """Whether that is remembered."""
    return (KEPT / f"end-to-end-{name}.json").exists()


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
    """The features of the 3,060 images, which are kept on disk."""
    path = KEPT / f"features-{name}.npy"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        _kept(path, FEATURES[name]().transform(caltech().photographs))
    return np.load(path, mmap_mode="r")


def _kept(path: Path, rows: np.ndarray) -> None:
    """Write a file that is whole or not there."""
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
    """Which features of which images."""

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
    """What image pipelines end in."""
    return image_pipeline("hog").named_steps["mixture"].set_params(**params)


def _dp(family: str, prior: str) -> Callable[[int, int, int], Any]:
    return lambda n, k, seed: DPMixture(
        family=family, prior=prior, random_state=seed, engine="serial"
    )


MODELS: dict[str, Callable[[int, int, int], Any]] = {
    "full": _dp("full", "wishart"),
    "zero-mean": _dp("zero-mean", "wishart"),
    "diagonal, Wishart": _dp("diagonal", "wishart"),
    "Par-InGMM": _dp("diagonal", "par-ingmm"),
    "diagonal, shared": lambda n, k, seed: _shared(random_state=seed, engine="serial"),
    "KMeans, true K": lambda n, k, seed: KMeans(k, n_init=10, random_state=seed),
    "BayesianGaussianMixture, 2 K": lambda n, k, seed: BayesianGaussianMixture(
        n_components=2 * k, random_state=seed
    ),
    "BayesianGaussianMixture, diagonal, 2 K": lambda n, k, seed: BayesianGaussianMixture(
        n_components=2 * k, covariance_type="diag", max_iter=200, random_state=seed
    ),
    "HDBSCAN": lambda n, k, seed: HDBSCAN(min_cluster_size=5, copy=True),
}
OURS = tuple(MODELS)[:5]


def clustered(scene: Scene, model: str) -> dict[str, Any]:
    """Scores, K, time and laps of a model on a scene."""
    return remembered(PAPER, _name(scene, model), lambda: _run(scene, model))


def is_done(scene: Scene, model: str) -> bool:
    """Whether that run is remembered."""
    return (KEPT / f"{_name(scene, model)}.json").exists()


def _name(scene: Scene, model: str) -> str:
    words = f"{scene.features}-{scene.size}-{model}-{scene.resample}"
    return words.replace(", ", "-").replace(" ", "-")


def _run(scene: Scene, name: str) -> dict[str, Any]:
    X, y = scene.load()
    k = len(np.unique(y))
    model = MODELS[name](len(X), k, scene.resample)
    if isinstance(model, DPMixture):
        MODELS[name](40, 2, 0).fit(X[:40])  # compiles what is not compiled yet
    with warnings.catch_warnings(), watched_growth() as trace:
        warnings.simplefilter("ignore")
        start = time.process_time()
        labels = model.fit_predict(X)
        cpu = time.process_time() - start
    laps = len(model.bound_history_) if isinstance(model, DPMixture) else None
    return {
        **asdict(clustering_scores(y, labels)),
        "ami_arithmetic": adjusted_mutual_information(y, labels, "arithmetic"),
        "bound": model.bound_ if isinstance(model, DPMixture) else None,
        "cpu": cpu,
        "laps": laps,
        "trace": trace,
    }
