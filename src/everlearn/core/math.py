"""Normalisers and small linear algebra shared by families and priors."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from everlearn.core.arrays import Cube, Mat, Vec

LOG_2PI = math.log(2.0 * math.pi)


def log_gamma_multivariate(a: Vec, dim: int) -> Vec:
    """Log of the multivariate gamma function of each entry of `a`, for `dim` dimensions."""
    shifts = 0.5 * np.arange(dim)
    constant = 0.25 * dim * (dim - 1) * math.log(math.pi)
    return np.asarray(constant + gammaln(a[:, None] - shifts).sum(axis=1))


def digamma_multivariate(a: Vec, dim: int) -> Vec:
    """Derivative of `log_gamma_multivariate` with respect to `a`."""
    return np.asarray(psi(a[:, None] - 0.5 * np.arange(dim)).sum(axis=1))


def log_beta_normalizer(a: Vec, b: Vec) -> Vec:
    """Log of the constant in front of a Beta(a, b) density."""
    return np.asarray(gammaln(a + b) - gammaln(a) - gammaln(b))


@cache
def upper_triangle(dim: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column numbers of the upper triangle, in row order."""
    return np.triu_indices(dim)


def unpack_symmetric(packed: Mat, dim: int) -> Cube:
    """Symmetric (K, D, D) matrices from the rows of their upper triangles, (K, D (D + 1) / 2)."""
    rows, columns = upper_triangle(dim)
    out = np.empty((packed.shape[0], dim, dim))
    out[:, rows, columns] = packed
    out[:, columns, rows] = packed
    return out
