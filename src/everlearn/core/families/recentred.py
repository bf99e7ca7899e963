"""Move the statistics of Gaussian rows to another origin, without visiting the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.gaussian_full import FullGaussian
from everlearn.core.math import unpack_symmetric, upper_triangle
from everlearn.core.stats import Stats


def recentred(family: DiagGaussian | FullGaussian, stats: Stats, origin: Vec) -> Stats:
    """Statistics as if features had been taken about `origin`: sums of (x - o) and its squares.

    With x - o = (x - o') + s, first moments gain n s, second ones s t' + t s' + n s s'.
    """
    shift = family.origin - origin
    if not shift.any():
        return stats
    d = family.n_features
    if isinstance(family, DiagGaussian):
        first, second, count = stats.t[:, :d], stats.t[:, d : 2 * d], stats.t[:, 2 * d :]
        mass = count if family.missing else stats.n[:, None]
        t = [first + mass * shift, second + 2.0 * shift * first + mass * shift**2, count]
        return replace(stats, t=np.hstack(t))
    first = stats.t[:, -d:]
    cross = first[:, :, None] * shift
    square = unpack_symmetric(stats.t[:, :-d], d) + cross + cross.transpose(0, 2, 1)
    square += stats.n[:, None, None] * np.outer(shift, shift)
    rows, columns = upper_triangle(d)
    return replace(stats, t=np.hstack([square[:, rows, columns], first + stats.n[:, None] * shift]))
