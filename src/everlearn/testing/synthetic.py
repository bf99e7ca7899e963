"""Data whose truth is known, to see whether a model finds it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Cube, Mat, Vec

_CANDIDATES = 20
"""Each centre is the one of so many that is farthest from those before it."""
_NARROWEST = 0.3
"""Standard deviations along the axes of a cluster lie between this and 1."""


@dataclass(frozen=True, slots=True)
class PlantedMixture:
    """Rows and the mixture of Gaussians they were drawn from.

    Attributes
    ----------
    X : (n_rows, n_features) rows, in random order
    labels : (n_rows,) component each row was drawn from
    weights : (n_components,) share of each component
    means : (n_components, n_features) centres
    covariances : (n_components, n_features, n_features) covariances
    """

    X: Mat
    labels: NDArray[np.int64]
    weights: Vec
    means: Mat
    covariances: Cube


def planted_mixture(
    n_rows: int = 5000,
    n_features: int = 2,
    n_components: int = 8,
    *,
    separation: float = 8.0,
    shape: Literal["round", "axis-parallel", "oblique"] = "round",
    random_state: int | np.random.Generator | None = None,
) -> PlantedMixture:
    """Rows of a mixture of Gaussians whose components are well apart.

    Parameters
    ----------
    n_rows, n_features, n_components : int
        How many of each. Shares of the components differ by up to a factor of 3.
    separation : float, default=8.0
        Distance of the two nearest centres, in standard deviations along the longest axis of
        any component.
    shape : {"round", "axis-parallel", "oblique"}, default="round"
        Of the components: unit covariance, a random diagonal one, or that rotated at random.
    random_state : int, Generator or None, default=None
        Determines everything.

    Returns
    -------
    PlantedMixture
        The rows and the truth.

    Examples
    --------
    >>> planted = planted_mixture(1000, 3, 5, random_state=0)
    >>> planted.X.shape, planted.means.shape, np.unique(planted.labels).size
    ((1000, 3), (5, 3), 5)
    """
    rng = np.random.default_rng(random_state)
    means = _centres(n_components, n_features, rng) * separation
    axes = np.ones((n_components, n_features))
    if shape != "round":
        axes = rng.uniform(_NARROWEST, 1.0, axes.shape)
        axes[:, 0] = 1.0
        axes = rng.permuted(axes, axis=1)
    factors = axes[:, :, None] * np.eye(n_features)
    if shape == "oblique":
        directions, _ = np.linalg.qr(rng.normal(size=factors.shape))
        factors = directions @ factors
    weights = rng.uniform(0.5, 1.5, n_components)
    weights /= weights.sum()
    labels = rng.choice(n_components, n_rows, p=weights)
    noise = rng.standard_normal((n_rows, n_features))
    X = means[labels] + np.einsum("nij,nj->ni", factors[labels], noise)
    return PlantedMixture(X, labels, weights, means, factors @ factors.transpose(0, 2, 1))


def _centres(n_components: int, n_features: int, rng: np.random.Generator) -> Mat:
    """Random points of which the two nearest are at distance 1."""
    chosen = rng.normal(size=(1, n_features))
    nearest = np.inf
    for _ in range(1, n_components):
        candidates = rng.normal(size=(_CANDIDATES, n_features))
        distances = np.linalg.norm(candidates[:, None] - chosen, axis=2).min(axis=1)
        best = int(np.argmax(distances))
        nearest = min(nearest, float(distances[best]))
        chosen = np.vstack([chosen, candidates[best]])
    return chosen if n_components == 1 else chosen / nearest
