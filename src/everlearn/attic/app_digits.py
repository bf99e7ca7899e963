"""The demo's data: scikit-learn's handwritten digits, and the study made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from everlearn.attic.app_streaming import StreamRun
from everlearn.core.arrays import IntVec, Mat
from everlearn.core.text import megabytes
from everlearn.mixture.estimator import DPMixture
from everlearn.report.study import Gallery, Mark, Study, Truth

SIDE = 8
INK = 16.0
DIMENSIONS = 30


@dataclass(frozen=True, slots=True)
class Digits:
    """Images as rows for the model, as pixels to look at, and the digits they show.

    The projection rests on all images, as if it had been learned on an earlier collection;
    learning it from the first batches only would be stricter and changes little.
    """

    rows: Mat
    images: Mat
    labels: IntVec
    pca: PCA
    scale: float

    def pictures(self, rows: Mat) -> Mat:
        """Rows as images with ink from 0 to 1, shape (n_rows, SIDE, SIDE)."""
        pixels = self.pca.inverse_transform(rows * self.scale) / INK
        return np.asarray(np.clip(pixels, 0.0, 1.0)).reshape(-1, SIDE, SIDE)


def load() -> Digits:
    """Principal components, all divided by one number so that their mean variance is 1."""
    pixels, labels = load_digits(return_X_y=True)
    pca = PCA(DIMENSIONS, svd_solver="full").fit(pixels)
    projected = pca.transform(pixels)
    scale = float(np.sqrt(projected.var(axis=0).mean()))
    images = (pixels / INK).reshape(-1, SIDE, SIDE)
    return Digits(projected / scale, images, labels.astype(np.int64), pca, scale)


def new_model(seed: int) -> DPMixture:
    """A mixture of full Gaussians with the prior for features of unit scale."""
    return DPMixture(family="full", prior="wishart", random_state=seed)


def in_random_order(rows: Mat, seed: int) -> Mat:
    """The rows shuffled: a stream in which every digit may come at any time."""
    return np.asarray(rows[np.random.default_rng(seed).permutation(len(rows))])


def study(data: Digits, run: StreamRun, *, seed: int, batch: int) -> Study:
    """What the demo reports on."""
    n, k = len(data.rows), run.model.n_components_
    truth = Truth("digit", data.labels, tuple(str(d) for d in range(10)))
    return Study(
        model=run.model,
        rows=data.rows,
        title="Handwritten digits, learned as a stream",
        lead=(
            f"{n:,} images passed by once, {batch} at a time and without labels. "
            f"The model decided by itself that {k} components describe them best."
        ),
        noun="image",
        truth=truth,
        gallery=Gallery(data.pictures(run.model.means_), data.images),
        trace=run.trace,
        marks=(Mark(run.stopped_at, "stopped and resumed"),),
        seconds=run.seconds,
        notes=_notes(run, seed),
    )


def _notes(run: StreamRun, seed: int) -> tuple[str, ...]:
    size = megabytes(run.checkpoint_bytes)
    end = "bit for bit the same" if run.identical else "NOT the same"
    resumed = (
        f"After {run.stopped_at:,} images the model was saved to a file of {size}, loaded and "
        "continued. A model that was never stopped learned the same images: at the end both were "
        f"{end}."
    )
    prepared = (
        f"Images were projected on {DIMENSIONS} principal components and divided by one number, "
        "so that the mean variance is 1. The projection was computed from all images before the "
        "stream began."
    )
    return (
        resumed,
        prepared,
        "The true digits were used for the comparison only, after learning.",
        f"Seed {seed}; the same seed gives the same report, up to times.",
    )
