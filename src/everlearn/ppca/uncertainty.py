"""How sure a PPCA is of its noise."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from everlearn.core.arrays import Vec


def noise_interval(
    noise: float, mass: float, n_features: int, n_components: int, rate: float
) -> Vec:
    """Lower and upper end of the noise variance, learned from rows of this mass.

    Beyond its components a row has `n_features - n_components` independent coordinates, and the
    noise is their variance. Under a flat prior of the log variance the posterior of the variance is
    an inverse chi-squared one. The mean and the components use up as many coordinates as
    `1 + n_components` rows have. Components are taken as known.
    """
    rest = n_features - n_components
    freedom = (mass - 1.0 - n_components) * rest
    tail = 0.5 * (1.0 - rate)
    with np.errstate(divide="ignore"):  # a rate of 1 has no upper end
        ends = noise * mass * rest / chi2.ppf([1.0 - tail, tail], freedom)
    return np.asarray(ends)
