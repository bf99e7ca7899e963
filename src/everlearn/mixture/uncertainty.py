"""Uncertainty of a mixture's parameters: draws from the posterior, and intervals.

The posterior is that of the components found: it does not know of other ways to cut the rows into
components. Under the variational posterior, weights and the parameters of each component are
independent. So intervals are too narrow where components overlap.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.core.families.categories import Categories
from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGamma
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishart
from everlearn.core.families.gaussian_zero_mean import ZeroMeanGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.families.poisson import Poisson, Rates
from everlearn.core.families.product import Posteriors, Product
from everlearn.core.families.wishart import Wishart
from everlearn.core.priors.dp import SticksPosterior
from everlearn.core.random import stream
from everlearn.mixture.state import State

_WEIGHT_DRAWS: Final = 10_000
"""Draws of the weights behind their intervals."""


class CredibleIntervals(NamedTuple):
    """Lower and upper ends: the parameter is between them with the asked probability.

    Attributes
    ----------
    component_ids : ndarray of shape (n_components,)
    weights : ndarray of shape (n_components, 2)
    means : ndarray of shape (n_components, n_features, 2)
    """

    component_ids: IntVec
    weights: Mat
    means: Cube


class PosteriorDraws(NamedTuple):
    """Parameters drawn from the posterior, one set in each row.

    Attributes
    ----------
    component_ids : ndarray of shape (n_components,)
    weights : ndarray of shape (n_draws, n_components)
    means : ndarray of shape (n_draws, n_components, n_features)
    covariances : ndarray of shape (n_draws, n_components, n_features[, n_features])
    """

    component_ids: IntVec
    weights: Mat
    means: Cube
    covariances: NDArray[np.float64]


def credible_intervals(state: State, rate: float) -> CredibleIntervals:
    """Intervals with equal probability below and above."""
    known, family = state.total, state.model.family
    tail = 0.5 * (1.0 - rate)
    drawn = draw_weights(state.model.sticks(known), _WEIGHT_DRAWS, stream(state.seed, "sample", 1))
    weights = np.quantile(drawn, [tail, 1.0 - tail], axis=0).T
    ends = mean_quantiles(family, family.posterior(known.n, known.t), (tail, 1.0 - tail))
    order = np.argsort(known.ids)
    return CredibleIntervals(known.ids[order], weights[order], np.stack(ends, axis=-1)[order])


def posterior_draws(state: State, n: int, seed: int) -> PosteriorDraws:
    """Independent sets of parameters."""
    rng, known, family = stream(seed, "sample", 2), state.total, state.model.family
    weights = draw_weights(state.model.sticks(known), n, rng)
    means, covariances = draw_components(family, family.posterior(known.n, known.t), n, rng)
    order = np.argsort(known.ids)
    return PosteriorDraws(
        known.ids[order], weights[:, order], means[:, order], covariances[:, order]
    )


def draw_weights(sticks: SticksPosterior, n: int, rng: np.random.Generator) -> Mat:
    """Weights of the known components, which sum to 1, as `weights_` do."""
    v = rng.beta(sticks.won, sticks.lost, (n, len(sticks.won)))
    left = np.cumprod(1.0 - v, axis=1)
    shares = v * np.hstack([np.ones((n, 1)), left[:, :-1]])
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@singledispatch
def mean_quantiles(family: Any, q: Any, levels: tuple[float, float]) -> list[Mat]:
    """Quantiles of the mean of each component and feature, a (K, D) array for each level."""
    raise TypeError(f"quantiles of means are not known for {type(family).__name__}")


@singledispatch
def draw_components(
    family: Any, q: Any, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    """Means (n, K, D), and covariances or variances of the components."""
    raise TypeError(f"draws of parameters are not known for {type(family).__name__}")


# ----------------------------------------------------------------- diagonal Gaussians


@mean_quantiles.register
def _(family: DiagGaussian, q: NormalGamma, levels: tuple[float, float]) -> list[Mat]:
    scale = np.sqrt(q.rate / (q.shape * q.mean_precision))
    centre = q.mean + family.origin
    return [centre + scale * stats.t.ppf(level, 2.0 * q.shape) for level in levels]


@draw_components.register
def _(
    family: DiagGaussian, q: NormalGamma, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    variances = q.rate / rng.gamma(np.broadcast_to(q.shape, q.rate.shape), size=(n, *q.rate.shape))
    noise = rng.standard_normal(variances.shape)
    means = family.origin + q.mean + noise * np.sqrt(variances / q.mean_precision)
    return means, variances


# --------------------------------------------------------------------- full Gaussians


@mean_quantiles.register
def _(family: FullGaussian, q: NormalWishart, levels: tuple[float, float]) -> list[Mat]:
    dof = (q.wishart.dof - q.wishart.dim + 1.0)[:, None]
    spread = np.diagonal(q.wishart.scale, axis1=1, axis2=2)
    scale = np.sqrt(spread / (dof * q.mean_precision[:, None]))
    centre = q.mean + family.origin
    return [centre + scale * stats.t.ppf(level, dof) for level in levels]


@draw_components.register
def _(
    family: FullGaussian, q: NormalWishart, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    roots = _draw_roots(q.wishart, n, rng)
    noise = rng.standard_normal((*roots.shape[:-1], 1))
    apart = (roots @ noise)[..., 0] / np.sqrt(q.mean_precision)[:, None]
    return family.origin + q.mean + apart, roots @ roots.swapaxes(-1, -2)


# ---------------------------------------------------------------- zero-mean Gaussians


@mean_quantiles.register
def _(family: ZeroMeanGaussian, q: Wishart, levels: tuple[float, float]) -> list[Mat]:
    return [np.zeros((len(q.dof), q.dim)) for _ in levels]


@draw_components.register
def _(
    family: ZeroMeanGaussian, q: Wishart, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    roots = _draw_roots(q, n, rng)
    return np.zeros(roots.shape[:-1]), roots @ roots.swapaxes(-1, -2)


def _draw_roots(wishart: Wishart, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Roots R of covariances R R' (n, K, D, D), where R = L A^-T with Bartlett's factor A.

    The precision is L^-T A A' L^-1 with A A' ~ W(dof, I), so its inverse is L (A A')^-1 L'.
    """
    d, k = wishart.dim, len(wishart.dof)
    bartlett = np.tril(rng.standard_normal((n, k, d, d)), -1)
    places = np.arange(d)
    bartlett[..., places, places] = np.sqrt(rng.chisquare(wishart.dof[:, None] - places, (n, k, d)))
    return np.asarray(wishart.factor @ np.linalg.inv(bartlett).swapaxes(-1, -2))


# ---------------------------------------------------------------------------- counts


@mean_quantiles.register
def _(family: Multinomial, q: np.ndarray, levels: tuple[float, float]) -> list[Mat]:
    rest = q.sum(axis=1, keepdims=True) - q
    return [stats.beta.ppf(level, q, np.maximum(rest, 1e-300)) for level in levels]


@draw_components.register
def _(
    family: Multinomial, q: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    gammas: Vec = rng.gamma(q, size=(n, *q.shape))
    means = gammas / gammas.sum(axis=-1, keepdims=True)
    return means, means * (1.0 - means)


# ---------------------------------------------------------------------------- tables


@mean_quantiles.register
def _(family: Categories, q: np.ndarray, levels: tuple[float, float]) -> list[Mat]:
    return [family.means(q) for _ in levels]


@draw_components.register
def _(
    family: Categories, q: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    nothing = np.full((n, len(q), family.n_features), np.nan)
    return nothing, nothing.copy()


@mean_quantiles.register
def _(family: Poisson, q: Rates, levels: tuple[float, float]) -> list[Mat]:
    return [stats.gamma.ppf(level, q.shape, scale=1.0 / q.inverse_scale) for level in levels]


@draw_components.register
def _(
    family: Poisson, q: Rates, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    rates = rng.gamma(q.shape, 1.0 / q.inverse_scale, (n, *q.shape.shape))
    return rates, rates.copy()


@mean_quantiles.register
def _(family: Product, q: Posteriors, levels: tuple[float, float]) -> list[Mat]:
    each = zip(family.blocks, q, strict=True)
    parts = [mean_quantiles(block.family, own, levels) for block, own in each]
    return [_in_columns(family, list(part)) for part in zip(*parts, strict=True)]


@draw_components.register
def _(
    family: Product, q: Posteriors, n: int, rng: np.random.Generator
) -> tuple[Cube, NDArray[np.float64]]:
    each = zip(family.blocks, q, strict=True)
    parts = [draw_components(block.family, own, n, rng) for block, own in each]
    means, variances = zip(*parts, strict=True)
    return _in_columns(family, list(means)), _in_columns(family, list(variances))


def _in_columns(family: Product, parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Arrays of all blocks, whose last axis is their columns, as one array of all columns."""
    out = np.empty((*parts[0].shape[:-1], family.n_features))
    for block, part in zip(family.blocks, parts, strict=True):
        out[..., block.columns] = part
    return out
