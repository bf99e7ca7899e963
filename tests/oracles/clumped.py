"""The memory-bounded topic model by the book: one point, topic and group at a time.

Written from the equations of Gomes, Welling and Perona (2008), whose numbers are in parentheses,
on the points behind every clump, which the library no longer has. Free energies here are F = -L.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln, multigammaln, psi

from oracles.families import DiagonalOracle, DirichletOracle, WishartOracle


def log_partition(family: Any, q: Any) -> float:
    """Z of (3) and (5), up to a constant that prior and posterior share."""
    if isinstance(family, DiagonalOracle):
        return sum(gammaln(p.a) - p.a * log(p.b) - 0.5 * log(p.lam) for p in q)
    if isinstance(family, WishartOracle):
        dim = q.dim
        z = multigammaln(q.nu / 2, dim) + q.nu * dim / 2 * log(2.0)
        return float(z - q.nu / 2 * np.linalg.slogdet(q.B)[1] - dim / 2 * log(q.kappa))
    assert isinstance(family, DirichletOracle)
    return float(sum(gammaln(c) for c in q) - gammaln(sum(q)))


def log_base(family: Any, x: Any) -> float:
    """log h(x) of (2)."""
    if isinstance(family, DirichletOracle):
        return float(family.log_coefficient(x))
    return -0.5 * len(x) * log(2.0 * np.pi)


@dataclass
class TiedOracle:
    """Points, the clump of each and the document of each, and the group of each document."""

    family: Any
    X: np.ndarray
    clump: np.ndarray
    document: np.ndarray
    group: np.ndarray
    rate: float = 0.5

    # ----------------------------------------------------------------- what is counted

    @property
    def n_clumps(self) -> int:
        return int(self.clump.max()) + 1

    @property
    def sizes(self) -> list[int]:
        """D_s."""
        return [sum(int(g == s) for g in self.group) for s in range(int(self.group.max()) + 1)]

    def points(self, c: int) -> list[int]:
        return [i for i in range(len(self.X)) if self.clump[i] == c]

    def in_groups(self) -> np.ndarray:
        """N_cs of (17)."""
        counts = np.zeros((self.n_clumps, len(self.sizes)))
        for i in range(len(self.X)):
            counts[self.clump[i], self.group[self.document[i]]] += 1
        return counts

    def group_counts(self, q: Any) -> np.ndarray:
        """N_sk of (16)."""
        N = self.in_groups()
        out = np.zeros((len(self.sizes), q.shape[1]))
        for c in range(self.n_clumps):
            for s in range(len(self.sizes)):
                for k in range(q.shape[1]):
                    out[s, k] += q[c, k] * N[c, s]
        return out

    # ----------------------------------------------------------------------- updates

    def topics(self, q: Any, copies: float = 1.0) -> list[Any]:
        """(18), (19); with `copies`, (23), (24)."""
        return [
            self.family.posterior(self.X, copies * np.array([q[c, k] for c in self.clump]))
            for k in range(q.shape[1])
        ]

    def mixtures(self, q: Any, alpha: Any) -> np.ndarray:
        """(20)."""
        N = self.group_counts(q)
        return np.array([[a + N[s, k] / D for k, a in enumerate(alpha)]
                         for s, D in enumerate(self.sizes)])  # fmt: skip

    def scores(self, xi: Any, zeta: Any) -> np.ndarray:
        """The exponent of (21), with log h."""
        N = self.in_groups()
        out = np.zeros((self.n_clumps, len(xi)))
        for c in range(self.n_clumps):
            inside = self.points(c)
            for k in range(len(xi)):
                for i in inside:
                    out[c, k] += self.family.expected_log_likelihood(self.X[i], xi[k])
                for s in range(len(self.sizes)):
                    out[c, k] += N[c, s] * psi(zeta[s, k])
                out[c, k] /= len(inside)
        return out

    def assignments(self, xi: Any, zeta: Any) -> np.ndarray:
        """(21)."""
        out = []
        for row in self.scores(xi, zeta):
            each = np.exp(row - row.max())
            out.append(each / each.sum())
        return np.array(out)

    def alpha_step(self, alpha: Any, N: Any, rho: float = 1.0, *, safe: bool = False) -> np.ndarray:
        """(22), or (12') if `safe`; with `rho`, (25). N are the N_sk."""
        total = sum(alpha)
        out = np.zeros(len(alpha))
        for k, a in enumerate(alpha):
            up, down = 0.0, self.rate
            for s, D in enumerate(self.sizes):
                n = N[s, k] / D
                down += rho * D * (psi(total + N[s].sum() / D) - psi(total))
                if n > 0.0:
                    up += rho * D * a * (psi(a + n) - psi(a))
                if safe and 0.0 < n < 1.0:
                    up += rho * D * a / (a + n)
                    down += rho * D / (a + n)
            out[k] = up / down
        return out

    # ------------------------------------------------------------------ free energies

    def alpha_objective(self, alpha: Any, N: Any, rho: float = 1.0) -> float:
        """J of section 2, a = 1."""
        total, value = sum(alpha), 0.0
        for s, D in enumerate(self.sizes):
            value += rho * D * (gammaln(total) - gammaln(total + N[s].sum() / D))
            for k, a in enumerate(alpha):
                value += rho * D * (gammaln(a + N[s, k] / D) - gammaln(a))
        return float(value - self.rate * total)

    def free_energy(
        self, q: Any, alpha: Any, gamma: float = 1.0, rho: float = 1.0, *, base: bool = True
    ) -> float:
        """(29) after (18) to (20), and (30) for other `gamma` and `rho`."""
        N = self.group_counts(q)
        zeta = np.array([alpha + gamma / rho * N[s] / D for s, D in enumerate(self.sizes)])
        return self.printed(q, self.topics(q, gamma), zeta, alpha, gamma, rho, base=base)

    def printed(
        self,
        q: Any,
        xi: Any,
        zeta: Any,
        alpha: Any,
        gamma: float = 1.0,
        rho: float = 1.0,
        *,
        base: bool = True,
    ) -> float:
        """(29) or (30) as it stands, with every log h once if `base`."""
        F = self.rate * sum(alpha)
        for own in xi:
            F -= log_partition(self.family, own) - log_partition(self.family, self.family.prior)
        for s, D in enumerate(self.sizes):
            F -= rho * D * (gammaln(sum(alpha)) - gammaln(sum(zeta[s])))
            for k, a in enumerate(alpha):
                F -= rho * D * (gammaln(zeta[s, k]) - gammaln(a))
        for c in range(self.n_clumps):
            for k in range(q.shape[1]):
                if q[c, k] > 0.0:
                    F += gamma * len(self.points(c)) * q[c, k] * log(q[c, k])
        if base:
            F -= sum(log_base(self.family, x) for x in self.X)
        return float(F)

    def free_energy_at(self, q: Any, xi: Any, zeta: Any, alpha: Any) -> float:
        """Before (18) to (20): E_q of log q - log p, term by term."""
        F = self.rate * sum(alpha)
        for own in xi:
            F -= self.family.expected_log_prior(own) + self.family.entropy(own)
        for i, c in enumerate(self.clump):
            s = self.group[self.document[i]]
            for k in range(q.shape[1]):
                if q[c, k] > 0.0:
                    log_pi = psi(zeta[s, k]) - psi(zeta[s].sum())
                    likelihood = self.family.expected_log_likelihood(self.X[i], xi[k])
                    F -= q[c, k] * (likelihood + log_pi - log(q[c, k]))
        for s in self.group:  # one mixture of topics for each document
            F -= gammaln(sum(alpha)) + stats.dirichlet.entropy(zeta[s])
            for k, a in enumerate(alpha):
                F -= (a - 1.0) * (psi(zeta[s, k]) - psi(zeta[s].sum())) - gammaln(a)
        return float(F)

    def slack(self, q: Any, xi: Any, zeta: Any, alpha: Any) -> float:
        """What (29) lacks before (18) to (20).

        - sum_k <beta + stats - xi, (E eta, -E A)> - sum_sk (D (alpha - zeta) + N) E log pi
        """
        N = self.group_counts(q)
        F = 0.0
        for s, D in enumerate(self.sizes):
            for k, a in enumerate(alpha):
                log_pi = psi(zeta[s, k]) - psi(zeta[s].sum())
                F -= (D * (a - zeta[s, k]) + N[s, k]) * log_pi
        z0 = log_partition(self.family, self.family.prior)
        for k, own in enumerate(xi):
            # <beta + stats, .> = E log p(X, eta) - log h + Z(beta), <xi, .> = E log q + Z(xi)
            expected = self.family.expected_log_prior(own) + self.family.entropy(own)
            for i, c in enumerate(self.clump):
                x = self.X[i]
                likelihood = self.family.expected_log_likelihood(x, own)
                expected += q[c, k] * (likelihood - log_base(self.family, x))
            F -= expected + z0 - log_partition(self.family, own)
        return float(F)
