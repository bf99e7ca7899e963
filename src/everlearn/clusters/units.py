"""`Units`: the coordinates in which distances between rows are measured.

Users bring raw units, so the columns decide, by one rule for all data:

1. Columns with very different ranges have different units: each is standardised. Columns in
   descending order of spread are principal components, which keep their scale.
2. Rows with many directions of similar variance around the origin, such as embeddings and texts
   in a latent space, differ in direction: each is scaled to unit length.
3. All others stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from sklearn.utils.extmath import randomized_svd

from everlearn.core.arrays import Mat, Vec

STANDARD, LENGTH, PLAIN = "standardised", "unit length", "as they are"
KINDS: Final = (STANDARD, LENGTH, PLAIN)
_UNEQUAL: Final = 20.0
"""Ratio of a large to a small range above which columns have different units."""
_DESCENDING: Final = 0.9
_MANY_DIRECTIONS: Final = 10.0
_FAR_ORIGIN: Final = 0.7
"""Length of the mean row, as a share of the usual length, above which the origin says nothing."""
_PAIRED_ROWS: Final = 1000
_POWER_STEPS: Final = 4
MAX_AXES: Final = 100
"""More columns than this are reduced to their principal axes."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """How rows are measured.

    Attributes
    ----------
    kind : one of `KINDS`
    origin, scale : (D,) what is subtracted from a row, and what divides it then
    axes : (D, d) axes on which the result is projected, or None
    """

    kind: str
    origin: Vec
    scale: Vec
    axes: Mat | None

    def measured(self, rows: Mat) -> Mat:
        """The rows in these units."""
        rows = (rows - self.origin) / self.scale
        if self.kind == LENGTH:
            rows = unit_length(rows)
        return rows if self.axes is None else rows @ self.axes


def unit_length(rows: Mat) -> Mat:
    """Rows divided by their lengths; those of length zero stay."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows / np.where(length > 0, length, 1.0)[:, None]


def choose_units(rows: Mat) -> Units:
    """Units for these rows."""
    n_columns = rows.shape[1]
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    ones, kind = np.ones(n_columns), _kind(rows, mean, spread)
    if kind == STANDARD:
        units = Units(kind, mean, np.where(spread > 0, spread, 1.0), None)
    elif kind == LENGTH:
        units = Units(kind, np.zeros(n_columns), ones, None)
    else:
        units = Units(kind, mean, ones, None)
    if n_columns <= MAX_AXES:
        return units
    measured = units.measured(rows)
    measured = measured - measured.mean(axis=0)
    n_axes = min(MAX_AXES, len(rows))
    axes = randomized_svd(measured, n_axes, n_iter=_POWER_STEPS, random_state=0)[2].T
    return Units(units.kind, units.origin, units.scale, np.ascontiguousarray(axes))


def _kind(rows: Mat, mean: Vec, spread: Vec) -> str:
    ranges = np.sort(np.ptp(rows, axis=0))
    ranges = ranges[ranges > 0]
    if len(ranges) == 0:
        return PLAIN
    last = len(ranges) - 1  # a tenth of the columns at each end does not count
    low, high = ranges[int(0.1 * last)], ranges[int(np.ceil(0.9 * last))]
    components = len(spread) >= 5 and np.mean(np.diff(spread) <= 0) >= _DESCENDING
    if high > _UNEQUAL * low and not components:
        return STANDARD
    square = float(np.mean(np.einsum("ij,ij->i", rows, rows)))
    around_origin = float(mean @ mean) < _FAR_ORIGIN**2 * square
    if around_origin and effective_dimension(rows) >= _MANY_DIRECTIONS:
        return LENGTH
    return PLAIN


def covariance(rows: Mat) -> Mat:
    """Covariance of the rows."""
    centred = rows - rows.mean(axis=0)
    return np.asarray(centred.T @ centred / len(rows))


def effective_dimension(rows: Mat) -> float:
    """Number of directions that share the variance: (tr S)^2 / tr S^2.

    tr S^2 is the mean squared product of two different centred rows, which needs no covariance.
    """
    some = rows[:: -(-len(rows) // _PAIRED_ROWS)]
    some = some - some.mean(axis=0)
    products = some @ some.T
    lengths = np.diag(products)
    pairs = len(some) * (len(some) - 1)
    square = float((products**2).sum() - (lengths**2).sum()) / max(pairs, 1)
    return float(lengths.mean()) ** 2 / square if square > 0 else 0.0
