"""The weights of topics for one token, and the topic that a draw picks."""

from everlearn.core.arrays import Mat, Vec
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.kernels.scalars import exp
from everlearn.topics.kernels.sampler import Index, total_of

DEEPEST = -300.0
"""Exponents below this are as good as it, and products of two keep from slow denormals."""
TINY, HUGE = 1e-80, 1e80
"""Sums of products outside may be due to exponents that were too far apart to be told apart."""


@kernel(SUMMED, inline=True)
def pick(weights: Vec, target: float, likely: Index) -> Index:
    """The topic in which a running sum of weights reaches the target, the likely one first."""
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
    gains: Mat, boosts: Mat, old: Index, held: Vec, rows: Mat, at: Index, weights: Vec
) -> float:
    """Weights of the topics for a token whose own coupling is taken out; their sum."""
    for k in range(held.size):
        weights[k] = held[k] * rows[at, k] * gains[0, k] * boosts[old, k]
    return total_of(weights)


@kernel(SUMMED)
def weigh_exactly(
    exponent: Mat, couplings: Mat, old: Index, held: Vec, rows: Mat, at: Index, weights: Vec
) -> float:
    """As `weigh`, for exponentials whose products would vanish."""
    peak = (exponent[0] + couplings[old]).max()
    for k in range(held.size):
        x = exponent[0, k] + couplings[old, k] - peak
        weights[k] = held[k] * rows[at, k] * exp(x if x > DEEPEST else DEEPEST)
    return total_of(weights)


@kernel(SUMMED, inline=True)
def weigh_plainly(held: Vec, rows: Mat, at: Index, weights: Vec) -> float:
    """As `weigh`, without labels, or with a tilt that the rows contain."""
    for k in range(held.size):
        weights[k] = held[k] * rows[at, k]
    return total_of(weights)


@kernel(SUMMED, inline=True)
def others(gains: Mat, boosts: Mat, old: Index, held: Vec) -> float:
    """The sum of the weights of all topics but one, without word factors."""
    total = 0.0
    for k in range(held.size):
        product = held[k] * gains[0, k] * boosts[old, k]
        total += product if k != old else 0.0
    return total
