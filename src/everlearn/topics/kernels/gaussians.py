"""Gaussian weights of many tasks: their moments, and sums over documents that update them.

Natural parameters of task q are a precision (K, K), symmetric, and a shift = precision @ mean.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Cube, Mat, Vec
from everlearn.kernels.jit import FUSED, SUMMED, kernel

_WIDTH = 4
"""Rows that are eliminated together, so that fewer passes over the matrix are needed."""


@kernel()
def _invert_corner(a: Cube, q: int, p: int, width: int, corner: Mat) -> bool:
    """Invert a block on the diagonal, with zeros around it. Return whether the inverse exists."""
    corner[:] = 0.0
    for i in range(width):
        for j in range(width):
            corner[i, j] = a[q, p + i, p + j]
    for k in range(width):
        pivot = corner[k, k]
        if not pivot > 0.0:
            return False
        for j in range(width):
            corner[k, j] = (1.0 if j == k else corner[k, j]) / pivot
        for i in range(width):
            if i != k:
                factor = corner[i, k]
                corner[i, k] = 0.0
                for j in range(width):
                    corner[i, j] -= factor * corner[k, j]
    return True


@kernel(FUSED)
def _sweep_out(a: Cube, q: int, p: int, width: int, corner: Mat, columns: Mat, rows: Mat) -> None:
    """Sweep some rows and columns of a symmetric matrix, of which the lower half is kept.

    A block D on the diagonal becomes -1/D, what stands below and left of it, C, becomes C / D,
    and C / D C' is taken from all the rest. Once all blocks are swept, -1/A is left.
    """
    n = a.shape[1]
    columns[:] = 0.0
    rows[:] = 0.0
    for l in range(width):
        for j in range(p):
            columns[l, j] = a[q, p + l, j]
    for j in range(n):
        if j >= p + width:
            for l in range(width):
                columns[l, j] = a[q, j, p + l]
    for l in range(width):
        for m in range(width):
            for j in range(n):
                rows[l, j] += corner[l, m] * columns[m, j]
    for i in range(n):
        stop = min(n, (i // 16 + 1) * 16)
        c0, c1, c2, c3 = columns[0, i], columns[1, i], columns[2, i], columns[3, i]
        for j in range(stop):
            value = a[q, i, j] - c0 * rows[0, j]
            value -= c1 * rows[1, j]
            value -= c2 * rows[2, j]
            a[q, i, j] = value - c3 * rows[3, j]
        if i >= p + width:
            for l in range(width):
                a[q, i, p + l] = rows[l, i]
    for l in range(width):
        for j in range(p):
            a[q, p + l, j] = rows[l, j]
        for m in range(width):
            a[q, p + l, p + m] = -corner[l, m]


@kernel(SUMMED)
def _dot(a: Cube, q: int, i: int, b: Mat) -> float:
    total = 0.0
    for j in range(b.shape[1]):
        total += a[q, i, j] * b[q, j]
    return total


@kernel()
def invert(precision: Cube, shift: Mat, mean: Mat, covariance: Cube) -> bool:
    """Fill means (Q, K) and covariances (Q, K, K); False if a matrix is not positive definite.

    Blocks are swept without pivoting, which positive definite matrices do not need.
    """
    n_tasks, n = shift.shape
    corner = np.empty((_WIDTH, _WIDTH))
    columns, rows = np.empty((_WIDTH, n)), np.empty((_WIDTH, n))
    for q in range(n_tasks):
        covariance[q] = precision[q]
        for p in range(0, n, _WIDTH):
            width = min(_WIDTH, n - p)
            if not _invert_corner(covariance, q, p, width, corner):
                return False
            _sweep_out(covariance, q, p, width, corner, columns, rows)
        for i in range(n):
            for j in range(i + 1):
                covariance[q, i, j] = -covariance[q, i, j]
                covariance[q, j, i] = covariance[q, i, j]
        for i in range(n):
            mean[q, i] = _dot(covariance, q, i, shift)
    return True


@kernel(FUSED)
def tabulate(mean: Mat, covariance: Cube, seconds: Cube, pairs: Cube, squares: Mat) -> None:
    """Tables of E[w w'] of all tasks, in the orders in which kernels read them.

    Parameters
    ----------
    mean, covariance : (Q, K) and (Q, K, K)
    seconds : (K, Q, K), filled
    pairs : (K, K, Q), filled where the second topic is not behind the first
    squares : (Q, K), the diagonals, filled
    """
    n_tasks, n = mean.shape
    for k in range(n):
        for q in range(n_tasks):
            own = mean[q, k]
            for l in range(n):
                seconds[k, q, l] = covariance[q, k, l] + own * mean[q, l]
            squares[q, k] = seconds[k, q, k]
        for l in range(k + 1):
            for q in range(n_tasks):
                pairs[k, l, q] = seconds[k, q, l]


@kernel(SUMMED)
def add_moments(
    tallies: NDArray[np.float64],
    lengths: Vec,
    inverses: NDArray[np.float64],
    signs: NDArray[np.int8],
    offsets: Mat,
    c: float,
    scale: float,
    precision: Cube,
    shift: Mat,
) -> None:
    """Add the evidence of kept sweeps and documents about the weights (BayesPA eq. 28).

    Parameters
    ----------
    tallies, inverses : (kept sweeps, B, K) and (kept sweeps, B, hinges)
    signs, offsets, c : as in `Hinges`; hinges beyond the number of tasks share their weights
    scale : of all that is added
    precision : (Q, K, K), gets c^2 z z' / lambda
    shift : (Q, K), gets c s (1 + c o / lambda) z
    """
    n_tasks, n_topics = shift.shape
    present, z = np.empty(n_topics, np.int64), np.empty(n_topics)
    forces, strengths = np.empty(n_tasks), np.empty(n_tasks)
    pulls, pairs = np.zeros((n_topics, n_tasks)), np.zeros((n_topics, n_topics, n_tasks))
    for sweep in range(tallies.shape[0]):
        for d in range(tallies.shape[1]):
            m = 0
            for k in range(n_topics):
                if tallies[sweep, d, k] != 0.0:
                    present[m] = k
                    z[m] = tallies[sweep, d, k] / lengths[d]
                    m += 1
            forces[:] = 0.0
            strengths[:] = 0.0
            for hinge in range(signs.shape[1]):
                q, sign, inverse = hinge % n_tasks, signs[d, hinge], inverses[sweep, d, hinge]
                if sign != 0:
                    forces[q] += scale * c * sign * (1.0 + c * offsets[d, hinge] * inverse)
                    strengths[q] += scale * c * c * inverse
            for i in range(m):
                _add_products(z[i], forces, pulls[present[i]])
                for j in range(i + 1):
                    _add_products(z[i] * z[j], strengths, pairs[present[i], present[j]])
    _add_to_tasks(pulls, pairs, precision, shift)


@kernel(SUMMED)
def _add_products(factor: float, values: Vec, out: Vec) -> None:
    for q in range(values.size):
        out[q] += factor * values[q]


@kernel()
def _add_to_tasks(pulls: Mat, pairs: Cube, precision: Cube, shift: Mat) -> None:
    """Add sums of topics (K, Q), and of pairs of which the first is not before the second."""
    for k in range(pulls.shape[0]):
        for q in range(pulls.shape[1]):
            shift[q, k] += pulls[k, q]
        for l in range(k + 1):
            for q in range(pulls.shape[1]):
                precision[q, k, l] += pairs[k, l, q]
                if l < k:
                    precision[q, l, k] += pairs[k, l, q]
