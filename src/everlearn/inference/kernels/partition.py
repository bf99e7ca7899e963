"""Sets of items, sorted by set: their sums, their spread, and their division in two.

Set l has the items `members[starts[l] : starts[l + 1]]`. All arrays are C-contiguous.
"""

import math

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Labels, Mat, Vec
from everlearn.inference.kernels._jit import FUSED, SUMMED, kernel


@kernel(SUMMED)
def scatter_times(
    starts: IntVec,
    members: Labels,
    shares: Vec,
    features: Mat,
    first: int,
    mass: Vec,
    centres: Mat,
    vectors: Cube,
    out: Cube,
) -> None:
    """Add the scatter matrix of each set times `vectors` (n_sets, count, d) to `out`.

    The positions that are scattered are the d features from the `first` on.
    """
    count, d = vectors.shape[1:]
    away = np.empty(d)
    for k in range(starts.size - 1):
        for j in range(starts[k], starts[k + 1]):
            c = members[j]
            for i in range(d):
                away[i] = features[c, first + i] - centres[k, i]
            weight = mass[c] * shares[j]
            for m in range(count):
                along = 0.0
                for i in range(d):
                    along += away[i] * vectors[k, m, i]
                along *= weight
                for i in range(d):
                    out[k, m, i] += along * away[i]


@kernel(FUSED)
def set_sums(sets: Labels, features: Mat, mass: Vec, n: Vec, t: Mat) -> None:
    """Add the points and feature sums of the items of each set to `n` and `t`; -1 is no set."""
    for c in range(sets.size):
        s = sets[c]
        if s < 0:
            continue
        n[s] += mass[c]
        for p in range(features.shape[1]):
            t[s, p] += mass[c] * features[c, p]


@kernel(SUMMED)
def divide_sets(
    starts: IntVec,
    members: Labels,
    features: Mat,
    mass: Vec,
    slope: Mat,
    offset: Vec,
    side: Labels,
    n: Vec,
    t: Mat,
) -> None:
    """Divide each set by the sign of slope . feature + offset.

    side : (n_items,) out: 1 on the positive side, 0 on the other, of items that are in a set;
    n, t : (n_sets,), (n_sets, n_stats) out: points and feature sums of the positive sides
    """
    n_stats = features.shape[1]
    for i in range(n.size):
        n[i] = 0.0
        t[i] = 0.0
        for j in range(starts[i], starts[i + 1]):
            c = members[j]
            score = offset[i]
            for p in range(n_stats):
                score += slope[i, p] * features[c, p]
            side[c] = 1 if score > 0.0 else 0
            if score > 0.0:
                n[i] += mass[c]
                for p in range(n_stats):
                    t[i, p] += mass[c] * features[c, p]


@kernel()
def median_sides(
    chosen: IntVec,
    starts: IntVec,
    members: Labels,
    features: Mat,
    mass: Vec,
    slope: Mat,
    side: Labels,
    n: Vec,
    t: Mat,
) -> None:
    """As `divide_sets`, for the chosen sets, at the weighted median along the slope.

    Neither side is ever empty: sets have two items at least, equal ones are divided in their
    order.
    """
    for i in chosen:
        start, end = starts[i], starts[i + 1]
        size = end - start
        along = np.empty(size)
        total = 0.0
        for j in range(size):
            c = members[start + j]
            value = 0.0
            for p in range(features.shape[1]):
                value += slope[i, p] * features[c, p]
            along[j] = value
            total += mass[c]
        n[i] = 0.0
        t[i] = 0.0
        order = np.argsort(along, kind="mergesort")
        below = 0.0
        for j in range(size):
            c = members[start + order[j]]
            upper = j == size - 1 or (j > 0 and below + mass[c] > 0.5 * total)
            below += mass[c]
            side[c] = 1 if upper else 0
            if upper:
                n[i] += mass[c]
                for p in range(features.shape[1]):
                    t[i, p] += mass[c] * features[c, p]


@kernel()
def _rising(a: float, n: float) -> float:
    """Log of the rising factorial, alpha being that of a part of a topic."""
    return math.lgamma(a + n) - math.lgamma(a)


@kernel()
def document_terms(
    starts: IntVec,
    members: Labels,
    side: Labels,
    item_starts: IntVec,
    groups: Labels,
    counts: Vec,
    sizes: Vec,
    alpha: Mat,
    spans: Mat,
    terms: Mat,
) -> None:
    """Groups on either side of divided sets, and what their documents say to the sides as topics.

    Parameters
    ----------
    starts, members, side
        The sets, and how they are divided.
    item_starts, groups, counts
        Points of each item in groups.
    sizes : (n_groups,)
        Documents in each group.
    alpha : (n_sets, 2)
        Dirichlet parameter of sides 0 and 1, each a topic of its own.
    spans : (n_sets, 2)
        Out: number of groups on each side.
    terms : (n_sets, 2)
        Out: sum over groups of D log Gamma(alpha + N / D) / Gamma(alpha), for each side.
    """
    held = np.zeros((2, sizes.size))
    seen = np.empty(sizes.size, np.int64)
    for i in range(alpha.shape[0]):
        size = 0
        for j in range(starts[i], starts[i + 1]):
            c = members[j]
            for e in range(item_starts[c], item_starts[c + 1]):
                g = groups[e]
                if held[0, g] == 0.0 and held[1, g] == 0.0:
                    seen[size] = g
                    size += 1
                held[side[c], g] += counts[e]
        for s in range(2):
            spans[i, s] = 0.0
            terms[i, s] = 0.0
            for m in range(size):
                g = seen[m]
                if held[s, g] > 0.0:
                    spans[i, s] += 1.0
                    terms[i, s] += sizes[g] * _rising(alpha[i, s], held[s, g] / sizes[g])
        for m in range(size):
            held[0, seen[m]] = 0.0
            held[1, seen[m]] = 0.0
