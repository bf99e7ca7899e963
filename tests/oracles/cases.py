"""One registry of families for the tests: library object, oracle and a few rows each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp, xlogy

from everlearn.core.families.categories import Categories
from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import WishartPrior, ZeroMeanGaussian
from everlearn.core.families.multinomial import DirichletPrior, Multinomial
from everlearn.core.families.poisson import GammaPrior, Poisson
from everlearn.core.families.product import Block, Product
from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Stats
from everlearn.mixture.model import Mixture
from oracles.families import (
    CategoriesOracle,
    DiagonalOracle,
    DirichletOracle,
    PoissonOracle,
    ProductOracle,
    WishartOracle,
)

ALPHA = 1.3


@dataclass(frozen=True, eq=False)
class Case:
    """A family, the oracle of the same prior, and rows to try them on."""

    name: str
    family: Any
    oracle: Any
    X: Any

    @property
    def dense(self):
        return self.X.toarray() if sparse.issparse(self.X) else self.X

    def __len__(self):
        return self.X.shape[0]

    def head(self, n):
        """The same with the first n rows only."""
        return Case(self.name, self.family, self.oracle, self.X[:n])


def gaussian_rows(n, dim, seed, centre=0.0):
    """Three groups of unequal size, place and spread, in random order."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    places = rng.normal(0.0, 2.0, (3, dim))
    spreads = rng.uniform(0.4, 1.2, (3, dim))
    return centre + places[group] + spreads[group] * rng.standard_normal((n, dim))


def count_rows(n, symbols, seed):
    """Short count vectors from two kinds of rows; the last one is empty."""
    rng = np.random.default_rng(seed)
    kinds = rng.dirichlet(np.full(symbols, 0.4), 2)
    X = rng.multinomial(rng.integers(1, 7, n), kinds[rng.integers(2, size=n)]).astype(float)
    X[-1] = 0.0
    return X


def with_gaps(X, seed):
    """A quarter of the values removed, one row removed altogether."""
    out = np.where(np.random.default_rng(seed).random(X.shape) < 0.25, np.nan, X)
    out[1] = np.nan
    return out


def positive_definite(dim, seed):
    root = np.random.default_rng(seed).normal(0.0, 0.5, (dim, dim))
    return np.eye(dim) + root @ root.T


def diagonal(name, X, missing=False):
    dim = X.shape[1]
    mean, rate = np.linspace(-0.5, 1.0, dim), np.linspace(0.28, 0.9, dim)
    prior = NormalGammaPrior(mean, 0.22, 0.91, rate)
    oracle = DiagonalOracle(mean, 0.22, 0.91, rate)
    return Case(name, DiagGaussian(prior, np.full(dim, 0.3), missing), oracle, X)


def diagonal_wishart(name, X):
    dim = X.shape[1]
    mean, beta = np.zeros(dim), np.linspace(2.0, 4.0, dim)
    prior = NormalGammaPrior.wishart(mean, 0.05, dim + 2.0, beta)
    oracle = DiagonalOracle(mean, 0.05, (dim + 2.0) / 2, beta / 2)
    return Case(name, DiagGaussian(prior, np.zeros(dim)), oracle, X)


def full(name, X):
    dim = X.shape[1]
    mean, scale = np.linspace(0.5, -1.0, dim), positive_definite(dim, 5)
    prior = NormalWishartPrior(mean, 0.4, dim + 1.5, scale)
    oracle = WishartOracle(dim + 1.5, scale, mean, 0.4)
    return Case(name, FullGaussian(prior, np.full(dim, -0.2)), oracle, X)


def zero_mean(name, X):
    dim = X.shape[1]
    scale = positive_definite(dim, 6)
    oracle = WishartOracle(dim + 2.0, scale)
    return Case(name, ZeroMeanGaussian(WishartPrior(dim + 2.0, scale)), oracle, X)


def multinomial(name, X):
    counts = np.linspace(0.3, 1.5, X.shape[1])
    return Case(name, Multinomial(DirichletPrior(counts), 4), DirichletOracle(counts), X)


def code_rows(n, sizes, seed):
    """Codes of categories, from two kinds of rows."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    columns = [rng.dirichlet(np.full(size, 0.6), 2) for size in sizes]
    drawn = [[rng.choice(len(p[0]), p=p[k]) for k in kind] for p in columns]
    return np.array(drawn, float).T


def categories(name, X, sizes=(4, 2)):
    counts = [np.linspace(0.2, 1.4, size) for size in sizes]
    family = Categories(np.concatenate(counts), np.array(sizes))
    return Case(name, family, CategoriesOracle(*counts), X)


def poisson(name, X):
    inverse_scale = np.linspace(0.3, 0.8, X.shape[1])
    family = Poisson(GammaPrior(1.2, inverse_scale))
    return Case(name, family, PoissonOracle(1.2, inverse_scale), X)


def table(name, X):
    """A number, two categories, a count and another number, in this order."""
    parts = ((0, 4), diagonal("", X[:, [0, 4]], True)), ((1, 2), categories("", X[:, 1:3]))
    parts = (*parts, ((3,), poisson("", X[:, [3]])))
    family = Product(tuple(Block(np.array(where), part.family) for where, part in parts))
    oracle = ProductOracle(*((list(where), part.oracle) for where, part in parts))
    return Case(name, family, oracle, X)


def count_columns(n, dim, seed):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.choice([0.5, 6.0], (n, 1)) * np.ones(dim)).astype(float)


def table_rows(n, seed):
    numbers, codes = gaussian_rows(n, 2, seed), code_rows(n, (4, 2), seed)
    return np.column_stack([numbers[:, 0], codes, count_columns(n, 1, seed), numbers[:, 1]])


_N = 24
DIAGONAL = diagonal("diagonal", gaussian_rows(_N, 3, 1))
GAPS = diagonal("diagonal_missing", with_gaps(gaussian_rows(_N, 3, 2), 3), missing=True)
DENSE_COUNTS = multinomial("multinomial", count_rows(_N, 4, 8))
TABLE = table("table", with_gaps(table_rows(_N, 14), 3))
CSR_COUNTS = multinomial("multinomial_csr", sparse.csr_array(count_rows(_N, 4, 8)))

CASES = (
    DIAGONAL,
    GAPS,
    diagonal("diagonal_1d", gaussian_rows(_N, 1, 4)),
    diagonal_wishart("diagonal_wishart", gaussian_rows(_N, 2, 5)),
    full("full", gaussian_rows(_N, 3, 6)),
    full("full_1d", gaussian_rows(_N, 1, 4)),
    zero_mean("zero_mean", gaussian_rows(_N, 2, 7)),
    zero_mean("zero_mean_1d", gaussian_rows(_N, 1, 4)),
    DENSE_COUNTS,
    CSR_COUNTS,
    multinomial("categorical", np.eye(4)[np.random.default_rng(9).integers(4, size=_N)]),
    categories("categories", code_rows(_N, (4, 2), 10)),
    categories("categories_missing", with_gaps(code_rows(_N, (4, 2), 11), 3)),
    poisson("poisson", count_columns(_N, 2, 12)),
    poisson("poisson_missing", with_gaps(count_columns(_N, 2, 13), 3)),
    TABLE,
)
_OTHERS = (Multinomial, Categories, Poisson, Product)
GAUSSIANS = tuple(c for c in CASES if not isinstance(c.family, _OTHERS))
SHIFTED = tuple(c for c in GAUSSIANS if hasattr(c.family, "origin"))


def responsibilities(n_rows, n_components, seed=0):
    """Random soft assignments, of which some are sure and some rule components out."""
    rng = np.random.default_rng(seed)
    R = rng.dirichlet(np.full(n_components, 0.7), n_rows)
    R[::5] = np.eye(n_components)[rng.integers(n_components, size=len(R[::5]))]
    R[1::5] = np.where(R[1::5] == R[1::5].min(axis=1, keepdims=True), 0.0, R[1::5])
    R[R < 1e-12] = 0.0
    return R / R.sum(axis=1, keepdims=True) if n_components > 1 else np.ones((n_rows, 1))


def statistics(family, X, R, ids=None):
    """Statistics of rows under responsibilities, in one piece."""
    ids = np.arange(R.shape[1]) if ids is None else np.asarray(ids)
    t = np.asarray(R.T @ family.features(X))
    return Stats(ids, R.sum(axis=0), t, -xlogy(R, R).sum(axis=0), float(family.log_base(X).sum()))


def bound(family, X, R):
    """The bound of a Dirichlet process mixture of the family, under these responsibilities."""
    return Mixture(family, DPPrior(ALPHA)).bound(statistics(family, X, R))


def expected_log_likelihood(family, X, q):
    """The identity that all scores rest on: features . eta + constant + base measure."""
    eta, constant = family.natural(q)
    return np.asarray(family.features(X) @ eta.T) + constant + family.log_base(X)[:, None]


def local_step(mixture, X, stats):
    """Responsibilities under the globals that `stats` gives, and each row's normaliser."""
    posterior = mixture.posterior(stats)
    scores = np.asarray(mixture.family.features(X) @ posterior.eta.T) + posterior.bias
    normaliser = logsumexp(scores, axis=1)
    return np.exp(scores - normaliser[:, None]), normaliser


def posteriors(case, k=3, seed=1):
    """Library posterior of k components and the oracle's, from the same responsibilities."""
    R = responsibilities(len(case), k, seed)
    s = statistics(case.family, case.X, R)
    return case.family.posterior(s.n, s.t), [case.oracle.posterior(case.dense, r) for r in R.T]


def named(cases):
    """Run a test for some cases of the registry only."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)
