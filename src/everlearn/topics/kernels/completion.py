"""Expected topic proportions of new documents, without any randomness (CVB0).

Each distinct word of a document has a distribution over topics; it starts at alpha_k factor_wk
and is then replaced in turn by (alpha_k + N_k - own share) factor_wk, N_k being the expected
number of tokens in topic k. After few passes it is still soft, which helps the choice of the class
with the largest score.
"""

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.kernels.arrays import longest_run
from everlearn.kernels.jit import SUMMED, kernel
from everlearn.topics.kernels.sampler import Bags, WordFactors, total_of


@kernel(SUMMED)
def _word_start(row: Vec, factors: WordFactors, alpha: Vec, count: int, share: Vec, n: Vec) -> None:
    for k in range(alpha.size):
        share[k] = alpha[k] * (row[k] + factors.smoothing) * factors.scale[k]
    part = count / total_of(share)
    for k in range(alpha.size):
        share[k] *= part
        n[k] += share[k]


@kernel(SUMMED)
def _word_update(
    row: Vec, factors: WordFactors, alpha: Vec, count: int, share: Vec, n: Vec, fresh: Vec
) -> None:
    own = 1.0 / count
    for k in range(alpha.size):
        rest = alpha[k] + n[k] - share[k] * own
        fresh[k] = rest * (row[k] + factors.smoothing) * factors.scale[k]
    part = count / total_of(fresh)
    for k in range(alpha.size):
        value = fresh[k] * part
        n[k] += value - share[k]
        share[k] = value


@kernel()
def _infer(
    bags: Bags,
    d: int,
    factors: WordFactors,
    alpha: Vec,
    n_passes: int,
    n: Vec,
    shares: Mat,
    fresh: Vec,
) -> None:
    """Expected tokens of a document in each topic, and of each of its words."""
    first, last = bags.indptr[d], bags.indptr[d + 1]
    n[:] = 0.0
    for place in range(first, last):
        row = factors.counts[bags.words[place]]
        _word_start(row, factors, alpha, bags.counts[place], shares[place - first], n)
    for _ in range(n_passes):
        for place in range(first, last):
            row = factors.counts[bags.words[place]]
            share = shares[place - first]
            _word_update(row, factors, alpha, bags.counts[place], share, n, fresh)


@kernel()
def infer_topics(bags: Bags, factors: WordFactors, alpha: Vec, n_passes: int, out: Mat) -> None:
    """Topic proportions (B, K), summing to 1. Documents without words get those of the prior."""
    longest = longest_run(bags.indptr)
    shares, fresh = np.empty((longest, alpha.size)), np.empty(alpha.size)
    for d in range(bags.indptr.size - 1):
        _infer(bags, d, factors, alpha, n_passes, out[d], shares, fresh)
        if bags.indptr[d] == bags.indptr[d + 1]:
            out[d] = alpha
        out[d] /= out[d].sum()


@kernel()
def infer_words(bags: Bags, factors: WordFactors, alpha: Vec, n_passes: int) -> Mat:
    """Expected tokens of each word of the first document in each topic, (words, K)."""
    shares = np.empty((bags.indptr[1], alpha.size))
    _infer(bags, 0, factors, alpha, n_passes, np.empty(alpha.size), shares, np.empty(alpha.size))
    return shares
