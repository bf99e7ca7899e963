"""Weights of the topics for one token, and the topic that a uniform random number picks."""

from everlearn.core.arrays import Mat, Vec
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.kernels.scalars import exp
from everlearn.topics.kernels.sampler import Index, total_of

DEEPEST = -300.0
"""Smaller exponents are raised to this one: products of two are still no slow denormal numbers."""
TINY, HUGE = 1e-80, 1e80
"""Range of sums of products. Outside it, exponents may be cut off and must be recomputed."""


@kernel(SUMMED, inline=True)
def pick(weights: Vec, target: float, likely: Index) -> Index:
    """The topic in which a running sum of weights reaches the target.

    The likely topic comes first, because most tokens stay in theirs. The others are summed eight at
    a time. Sets the weight of the likely topic to 0.
    """
    target -= weights[likely]
    if target < 0.0:
        return likely
    weights[likely] = 0.0
    k = 0
    last = weights.size - 1
    while k + 8 <= last:
        low = (weights[k] + weights[k + 1]) + (weights[k + 2] + weights[k + 3])
        high = (weights[k + 4] + weights[k + 5]) + (weights[k + 6] + weights[k + 7])
        if target < low + high:
            break
        target -= low + high
        k += 8
    target -= weights[k]
    while target >= 0.0 and k < last:
        k += 1
        target -= weights[k]
    return k


@kernel(SUMMED, inline=True)
def weigh(
    gains: Mat, boosts: Mat, old: Index, masses: Vec, rows: Mat, at: Index, weights: Vec
) -> float:
    """Fill the weights of the topics for a token that was in topic `old`; returns their sum."""
    for k in range(masses.size):
        weights[k] = masses[k] * rows[at, k] * gains[0, k] * boosts[old, k]
    return total_of(weights)


@kernel(SUMMED)
def weigh_exactly(
    exponent: Mat, couplings: Mat, old: Index, masses: Vec, rows: Mat, at: Index, weights: Vec
) -> float:
    """As `weigh`, from exponents, where products of their exponentials would vanish."""
    peak = exponent[0, 0] + couplings[old, 0]
    for k in range(1, masses.size):
        peak = max(peak, exponent[0, k] + couplings[old, k])
    for k in range(masses.size):
        x = exponent[0, k] + couplings[old, k] - peak
        weights[k] = masses[k] * rows[at, k] * exp(x if x > DEEPEST else DEEPEST)
    return total_of(weights)


@kernel(SUMMED, inline=True)
def weigh_plainly(masses: Vec, rows: Mat, at: Index, weights: Vec) -> float:
    """As `weigh`, without labels, or with labels that the rows contain."""
    for k in range(masses.size):
        weights[k] = masses[k] * rows[at, k]
    return total_of(weights)


@kernel(SUMMED, inline=True)
def sum_of_others(gains: Mat, boosts: Mat, old: Index, masses: Vec) -> float:
    """Sum of the weights of all topics but one, without word factors."""
    total = 0.0
    for k in range(masses.size):
        product = masses[k] * gains[0, k] * boosts[old, k]
        total += product if k != old else 0.0
    return total
