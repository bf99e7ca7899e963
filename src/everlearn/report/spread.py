"""Where the components of a mixture lie in each column: densities as small strips."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Any, Final

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.report.charts import density_strip, number, strip_points
from everlearn.report.page import Html, minus

_MAX_COLUMNS: Final = 4
_MAX_COMPONENTS: Final = 60
"""Smaller components have no strips, so that pages stay small."""
_REACH: Final = 3.0
"""Standard deviations to each side that a strip shows."""


def spreads(model: Any) -> Mat | None:
    """Standard deviations (n_components, n_features); None for models without Gaussians."""
    means = np.asarray(getattr(model, "means_", ()))
    covariances = np.asarray(getattr(model, "covariances_", ()))
    if getattr(model, "family", None) == "multinomial":  # shares of counts, each of them tiny
        return None
    if means.ndim != 2 or means.dtype.kind != "f" or not len(means):
        return None
    if covariances.shape == means.shape:
        return np.asarray(np.sqrt(covariances))
    if covariances.shape == (*means.shape, means.shape[1]):
        return np.asarray(np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)))
    return None


def density_strips(model: Any, names: Sequence[str]) -> dict[int, Html]:
    """Strips of the columns in which each component differs most, by its permanent id.

    A strip shows the density of all rows in grey and that of the component in colour. The columns
    of a narrow table all have one, in their order; those without means, such as categories, none.
    """
    deviations = spreads(model)
    if deviations is None:
        return {}
    means, weights = np.asarray(model.means_, np.float64), np.asarray(model.weights_, np.float64)
    # Columns of a table that are no numbers have no means.
    shown = np.flatnonzero(np.isfinite(means).all(axis=0) & np.isfinite(deviations).all(axis=0))
    if not len(shown):
        return {}
    means, deviations, names = (
        means[:, shown],
        deviations[:, shown],
        [names[j] for j in shown.tolist()],
    )
    weights = weights / weights.sum()
    centre = weights @ means
    whole = np.sqrt(weights @ (deviations**2 + (means - centre) ** 2))
    apart = _divergence(means - centre, deviations, whole)
    low = np.maximum(centre - _REACH * whole, (means - _REACH * deviations).min(axis=0))
    high = np.minimum(centre + _REACH * whole, (means + _REACH * deviations).max(axis=0))
    narrow = means.shape[1] <= _MAX_COLUMNS
    found, ids = {}, model.component_ids_.tolist()
    for k in np.argsort(-weights, kind="stable")[:_MAX_COMPONENTS].tolist():
        order = np.argsort(-apart[k], kind="stable")[:_MAX_COLUMNS]
        strips = []
        for j in range(means.shape[1]) if narrow else order.tolist():
            mean, sd = float(means[k, j]), float(deviations[k, j])
            ends = min(low[j], mean - sd), max(high[j], mean + sd)
            at = strip_points(*ends)
            overall = np.array([_density(x, means[:, j], deviations[:, j]) @ weights for x in at])
            texts = (names[j], about(mean, sd))
            hint = f"{names[j]} from {_short(ends[0])} to {_short(ends[1])}"
            own = _density(at, np.float64(mean), np.float64(sd))
            strips.append(density_strip(overall, own, texts, hint))
        found[ids[k]] = Html(f'<span class="strips">{"".join(strips)}</span>')
    return found


def _divergence(shift: Mat, deviations: Mat, whole: Vec) -> Mat:
    """How far each component is from all rows in each column: Kullback-Leibler, of Gaussians."""
    tiny = np.finfo(float).tiny
    ratio = np.maximum(deviations, tiny) / np.maximum(whole, tiny)
    square = ratio**2 + (shift / np.maximum(whole, tiny)) ** 2
    return np.asarray((square - 1.0) / 2.0 - np.log(ratio))


def _density(at: Any, means: Any, deviations: Any) -> Vec:
    scale = np.maximum(deviations, np.finfo(float).tiny)
    return np.asarray(np.exp(-0.5 * ((at - means) / scale) ** 2) / scale)


def about(mean: float, sd: float) -> str:
    """A mean and its spread: two digits of the spread, and as many decimals of the mean.

    Examples
    --------
    >>> about(3.14159, 0.1234), about(1234.5, 250.0)
    ('3.14 ± 0.12', '1,230 ± 250')
    """
    if not 0 < sd < 1e12:
        return f"{_short(mean)} ± {_short(sd)}"
    decimals = 1 - floor(log10(sd))
    if decimals > 6:
        return f"{_short(mean)} ± {minus(f'{sd:.2g}')}"
    places = max(decimals, 0)
    mean, sd = round(mean, decimals) + 0.0, round(sd, decimals)  # no minus before a zero
    return f"{minus(f'{mean:,.{places}f}')} ± {sd:,.{places}f}"


def _short(value: float) -> str:
    """Three digits are enough for the end of a strip."""
    return number(float(f"{value:.3g}"))
