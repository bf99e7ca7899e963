"""Bounds and evidence of a Dirichlet-process mixture, slowly and from their definitions.

Nothing here knows the library's closed forms: the bound is a sum of expectations and
entropies over raw responsibilities, and the evidence of tiny data is a full enumeration.
"""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp, psi


def sticks(R, alpha):
    """Optimal Beta parameters of each stick, as pairs."""
    mass = np.asarray(R).sum(axis=0)
    return [(1 + mass[k], alpha + mass[k + 1 :].sum()) for k in range(len(mass))]


def expected_log_weights(pairs):
    """E[log pi_k] of sticks given as Beta pairs."""
    out = []
    for k, (a, b) in enumerate(pairs):
        before = sum(psi(d) - psi(c + d) for c, d in pairs[:k])
        out.append(psi(a) - psi(a + b) + before)
    return np.array(out)


def allocation_bound(R, pairs, alpha):
    """E[log p(Z | v)] + E[log p(v)] + entropy of q(v), stick by stick."""
    total = float((np.asarray(R) @ expected_log_weights(pairs)).sum())
    for a, b in pairs:
        log_rest = psi(b) - psi(a + b)
        total += log(alpha) + (alpha - 1) * log_rest + stats.beta.entropy(a, b)
    return float(total)


def stick_sum(mass, pairs, alpha):
    """The same allocation bound as a sum of Beta normalisers and their slack."""
    total = 0.0
    for k, (a, b) in enumerate(pairs):
        behind = mass[k + 1 :].sum()
        log_v, log_rest = psi(a) - psi(a + b), psi(b) - psi(a + b)
        total += betaln(a, b) - betaln(1, alpha)
        total += (mass[k] + 1 - a) * log_v + (behind + alpha - b) * log_rest
    return float(total)


def entropy(R):
    """-sum r log r over all entries."""
    return float(-sum(r * log(r) for r in np.ravel(R) if r > 0))


def elbo(oracle, X, R, alpha, evidence=None):
    """Evidence lower bound of responsibilities R at the globals that `evidence` gives.

    `evidence` is another matrix of responsibilities; by default R itself, the optimum.
    """
    evidence = R if evidence is None else evidence
    total = allocation_bound(R, sticks(evidence, alpha), alpha) + entropy(R)
    for k in range(R.shape[1]):
        q = oracle.posterior(X, evidence[:, k])
        total += oracle.expected_log_prior(q) + oracle.entropy(q)
        for x, r in zip(X, R[:, k], strict=True):
            total += r * oracle.expected_log_likelihood(x, q)
    return float(total)


def set_partitions(items):
    """All ways to divide a list into non-empty blocks."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for blocks in set_partitions(rest):
        yield [[first], *blocks]
        for i, block in enumerate(blocks):
            yield [*blocks[:i], [first, *block], *blocks[i + 1 :]]


class BlockMarginals:
    """log p(rows of a block), computed once for each block."""

    def __init__(self, oracle, X):
        self.oracle, self.X, self.known = oracle, X, {}

    def __call__(self, block):
        key = tuple(sorted(block))
        if key not in self.known:
            self.known[key] = self.oracle.log_marginal(self.X[list(key)])
        return self.known[key]


def log_crp(sizes, alpha):
    """Probability of a partition with these block sizes under the Chinese restaurant."""
    n = sum(sizes)
    seats = sum(gammaln(size) for size in sizes)
    return len(sizes) * log(alpha) + seats + gammaln(alpha) - gammaln(alpha + n)


def log_evidence(oracle, X, alpha):
    """log p(X) of the infinite mixture: the sum over all partitions of the rows."""
    marginal = BlockMarginals(oracle, X)
    return float(
        logsumexp(
            [
                log_crp([len(b) for b in blocks], alpha) + sum(marginal(b) for b in blocks)
                for blocks in set_partitions(list(range(len(X))))
            ]
        )
    )


def log_joint(oracle, X, z, n_components, alpha, marginal=None):
    """log p(X, z) with sticks and components integrated out; z holds stick numbers."""
    marginal = marginal or BlockMarginals(oracle, X)
    z, total = np.asarray(z), 0.0
    for k in range(n_components):
        total += betaln(1 + (z == k).sum(), alpha + (z > k).sum()) - betaln(1, alpha)
        block = np.flatnonzero(z == k)
        total += marginal(block.tolist()) if len(block) else 0.0
    return float(total)


def log_truncated_evidence(oracle, X, n_components, alpha):
    """log p(X, no row lies beyond stick K): the sum over all assignments to K sticks."""
    marginal = BlockMarginals(oracle, X)
    assignments = product(range(n_components), repeat=len(X))
    joints = [log_joint(oracle, X, z, n_components, alpha, marginal) for z in assignments]
    return float(logsumexp(joints))
