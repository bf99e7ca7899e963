"""Rows with clusters for tests, and small models of them."""

from typing import Any

import numpy as np

from everlearn import Clusters
from everlearn.core.arrays import IntVec, Mat
from everlearn.testing.data import planted_mixture

WIDTH = 3


def rows_of(n: int, seed: int = 0) -> Mat:
    """Rows of six Gaussians that are well apart."""
    return planted_mixture(n, WIDTH, 6, random_state=seed).X


def labelled(n: int, seed: int = 0, **options: Any) -> tuple[Mat, IntVec]:
    """Rows of planted clusters and their labels."""
    planted = planted_mixture(n, random_state=seed, **options)
    return planted.X, planted.labels


def model_of(**params: Any) -> Clusters:
    """A model with a fixed seed."""
    return Clusters(**{"random_state": 3, **params})


def two_islands(n: int = 200) -> Mat:
    """Two far groups of rows."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 1, (n // 2, 2)) for c in (-50, 50)])
