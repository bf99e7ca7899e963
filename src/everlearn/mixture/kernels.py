"""Compiled loops of the local step: responsibilities, their entropy, and losses of pairs.

A block of scores is processed in tiles of a few rows. Each tile is copied, with the bias added,
into scratch rows that are padded with -inf to whole vectors. So the loop with the exponential has
no scalar remainder, and the processor works on several rows at the same time.

All arrays are C-contiguous. `scores` and `bias` are both float64 or both float32. Sums over rows
are float64. `weights` of size zero stands for unit weights.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.kernels.jit import FUSED, SUMMED, kernel
from everlearn.kernels.scalars import exp, from_rank, to_rank

Reals = NDArray[np.floating]
TILE_BYTES = 1 << 15  # fits the first-level cache
VECTOR_BYTES = 64
NEGLIGIBLE = 1e-30  # responsibilities below this become exactly zero
INACTIVE = 1e-14  # responsibilities below this take no part in the loss of a pair


class Tile(NamedTuple):
    """Scratch for a few rows.

    scores: biased scores, -inf behind the last; powers: exp(score - peak); peaks, totals, logs:
    largest score of each row, sum of its powers, logarithm of that sum.
    """

    scores: Reals
    powers: Reals
    peaks: Reals
    totals: Reals
    logs: Reals


@kernel()
def _tile(scores: Reals, width: int) -> Tile:
    """A tile with room for `width` scores in each row."""
    lanes = VECTOR_BYTES // scores.itemsize
    padded = (width + lanes - 1) // lanes * lanes
    rows = max(1, TILE_BYTES // (padded * 2 * scores.itemsize))
    shape = (rows, padded)
    lowest = np.full(shape, -np.inf, scores.dtype)
    peaks = np.empty(rows, scores.dtype)
    powers = np.empty(shape, scores.dtype)
    return Tile(lowest, powers, peaks, np.empty_like(peaks), np.empty_like(peaks))


@kernel()
def _load_rows(scores: Reals, bias: Reals, first: int, rows: int, tile: Tile) -> None:
    """Biased scores of all components, and the peak of each row."""
    for t in range(rows):
        n = first + t
        best = to_rank(scores[n, 0] + bias[0])
        for k in range(bias.size):
            score = scores[n, k] + bias[k]
            tile.scores[t, k] = score
            rank = to_rank(score)
            best = rank if rank > best else best
        tile.peaks[t] = from_rank(best)


@kernel(SUMMED)
def _exponentiate(
    first: int, rows: int, n_components: int, tile: Tile, log_norm: Vec, labels: Labels
) -> None:
    """Powers of a tile and their totals. The label is the first component with the peak."""
    real = tile.scores.dtype.type
    zero = real(0)
    deepest = real(-80 if tile.scores.itemsize == 4 else -700)
    last = np.int32(n_components - 1)
    for t in range(rows):
        peak = tile.peaks[t]
        label = last
        total = zero
        for j in range(tile.scores.shape[1]):
            depth = tile.scores[t, j] - peak
            candidate = np.int32(j) if depth == zero else last
            label = candidate if candidate < label else label
            power = exp(deepest if depth < deepest else depth)
            tile.powers[t, j] = power
            total += power
        tile.totals[t] = total
        labels[first + t] = label
    for t in range(rows):  # apart, because a call in the loop above would empty the registers
        log_total = math.log(np.float64(tile.totals[t]))
        tile.logs[t] = real(log_total)
        log_norm[first + t] = tile.peaks[t] + log_total


@kernel(FUSED)
def _store_rows(
    first: int, rows: int, tile: Tile, weights: Vec, scores: Reals, entropy: Vec
) -> None:
    """Responsibilities of all components, and their entropy."""
    real = scores.dtype.type
    zero = real(0)
    for t in range(rows):
        n = first + t
        weight = weights[n] if weights.size else 1.0
        least = real(NEGLIGIBLE) * tile.totals[t]
        scale = real(1) / tile.totals[t]
        peak = tile.peaks[t]
        log_total = tile.logs[t]
        for k in range(entropy.size):
            power = tile.powers[t, k]
            r = (zero if power < least else power) * scale
            surprise = zero if power < least else log_total - (tile.scores[t, k] - peak)
            scores[n, k] = r
            entropy[k] += weight * np.float64(r * surprise)


@kernel()
def softmax_entropy(
    scores: Reals, bias: Reals, weights: Vec, log_norm: Vec, labels: Labels, entropy: Vec
) -> None:
    """Responsibilities in place of scores, with normalisers, labels and entropy.

    Parameters
    ----------
    scores : (n_items, n_components)
        In: expected log-likelihoods up to constants. Out: responsibilities without weights. Those
        below 1e-30 are zero, because subnormal numbers would make matrix products slow.
    bias : (n_components,)
        Added to every row: expected log weights and constants. A component with -inf is left out.
    weights : (n_items,) or (0,)
        Row weights, which enter the entropy only.
    log_norm : (n_items,)
        Out: logsumexp(scores + bias) of each row.
    labels : (n_items,)
        Out: the most responsible component, of equal ones the lowest.
    entropy : (n_components,)
        Added to: sum_n weights[n] * -r[n, k] log r[n, k].
    """
    n_items, n_components = scores.shape
    tile = _tile(scores, n_components)
    step = tile.peaks.size
    for first in range(0, n_items, step):
        rows = min(step, n_items - first)
        _load_rows(scores, bias, first, rows, tile)
        _exponentiate(first, rows, n_components, tile, log_norm, labels)
        _store_rows(first, rows, tile, weights, scores, entropy)


@kernel()
def _loss_of_pair(row: Reals, logs: Vec, j: int, k: int) -> float:
    """Entropy that a row loses if components j and k become one; `logs` are those of the row."""
    a, b = np.float64(row[j]), np.float64(row[k])
    low, high = min(a, b), max(a, b)
    return float((a + b) * math.log1p(low / high) + low * abs(logs[j] - logs[k]))


@kernel()
def pair_entropy_loss(
    responsibilities: Reals, weights: Vec, slots: NDArray[np.int32], loss: Vec
) -> None:
    """Entropy that would be lost if two components were one, for the tracked pairs.

    Adds sum_n weights[n] * ((a+b) log(a+b) - a log a - b log b), with a, b the responsibilities of
    the pair, to `loss`. Rows where either is below 1e-14 are left out. With b <= a a term is
    (a+b) log(1 + b/a) + b (log a - log b): both parts are positive, so no digits are lost.

    Parameters
    ----------
    responsibilities : (n_items, n_components)
    weights : (n_items,) or (0,)
    slots : (n_components, n_components)
        For j < k the position of the pair in `loss`, or -1 if it is not tracked.
    loss : (n_pairs,)
        Added to, in nats.
    """
    n_items, n_components = responsibilities.shape
    first, second = np.nonzero(slots >= 0)
    active = np.empty(n_components, np.int64)
    logs = np.empty(n_components)
    for n in range(n_items):
        weight = weights[n] if weights.size else 1.0
        size = 0
        for k in range(n_components):
            active[size] = k
            size += responsibilities[n, k] >= INACTIVE
        for i in range(size):
            logs[active[i]] = math.log(np.float64(responsibilities[n, active[i]]))
        # A row has few active components, or few pairs are tracked: the shorter list is searched.
        if size * (size - 1) <= 2 * first.size:
            for i in range(size):
                for j in range(i + 1, size):
                    slot = slots[active[i], active[j]]
                    if slot >= 0:
                        row = responsibilities[n]
                        loss[slot] += weight * _loss_of_pair(row, logs, active[i], active[j])
        else:
            for p in range(first.size):
                j, k = first[p], second[p]
                if responsibilities[n, j] >= INACTIVE and responsibilities[n, k] >= INACTIVE:
                    row = responsibilities[n]
                    loss[slots[j, k]] += weight * _loss_of_pair(row, logs, j, k)


@kernel()
def add_products(products: Reals, out: Mat) -> None:
    """Add a float32 or float64 matrix to a float64 matrix in place, without a temporary copy."""
    for k in range(out.shape[0]):
        for p in range(out.shape[1]):
            out[k, p] += products[k, p]
