"""Priors that are learned from components.

Diagonal ones expect the variance within components, full ones their mean precision.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import WishartPrior, ZeroMeanGaussian
from everlearn.core.families.product import Product
from oracles.cases import CASES, responsibilities, statistics

RNG = np.random.default_rng
OLD_ROWS = 10.0
D = 3
ORIGIN = np.array([0.5, -0.5, 4.0])
SCALE = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 4.0]])
DIAGONAL = DiagGaussian(NormalGammaPrior(ORIGIN, 0.1, 2.0, np.array([2.0, 4.0, 6.0])), ORIGIN)
GAPS = replace(DIAGONAL, missing=True)
FULL = FullGaussian(NormalWishartPrior(ORIGIN, 0.1, 6.0, SCALE), ORIGIN)
ZERO_MEAN = ZeroMeanGaussian(WishartPrior(6.0, SCALE))
GAUSSIANS = (DIAGONAL, GAPS, FULL, ZERO_MEAN)
NAMES = ["diagonal", "gaps", "full", "zero-mean"]
each_diagonal = pytest.mark.parametrize("family", GAUSSIANS[:2], ids=NAMES[:2])
each_gaussian = pytest.mark.parametrize("family", GAUSSIANS, ids=NAMES)


def rows(n=40, seed=0, gaps=False):
    X = RNG(seed).normal(size=(n, D)) @ np.array(
        [[1.0, 0.5, 0.0], [0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]
    )
    if gaps:
        X[RNG(seed + 1).random(X.shape) < 0.2] = np.nan
    return X


def learned_from(family, X, weights, labels, k):
    R = np.eye(k)[labels] * weights[:, None]
    t = np.asarray(R.T @ family.features(X))
    return family.with_learned_prior(R.sum(axis=0), t)


def new_spread(family):
    """The inverse of the expected precision."""
    p = family.prior
    if isinstance(family, DiagGaussian):
        return np.diag(p.rate / p.shape)
    return p.scale / p.degrees_of_freedom


def expected(family, X, weights, labels, k):
    """Pooled variances, in which the old expectation counts for ten rows."""
    seen = ~np.isnan(X)
    scatter, freedom = np.zeros((D, D)), np.zeros(D)
    for j in range(k):
        own, w, there = X[labels == j], weights[labels == j], seen[labels == j]
        mass = w @ there
        mean = np.nansum(w[:, None] * own, axis=0) / np.where(mass > 0, mass, 1.0)
        centred = np.where(there, own - mean, 0.0)
        scatter += np.diag(w @ centred**2)
        freedom += np.maximum(mass - 1.0, 0.0)
    total = scatter + OLD_ROWS * new_spread(family)
    return total / (freedom + OLD_ROWS)[:, None]


@pytest.mark.parametrize("weighted", [False, True])
@each_diagonal
def test_it_is_the_pooled_variance_of_rows_about_their_means(family, weighted):
    X = rows(gaps=family is GAPS)
    labels = np.repeat([0, 1, 2, 3], [12, 20, 7, 1])
    weights = RNG(2).uniform(1.0, 3.0, 40) if weighted else np.ones(40)
    found = new_spread(learned_from(family, X, weights, labels, 4))
    assert_allclose(found, expected(family, X, weights, labels, 4), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("family", [FULL, ZERO_MEAN], ids=NAMES[2:])
def test_full_ones_expect_the_mean_of_the_posterior_precisions(family):
    X, labels = rows(), np.repeat([0, 1, 2, 3], [12, 20, 7, 1])
    dof, kappa = family.prior.degrees_of_freedom, 0.1
    total = np.zeros((D, D))
    for j in range(4):
        own = X[labels == j]
        if family is ZERO_MEAN:
            scatter = own.T @ own
        else:
            centred, away = own - own.mean(axis=0), own.mean(axis=0) - ORIGIN
            scatter = centred.T @ centred
            scatter += kappa * len(own) / (kappa + len(own)) * np.outer(away, away)
        total += (dof + len(own)) * np.linalg.inv(SCALE + scatter)
    found = learned_from(family, X, np.ones(40), labels, 4).prior
    assert_allclose(found.scale, dof * np.linalg.inv(total / 4.0), rtol=1e-9)


@each_gaussian
def test_only_the_spread_is_learned(family):
    X = rows(gaps=family is GAPS)
    found = learned_from(family, X, np.ones(40), np.arange(40) % 3, 3)
    assert type(found) is type(family)
    name = "rate" if isinstance(family, DiagGaussian) else "scale"
    kept = replace(found.prior, **{name: getattr(family.prior, name)})
    for old, new in zip(vars_of(family.prior), vars_of(kept), strict=True):
        assert_array_equal(old, new)
    assert found.n_stats == family.n_stats


def vars_of(prior):
    return [getattr(prior, name) for name in prior.__dataclass_fields__]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@each_gaussian
def test_few_rows_leave_it_positive_definite(family, n):
    """Also equal rows, and components of a single row each."""
    for X in (rows(n), np.zeros((n, D)), np.full((n, D), 1e6)):
        for labels in (np.zeros(n, int), np.arange(n)):
            found = new_spread(learned_from(family, X, np.ones(n), labels, n))
            assert_array_equal(found, found.T)
            assert (np.linalg.eigvalsh(found) > 0.0).all()


@each_diagonal
def test_components_of_one_row_say_nothing(family):
    found = learned_from(family, rows(), np.ones(40), np.arange(40), 40)
    assert_allclose(new_spread(found), new_spread(family), rtol=1e-9, atol=1e-12)


@each_gaussian
def test_nothing_is_learned_from_nothing(family):
    found = family.with_learned_prior(np.zeros(2), np.zeros((2, family.n_stats)))
    assert_allclose(new_spread(found), new_spread(family), rtol=1e-12)


@each_diagonal
def test_cutting_finely_does_not_make_it_smaller_by_itself(family):
    """Cuts at random, of rows of unit variance."""
    X = RNG(0).normal(size=(3000, D))
    for k in (1, 30, 1000):
        found = new_spread(learned_from(family, X, np.ones(3000), np.arange(3000) % k, k))
        assert_allclose(np.diag(found), 1.0, atol=0.1)


@each_diagonal
def test_where_the_components_are_does_not_matter(family):
    X, labels = rows(), np.arange(40) % 3
    far = X + 100.0 * labels[:, None]
    one, other = (learned_from(family, Y, np.ones(40), labels, 3) for Y in (X, far))
    assert_allclose(new_spread(one), new_spread(other), rtol=1e-8, atol=1e-9)


def test_a_column_of_gaps_keeps_what_was_expected():
    X = rows()
    X[:, 1] = np.nan
    found = learned_from(GAPS, X, np.ones(40), np.arange(40) % 3, 3)
    assert_allclose(new_spread(found)[1, 1], 2.0)
    assert not np.isclose(new_spread(found)[0, 0], 1.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_families_without_a_spread_return_themselves(case):
    s = statistics(case.family, case.X, responsibilities(len(case), 3))
    found = case.family.with_learned_prior(s.n, s.t)
    if isinstance(case.family, Product):
        parts = case.family.parts(s.t)
        for old, new, own in zip(case.family.blocks, found.blocks, parts, strict=True):
            alone = old.family.with_learned_prior(s.n, own)
            assert type(new.family) is type(alone)
            q, p = (f.posterior(s.n, own) for f in (new.family, alone))
            for a, b in zip(new.family.natural(q), alone.natural(p), strict=True):
                assert_array_equal(a, b)
    elif isinstance(case.family, (DiagGaussian, FullGaussian, ZeroMeanGaussian)):
        assert found is not case.family
    else:
        assert found is case.family
