"""Conjugate families by the book: one component, one row, one dimension at a time.

Written from definitions and SciPy's distributions, in centred moments and scalar loops, and so
by another route than the library, which works with raw moments and matrix products. `q` is
always the posterior of one component; `phi` is a batch of parameter draws, first axis the draw.
"""

from __future__ import annotations

from math import log, pi
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln, multigammaln, psi

LOG_2PI = log(2.0 * pi)


class Oracle:
    """What every family's oracle answers; the chain rule is common to all."""

    prior: Any

    def log_marginal(self, X):
        """log p(X) of rows of one component: each row predicted from those before it."""
        terms = [
            self.log_predictive(X[i], self.posterior(X[:i], np.ones(i))) for i in range(len(X))
        ]
        return float(np.sum(terms))

    def monte_carlo(self, X, r, q, size, rng):
        """E_q[sum_n r_n log p(x_n | phi) + log p(phi) - log q(phi)]: mean and standard error."""
        phi = self.draw(q, size, rng)
        value = self.log_density(phi, self.prior) - self.log_density(phi, q)
        for x, weight in zip(X, r, strict=True):
            value = value + weight * self.log_likelihood(x, phi)
        return float(value.mean()), float(value.std() / np.sqrt(size))


class NormalGammaParams(NamedTuple):
    """tau ~ Gamma(shape a, rate b), mu | tau ~ N(m, 1 / (lam tau)), of one dimension."""

    m: float
    lam: float
    a: float
    b: float


class DiagonalOracle(Oracle):
    """Independent dimensions; a NaN is an observation that was not made."""

    def __init__(self, mean, mean_precision, shape, rate):
        self.prior = [
            NormalGammaParams(m, mean_precision, shape, b) for m, b in zip(mean, rate, strict=True)
        ]

    def posterior(self, X, r):
        return [self._dimension(p, X[:, d], r) for d, p in enumerate(self.prior)]

    @staticmethod
    def _dimension(p, x, r):
        x, r = x[~np.isnan(x)], r[~np.isnan(x)]
        n = r.sum()
        if n == 0.0:
            return p
        centre = (r * x).sum() / n
        within = (r * (x - centre) ** 2).sum()
        between = p.lam * n / (p.lam + n) * (centre - p.m) ** 2
        mean = (p.lam * p.m + n * centre) / (p.lam + n)
        return NormalGammaParams(mean, p.lam + n, p.a + n / 2, p.b + (within + between) / 2)

    def predictive(self, q):
        """The Student-t of each dimension."""
        return [stats.t(2 * p.a, p.m, np.sqrt(p.b * (1 + 1 / p.lam) / p.a)) for p in q]

    def log_predictive(self, x, q):
        observed = [(v, t) for v, t in zip(x, self.predictive(q), strict=True) if not np.isnan(v)]
        return float(np.sum([t.logpdf(v) for v, t in observed]))

    def expected_log_likelihood(self, x, q):
        total = 0.0
        for v, p in zip(x, q, strict=True):
            if not np.isnan(v):
                spread = p.a / p.b * (v - p.m) ** 2 + 1 / p.lam
                total += 0.5 * (psi(p.a) - log(p.b) - LOG_2PI - spread)
        return float(total)

    def expected_log_prior(self, q):
        total = 0.0
        for p, p0 in zip(q, self.prior, strict=True):
            tau, log_tau = p.a / p.b, psi(p.a) - log(p.b)
            spread = p0.lam * (1 / p.lam + tau * (p.m - p0.m) ** 2)
            total += p0.a * log(p0.b) - gammaln(p0.a) + (p0.a - 1) * log_tau - p0.b * tau
            total += 0.5 * (log(p0.lam) + log_tau - LOG_2PI - spread)
        return float(total)

    def entropy(self, q):
        total = 0.0
        for p in q:
            log_tau = psi(p.a) - log(p.b)
            total += stats.gamma.entropy(p.a, scale=1 / p.b)
            total += 0.5 * (1 + LOG_2PI - log(p.lam) - log_tau)
        return float(total)

    def draw(self, q, size, rng):
        tau = np.column_stack([rng.gamma(p.a, 1 / p.b, size) for p in q])
        mean, lam = np.array([p.m for p in q]), np.array([p.lam for p in q])
        return mean + rng.standard_normal(tau.shape) / np.sqrt(lam * tau), tau

    def log_density(self, phi, q):
        mu, tau = phi
        total = np.zeros(len(mu))
        for d, p in enumerate(q):
            total += stats.gamma.logpdf(tau[:, d], p.a, scale=1 / p.b)
            total += stats.norm.logpdf(mu[:, d], p.m, 1 / np.sqrt(p.lam * tau[:, d]))
        return total

    def log_likelihood(self, x, phi):
        mu, tau = phi
        seen = ~np.isnan(x)
        return stats.norm.logpdf(x[seen], mu[:, seen], tau[:, seen] ** -0.5).sum(axis=1)


class WishartParams(NamedTuple):
    """Lambda ~ W(nu, B^-1); with a mean, mu | Lambda ~ N(m, (kappa Lambda)^-1)."""

    nu: float
    B: np.ndarray
    m: np.ndarray | None = None
    kappa: float = np.inf

    @property
    def dim(self):
        return len(self.B)

    @property
    def centre(self):
        return np.zeros(self.dim) if self.m is None else self.m

    @property
    def precision(self):
        return self.nu * np.linalg.inv(self.B)

    @property
    def log_det(self):
        """E[log |Lambda|]."""
        steps = sum(psi((self.nu + 1 - d) / 2) for d in range(1, self.dim + 1))
        return steps + self.dim * log(2.0) - np.linalg.slogdet(self.B)[1]


class WishartOracle(Oracle):
    """Full covariance; the mean is unknown, or zero when no prior mean is given."""

    def __init__(self, nu, B, mean=None, mean_precision=np.inf):
        self.prior = WishartParams(nu, np.asarray(B, float), mean, mean_precision)

    def posterior(self, X, r):
        p, n = self.prior, float(np.sum(r))
        if n == 0.0:
            return p
        if p.m is None:
            outer = sum(w * np.outer(x, x) for x, w in zip(X, r, strict=True))
            return WishartParams(p.nu + n, p.B + outer)
        centre = sum(w * x for x, w in zip(X, r, strict=True)) / n
        within = sum(w * np.outer(x - centre, x - centre) for x, w in zip(X, r, strict=True))
        between = p.kappa * n / (p.kappa + n) * np.outer(centre - p.m, centre - p.m)
        mean = (p.kappa * p.m + n * centre) / (p.kappa + n)
        return WishartParams(p.nu + n, p.B + within + between, mean, p.kappa + n)

    def predictive(self, q):
        """The multivariate Student-t."""
        dof = q.nu - q.dim + 1
        return stats.multivariate_t(q.centre, q.B * (1 + 1 / q.kappa) / dof, dof)

    def log_predictive(self, x, q):
        return float(self.predictive(q).logpdf(x))

    def expected_log_likelihood(self, x, q):
        off = x - q.centre
        spread = off @ q.precision @ off + q.dim / q.kappa
        return float(0.5 * (q.log_det - q.dim * LOG_2PI - spread))

    def expected_log_prior(self, q):
        p, dim = self.prior, q.dim
        total = 0.5 * p.nu * (np.linalg.slogdet(p.B)[1] - dim * log(2.0))
        total += 0.5 * (p.nu - dim - 1) * q.log_det - multigammaln(p.nu / 2, dim)
        total -= 0.5 * np.trace(p.B @ q.precision)
        if p.m is not None:
            off = q.m - p.m
            spread = p.kappa * (dim / q.kappa + off @ q.precision @ off)
            total += 0.5 * (dim * log(p.kappa) + q.log_det - dim * LOG_2PI - spread)
        return float(total)

    def entropy(self, q):
        total = stats.wishart.entropy(q.nu, np.linalg.inv(q.B))
        if q.m is not None:
            total += 0.5 * (q.dim * (1 + LOG_2PI - log(q.kappa)) - q.log_det)
        return float(total)

    def draw(self, q, size, rng):
        scale = np.linalg.inv(q.B)
        precision = stats.wishart.rvs(q.nu, scale, size, rng).reshape(size, q.dim, q.dim)
        if q.m is None:
            return np.zeros((size, q.dim)), precision
        noise = np.linalg.cholesky(np.linalg.inv(q.kappa * precision))
        return q.m + np.einsum("sij,sj->si", noise, rng.standard_normal((size, q.dim))), precision

    def log_density(self, phi, q):
        mu, precision = phi
        scale = np.linalg.inv(q.B)
        total = stats.wishart.logpdf(np.moveaxis(precision, 0, -1), q.nu, scale)
        if q.m is not None:
            total = total + _log_normal(q.m, mu, q.kappa * precision)
        return total

    def log_likelihood(self, x, phi):
        return _log_normal(x, *phi)


def _log_normal(x, mean, precision):
    """Gaussian log densities for a stack of means and precision matrices."""
    off = x - mean
    distance = np.einsum("si,sij,sj->s", off, precision, off)
    return 0.5 * (np.linalg.slogdet(precision)[1] - off.shape[1] * LOG_2PI - distance)


class DirichletOracle(Oracle):
    """Count vectors; q is the vector of Dirichlet parameters."""

    def __init__(self, counts):
        self.prior = np.asarray(counts, float)

    def posterior(self, X, r):
        return self.prior + sum((w * x for x, w in zip(X, r, strict=True)), np.zeros(1))

    def predictive(self, q, trials):
        """The Dirichlet-multinomial for rows of so many symbols."""
        return stats.dirichlet_multinomial(q, trials)

    def log_predictive(self, x, q):
        return float(self.predictive(q, int(x.sum())).logpmf(x.astype(int)))

    @staticmethod
    def log_coefficient(x):
        """log (sum x)! - sum log x!, the number of orders of the symbols."""
        return sum(log(i) for i in range(1, int(x.sum()) + 1)) - sum(
            log(i) for v in x for i in range(1, int(v) + 1)
        )

    def expected_log_likelihood(self, x, q):
        terms = [c * (psi(p) - psi(q.sum())) for c, p in zip(x, q, strict=True)]
        return float(sum(terms) + self.log_coefficient(x))

    def expected_log_prior(self, q):
        p = self.prior
        terms = [(a - 1) * (psi(b) - psi(q.sum())) - gammaln(a) for a, b in zip(p, q, strict=True)]
        return float(sum(terms) + gammaln(p.sum()))

    def entropy(self, q):
        return float(stats.dirichlet.entropy(q))

    def draw(self, q, size, rng):
        return rng.dirichlet(q, size)

    def log_density(self, phi, q):
        return stats.dirichlet.logpdf(phi.T, q)

    def log_likelihood(self, x, phi):
        return np.log(phi) @ x + self.log_coefficient(x)


class CategoriesOracle(Oracle):
    """Columns of codes; q is a list of Dirichlet parameters, one vector for each column."""

    def __init__(self, *counts):
        self.prior = [np.asarray(c, float) for c in counts]

    def posterior(self, X, r):
        q = [p.copy() for p in self.prior]
        for x, weight in zip(X, r, strict=True):
            for d, code in enumerate(x):
                if not np.isnan(code):
                    q[d][int(code)] += weight
        return q

    def predictive(self, q):
        return [p / p.sum() for p in q]

    def log_predictive(self, x, q):
        seen = [(int(v), p) for v, p in zip(x, self.predictive(q), strict=True) if not np.isnan(v)]
        return float(sum(log(p[v]) for v, p in seen))

    def expected_log_likelihood(self, x, q):
        seen = [(int(v), p) for v, p in zip(x, q, strict=True) if not np.isnan(v)]
        return float(sum(psi(p[v]) - psi(p.sum()) for v, p in seen))

    def expected_log_prior(self, q):
        each = zip(q, self.prior, strict=True)
        return float(sum(DirichletOracle(p0).expected_log_prior(p) for p, p0 in each))

    def entropy(self, q):
        return float(sum(stats.dirichlet.entropy(p) for p in q))

    def draw(self, q, size, rng):
        return [rng.dirichlet(p, size) for p in q]

    def log_density(self, phi, q):
        return sum(stats.dirichlet.logpdf(f.T, p) for f, p in zip(phi, q, strict=True))

    def log_likelihood(self, x, phi):
        logs = [np.log(f[:, int(v)]) for v, f in zip(x, phi, strict=True) if not np.isnan(v)]
        return sum(logs, np.zeros(len(phi[0])))


class PoissonOracle(Oracle):
    """Columns of counts; q is a list of (shape, inverse scale) of Gamma distributions."""

    def __init__(self, shape, inverse_scale):
        self.prior = [(shape, b) for b in inverse_scale]

    def posterior(self, X, r):
        seen = ~np.isnan(X)
        sums = [r[s] @ x[s] for x, s in zip(X.T, seen.T, strict=True)]
        masses = [r[s].sum() for s in seen.T]
        return [(a + t, b + n) for (a, b), t, n in zip(self.prior, sums, masses, strict=True)]

    def predictive(self, q):
        return [stats.nbinom(a, b / (b + 1)) for a, b in q]

    def log_predictive(self, x, q):
        seen = [(v, p) for v, p in zip(x, self.predictive(q), strict=True) if not np.isnan(v)]
        return float(sum(p.logpmf(v) for v, p in seen))

    def expected_log_likelihood(self, x, q):
        seen = [(v, *p) for v, p in zip(x, q, strict=True) if not np.isnan(v)]
        return float(sum(v * (psi(a) - log(b)) - a / b - gammaln(v + 1) for v, a, b in seen))

    def expected_log_prior(self, q):
        total = 0.0
        for (a, b), (a0, b0) in zip(q, self.prior, strict=True):
            total += a0 * log(b0) - gammaln(a0) + (a0 - 1) * (psi(a) - log(b)) - b0 * a / b
        return float(total)

    def entropy(self, q):
        return float(sum(stats.gamma.entropy(a, scale=1 / b) for a, b in q))

    def draw(self, q, size, rng):
        return np.column_stack([rng.gamma(a, 1 / b, size) for a, b in q])

    def log_density(self, phi, q):
        each = zip(phi.T, q, strict=True)
        return sum(stats.gamma.logpdf(rate, a, scale=1 / b) for rate, (a, b) in each)

    def log_likelihood(self, x, phi):
        seen = ~np.isnan(x)
        return stats.poisson.logpmf(x[seen], phi[:, seen]).sum(axis=1)


class ProductOracle(Oracle):
    """Blocks of columns, each with an oracle of its own."""

    def __init__(self, *blocks):
        self.blocks = blocks
        self.prior = [oracle.prior for _, oracle in blocks]

    def posterior(self, X, r):
        return [oracle.posterior(X[:, columns], r) for columns, oracle in self.blocks]

    def log_predictive(self, x, q):
        return self._summed(lambda own, columns, p: own.log_predictive(x[columns], p), q)

    def expected_log_likelihood(self, x, q):
        return self._summed(lambda own, columns, p: own.expected_log_likelihood(x[columns], p), q)

    def expected_log_prior(self, q):
        each = zip(self.blocks, q, strict=True)
        return sum(own.expected_log_prior(p) for (_, own), p in each)

    def entropy(self, q):
        return sum(own.entropy(p) for (_, own), p in zip(self.blocks, q, strict=True))

    def draw(self, q, size, rng):
        return [own.draw(p, size, rng) for (_, own), p in zip(self.blocks, q, strict=True)]

    def log_density(self, phi, q):
        each = zip(self.blocks, phi, q, strict=True)
        return sum(own.log_density(f, p) for (_, own), f, p in each)

    def log_likelihood(self, x, phi):
        return self._summed(lambda own, columns, f: own.log_likelihood(x[columns], f), phi)

    def _summed(self, term, each):
        blocks = zip(self.blocks, each, strict=True)
        return sum(term(own, columns, p) for (columns, own), p in blocks)
