"""The directions in which sets of items spread most, from which splits start."""

from __future__ import annotations

from typing import Any

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Labels, Mat, Vec
from everlearn.core.families import Family, FullGaussian
from everlearn.inference.clumps import Items
from everlearn.inference.kernels.partition import scatter_times

_POWER_STEPS = 4


def principal_axes(
    family: Family[Any],
    n: Vec,
    t: Mat,
    items: Items,
    sets: tuple[IntVec, Labels, Vec],
    count: int,
) -> Cube:
    """For each set, `count` functions of the features that grow along its principal directions.

    Shape (count, n_sets, n_stats). `n`, `t` are the statistics of the sets; `sets` are items
    sorted by set: starts, items, shares. Full Gaussians have their covariance; for other families
    a few steps of subspace iteration over the items start from the widest coordinates.
    """
    spread = family.covariances(family.posterior(n, t))
    place = location(family)
    count = min(count, family.n_features)
    if spread.ndim == 3:
        vectors = np.linalg.eigh(spread)[1][:, :, ::-1][:, :, :count].transpose(0, 2, 1)
    else:
        vectors = _widest(spread, count)
        centres = t[:, place] / np.maximum(n, 1e-300)[:, None]
        for _ in range(_POWER_STEPS):
            moved = np.zeros_like(vectors)
            scatter_times(*sets, items.features, place.start, items.mass, centres, vectors, moved)
            vectors = _orthonormal(moved, vectors)
    slopes = np.zeros((count, len(n), family.n_stats))
    slopes[:, :, place] = vectors.transpose(1, 0, 2)
    return slopes


def location(family: Family[Any]) -> slice:
    """Where the features of a family hold the position x of a point."""
    first = family.n_stats - family.n_features if isinstance(family, FullGaussian) else 0
    return slice(first, first + family.n_features)


def _widest(spread: Mat, count: int) -> Cube:
    """Unit vectors along the coordinates of largest variance, shape (n_sets, count, d)."""
    order = np.argsort(-spread, axis=1, kind="stable")[:, :count]
    vectors = np.zeros((len(spread), count, spread.shape[1]))
    np.put_along_axis(vectors, order[:, :, None], 1.0, axis=2)
    return vectors


def _orthonormal(moved: Cube, before: Cube) -> Cube:
    """Orthonormal rows; a set whose items do not spread keeps what it had."""
    flat = np.abs(moved).sum(axis=(1, 2)) == 0.0
    moved[flat] = before[flat]
    turned = np.linalg.qr(moved.transpose(0, 2, 1))[0]
    return np.ascontiguousarray(turned.transpose(0, 2, 1))
