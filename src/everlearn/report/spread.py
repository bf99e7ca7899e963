"""Draw where each component of a mixture lies in each column, as small density strips."""

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
_STRIP_DEVIATIONS: Final = 3.0
"""A strip shows this many standard deviations to each side."""


def standard_deviations(model: Any) -> Mat | None:
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
    """For each component, by its permanent id, strips of the columns in which it differs most.

    A strip shows the density of all rows in grey and that of the component in colour. A narrow
    table has strips of all columns, in their order. Columns without means, such as categories,
    have none.
    """
    deviations = standard_deviations(model)
    if deviations is None:
        return {}
    means, weights = np.asarray(model.means_, np.float64), np.asarray(model.weights_, np.float64)
    shown = np.flatnonzero(np.isfinite(means).all(axis=0) & np.isfinite(deviations).all(axis=0))
    if not len(shown):
        return {}
    means, deviations = means[:, shown], deviations[:, shown]
    names = [names[j] for j in shown.tolist()]
    weights = weights / weights.sum()
    centre = weights @ means
    whole = np.sqrt(weights @ (deviations**2 + (means - centre) ** 2))
    apart = _divergence(means - centre, deviations, whole)
    reach, whole_reach = _STRIP_DEVIATIONS * deviations, _STRIP_DEVIATIONS * whole
    low = np.maximum(centre - whole_reach, (means - reach).min(axis=0))
    high = np.minimum(centre + whole_reach, (means + reach).max(axis=0))
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
            texts = (names[j], mean_and_spread(mean, sd))
            hint = f"{names[j]} from {_short(ends[0])} to {_short(ends[1])}"
            own = _density(at, np.float64(mean), np.float64(sd))
            strips.append(density_strip(overall, own, texts, hint))
        found[ids[k]] = Html(f'<span class="strips">{"".join(strips)}</span>')
    return found


def _divergence(shift: Mat, deviations: Mat, whole: Vec) -> Mat:
    """Kullback-Leibler divergence of each component from all rows in each column, as Gaussians."""
    tiny = np.finfo(float).tiny
    ratio = np.maximum(deviations, tiny) / np.maximum(whole, tiny)
    square = ratio**2 + (shift / np.maximum(whole, tiny)) ** 2
    return np.asarray((square - 1.0) / 2.0 - np.log(ratio))


def _density(at: Any, means: Any, deviations: Any) -> Vec:
    scale = np.maximum(deviations, np.finfo(float).tiny)
    return np.asarray(np.exp(-0.5 * ((at - means) / scale) ** 2) / scale)


def mean_and_spread(mean: float, sd: float) -> str:
    """A mean and its spread: two digits of the spread, and as many decimals of the mean.

    Examples
    --------
    >>> mean_and_spread(3.14159, 0.1234), mean_and_spread(1234.5, 250.0)
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
