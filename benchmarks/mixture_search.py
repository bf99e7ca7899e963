"""`DPMixture` beside BayesianGaussianMixture on planted clusters: CPU time and likelihood."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks.table import Table
from everlearn import DPMixture

N_TEST = 4000
SEEDS = (0, 1, 2)
OVERLAP = 0.9
"""Bayes accuracy of clusters that overlap."""


@dataclass(frozen=True)
class Shape:
    """Rows, features and clusters of a planted data set, and whether their axes are oblique."""

    rows: int
    features: int
    clusters: int
    full: bool = False
    overlap: bool = False

    @property
    def name(self) -> str:
        return f"{self.rows // 1000}k x {self.features}, K {self.clusters}"


DIAGONAL = [
    Shape(20_000, 100, 20),
    Shape(50_000, 2, 15),
    Shape(40_000, 40, 30),
    Shape(100_000, 50, 50),
    Shape(200_000, 10, 100),
]
SHAPES = {
    "diagonal": DIAGONAL,
    "diagonal, overlap": [Shape(s.rows, s.features, s.clusters, overlap=True) for s in DIAGONAL],
    "full": [
        Shape(s.rows, s.features, s.clusters, full=True) for s in (*DIAGONAL[1:3], DIAGONAL[0])
    ],
    "full, overlap": [
        Shape(s.rows, s.features, s.clusters, full=True, overlap=True) for s in DIAGONAL[1:3]
    ],
}
PEER_FEATURES_TIMES_ROWS = 6_000_000
"""Data sets with more numbers are too slow for the peer."""


def run() -> Table:
    """CPU seconds, components and held-out log-likelihood, ours and theirs."""
    table = Table(
        "A mixture search beside BayesianGaussianMixture",
        ["family", "data", "CPU s", "peer's CPU s", "times", "K", "peer's K",
         "held-out log-likelihood", "peer's"],
        "`DPMixture` with default parameters is not told the number of clusters K, and has three "
        "seeds. scikit-learn's BayesianGaussianMixture gets twice the true K, at most 200 "
        "iterations, and one seed. CPU seconds are those of one thread, both in one run. The "
        f"log-likelihood is the mean of {N_TEST:,} new rows in nats; larger is better. With "
        f"overlap, centres are drawn together until the best possible classifier is right for "
        f"{OVERLAP:.0%} of the rows. An empty cell: the peer was left out because it would take "
        "many minutes.",
    )  # fmt: skip
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for family, shapes in SHAPES.items():
            for shape in shapes:
                table.add(family, shape.name, *compared(family.split(",")[0], shape))
    return table


def compared(family: str, shape: Shape) -> list[str]:
    """The cells of one row."""
    warm_up(family)
    times, found, scores = [], [], []
    for seed in SEEDS:
        X, _, new = planted(shape, seed)
        model, seconds = timed(
            lambda X=X, s=seed: DPMixture(family=family, engine="serial", random_state=s).fit(X)
        )
        times.append(seconds)
        found.append(model.n_components_)
        scores.append(model.score(new))
    cells = [f"{np.median(times):.2f}", "", "", _range(found), "", f"{scores[0]:.3f}", ""]
    if shape.rows * shape.features <= PEER_FEATURES_TIMES_ROWS and shape.clusters < 100:
        X, _, new = planted(shape, SEEDS[0])
        covariance = {"diagonal": "diag", "full": "full"}[family]
        peer, seconds = timed(
            lambda: BayesianGaussianMixture(
                n_components=2 * shape.clusters,
                covariance_type=covariance,
                max_iter=200,
                random_state=0,
            ).fit(X)
        )
        used = int((peer.weights_ > 1.0 / shape.rows).sum())
        cells[1:3] = [f"{seconds:.1f}", f"{seconds / np.median(times):.0f}"]
        cells[4], cells[6] = str(used), f"{peer.score(new):.3f}"
    return cells


def planted(shape: Shape, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of planted Gaussians, their clusters, and new rows."""
    rng = np.random.default_rng(seed)
    k, d, n = shape.clusters, shape.features, shape.rows + N_TEST
    means = _centres(k, d, rng)
    scales = rng.uniform(0.5, 1.5, (k, d))
    axes = [np.linalg.qr(rng.normal(size=(d, d)))[0] if shape.full else None for _ in range(k)]
    labels = rng.integers(k, size=n)
    noise = scales[labels] * rng.normal(size=(n, d))
    for j, turn in enumerate(axes):
        if turn is not None:
            noise[labels == j] = noise[labels == j] @ turn.T
    factor = 6.0 if d <= 3 else 2.5
    if shape.overlap:
        factor = _factor_of_overlap(means, scales, axes, labels[:N_TEST], noise[:N_TEST])
    X = factor * means[labels] + noise
    return X[: shape.rows], labels[: shape.rows], X[shape.rows :]


def _centres(k: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian points; in few dimensions far apart, with the two nearest at distance 1."""
    if d > 3:
        return rng.normal(size=(k, d))
    chosen = [rng.normal(size=d)]
    nearest = np.inf
    while len(chosen) < k:
        candidates = rng.normal(size=(20, d))
        distances = np.linalg.norm(candidates[:, None] - np.array(chosen), axis=2).min(axis=1)
        chosen.append(candidates[distances.argmax()])
        nearest = min(nearest, distances.max())
    return np.array(chosen) / nearest


def _factor_of_overlap(
    means: np.ndarray,
    scales: np.ndarray,
    axes: list[np.ndarray | None],
    labels: np.ndarray,
    noise: np.ndarray,
) -> float:
    """The factor of the centres at which the best classifier has the wanted accuracy."""
    low, high = 0.02, 20.0
    for _ in range(25):
        factor = float(np.sqrt(low * high))
        X = factor * means[labels] + noise
        scores = np.empty((len(X), len(means)))
        for j, turn in enumerate(axes):
            x = X - factor * means[j]
            x = x if turn is None else x @ turn
            scores[:, j] = -0.5 * ((x / scales[j]) ** 2).sum(axis=1) - np.log(scales[j]).sum()
        if (scores.argmax(axis=1) == labels).mean() < OVERLAP:
            low = factor
        else:
            high = factor
    return factor


def warm_up(family: str) -> None:
    """Compile everything once."""
    DPMixture(family=family, engine="serial").fit(np.random.default_rng(0).normal(size=(3000, 4)))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the CPU seconds of this process."""
    start = time.process_time()
    return work(), time.process_time() - start


def _range(found: list[int]) -> str:
    low, high = min(found), max(found)
    return str(low) if low == high else f"{low} to {high}"
