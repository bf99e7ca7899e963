"""Convert weights and their precisions to new units.

Means keep every prediction. A full belief is the sum of what the prior and the data say. The prior
is stated in the new units, so the belief becomes what it would be if these units had been used
from the first row.
"""

from __future__ import annotations

import numpy as np

from everlearn.core.arrays import Cube, Mat
from everlearn.linear.units import Units


def convert_mean(mean: Mat, old: Units, new: Units) -> Mat:
    """Means (Q, W) that predict the same in the units of `new`.

    Before the first row, weights are zero and stay so.
    """
    if old.n_rows == 0:
        return mean
    n = len(old.unit)
    ratio = old.target_unit / new.target_unit
    moved = mean * ratio[:, None]
    if mean.shape[1] > n:
        shift = (new.origin - old.origin) / old.unit
        moved[:, n] += (
            moved[:, :n] @ shift + (old.target_origin - new.target_origin) / new.target_unit
        )
    moved[:, :n] *= new.unit / old.unit
    return moved


def convert_precision(precision: Mat, old: Units, new: Units, prior: float) -> Mat:
    """Precisions (Q, W) of independent weights: what data add has the units of the columns."""
    moved = precision.copy()
    n = len(old.unit)
    moved[:, :n] = prior + (precision[:, :n] - prior) * (old.unit / new.unit) ** 2
    return moved


def convert_data(
    precision: Cube, shift: Mat, old: Units, new: Units, prior: float
) -> tuple[Cube, Mat]:
    """What data add to a full belief, without the prior, in the units of `new`.

    A row x with a one behind it becomes A x: A has the ratios of units on its diagonal, and the
    differences of origins in its last column.
    """
    n, n_weights = len(old.unit), precision.shape[-1]
    data = precision.copy()
    diagonal = np.arange(n_weights)
    data[:, diagonal, diagonal] -= prior
    ratio = np.ones(n_weights)
    ratio[:n] = old.unit / new.unit
    data *= ratio[:, None] * ratio
    moved = shift * ratio
    if n_weights > n:
        apart = np.zeros(n_weights)
        apart[:n] = (old.origin - new.origin) / new.unit
        last = data[:, -1].copy()
        cross = last[:, :, None] * apart
        data += cross + cross.transpose(0, 2, 1)
        data += last[:, -1, None, None] * (apart[:, None] * apart)
        moved += shift[:, -1:] * apart
        level = (old.target_origin - new.target_origin) / old.target_unit
        moved += level[:, None] * data[:, -1]
    return data, moved * (old.target_unit / new.target_unit)[:, None]


def with_prior(data: Cube, prior: float) -> Cube:
    """Precisions of what data add together with the prior."""
    precision = data.copy()
    diagonal = np.arange(data.shape[-1])
    precision[:, diagonal, diagonal] += prior
    return precision
