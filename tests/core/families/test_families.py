"""Each family against its oracle, against Monte Carlo and against SciPy."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, sparse, stats

from everlearn.core.families.wishart import Wishart, _robust_factor
from everlearn.core.priors.dp import DPPrior
from everlearn.mixture.model import Mixture
from oracles.cases import (
    CSR_COUNTS,
    DENSE_COUNTS,
    GAPS,
    GAUSSIANS,
    expected_log_likelihood,
    full,
    named,
    posteriors,
    responsibilities,
    statistics,
    zero_mean,
)

ALPHA = 1.3


def few_rows(case):
    """A posterior so unsure that ignoring its uncertainty shows."""
    small = case.head(3)
    q, (o,) = posteriors(small, k=1)
    return q, o


class TestExpectedLogLikelihood:
    def test_features_times_eta_is_the_expectation(self, case):
        q, oracles = posteriors(case)
        expected = [
            [case.oracle.expected_log_likelihood(x, o) for o in oracles] for x in case.dense
        ]
        assert_allclose(
            expected_log_likelihood(case.family, case.X, q), expected, rtol=1e-10, atol=1e-10
        )

    def test_and_monte_carlo_agrees(self, case):
        q, oracles = posteriors(case)
        ours = expected_log_likelihood(case.family, case.X, q)[:6]
        rng = np.random.default_rng(2)
        for k, o in enumerate(oracles):
            phi = case.oracle.draw(o, 20_000, rng)
            for n, x in enumerate(case.dense[:6]):
                draws = case.oracle.log_likelihood(x, phi)
                error = 4 * draws.std() / np.sqrt(len(draws)) + 1e-9
                assert abs(ours[n, k] - draws.mean()) < error

    def test_the_prior_is_the_posterior_of_nothing(self, case):
        q = case.family.posterior(np.zeros(1), np.zeros((1, case.family.n_stats)))
        expected = [case.oracle.expected_log_likelihood(x, case.oracle.prior) for x in case.dense]
        assert_allclose(
            expected_log_likelihood(case.family, case.X, q)[:, 0], expected, rtol=1e-10, atol=1e-10
        )


class TestObservationBound:
    def test_one_component_gives_the_exact_marginal_likelihood(self, case):
        s = statistics(case.family, case.X, np.ones((len(case), 1)))
        term = Mixture(case.family, DPPrior(ALPHA)).observation_terms(s.n, s.t)[0] + s.base
        assert_allclose(term, case.oracle.log_marginal(case.dense), rtol=1e-11)

    def test_monte_carlo_at_the_optimum(self, case):
        """There log p(X, phi) - log q(phi) does not depend on phi: every draw gives the bound."""
        r = responsibilities(len(case), 2)[:, 0]
        s = statistics(case.family, case.X, r[:, None])
        mean, error = case.oracle.monte_carlo(
            case.dense, r, case.oracle.posterior(case.dense, r), 50, np.random.default_rng(0)
        )
        base = float(r @ case.family.log_base(case.X))
        term = Mixture(case.family, DPPrior(ALPHA)).observation_terms(s.n, s.t)[0] + base
        assert error < 1e-8
        assert_allclose(term, mean, rtol=1e-9)

    def test_monte_carlo_away_from_the_optimum(self, case):
        r, other = responsibilities(len(case), 2).T
        evidence = other + 0.3 * r
        family = case.family
        mean, error = case.oracle.monte_carlo(
            case.dense,
            r,
            case.oracle.posterior(case.dense, evidence),
            4000,
            np.random.default_rng(1),
        )
        q, prior = (
            family.posterior(s.n, s.t)
            for s in (
                statistics(family, case.X, evidence[:, None]),
                statistics(family, case.X, 0.0 * r[:, None]),
            )
        )
        eta, constant = family.natural(q)
        t = np.asarray((r - evidence) @ family.features(case.X))
        slack = t @ eta[0] + (r - evidence).sum() * constant[0]
        ours = family.cumulant(prior)[0] - family.cumulant(q)[0] + slack
        ours += r @ family.log_base(case.X)
        assert abs(ours - mean) < 4 * error

    def test_a_clump_is_its_rows(self, case):
        """Statistics of rows are the sum over single rows, whatever the block they came in."""
        R = responsibilities(len(case), 2)
        whole = statistics(case.family, case.X, R)
        single = [statistics(case.family, case.X[[i]], R[[i]]) for i in range(len(case))]
        parts = sum(single[1:], single[0])
        for name in ("n", "t", "h", "base"):
            assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


class TestPredictive:
    def test_matches_scipy(self, case):
        q, oracles = posteriors(case)
        expected = [[case.oracle.log_predictive(x, o) for o in oracles] for x in case.dense]
        assert_allclose(case.family.log_predictive(case.X, q), expected, rtol=1e-9, atol=1e-9)

    def test_is_a_ratio_of_marginal_likelihoods(self, case):
        mixture = Mixture(case.family, DPPrior(ALPHA))
        s = statistics(case.family, case.X, responsibilities(len(case), 3))
        before = mixture.observation_terms(s.n, s.t)
        features = case.family.features(case.X)
        features = features.toarray() if sparse.issparse(features) else features
        after = np.array([mixture.observation_terms(s.n + 1.0, s.t + f) for f in features])
        ratio = after - before + case.family.log_base(case.X)[:, None]
        predictive = case.family.log_predictive(case.X, case.family.posterior(s.n, s.t))
        assert_allclose(predictive, ratio, rtol=1e-9, atol=1e-9)

    @named([c for c in GAUSSIANS if c.family.n_features == 1])
    def test_integrates_to_one(self, case):
        q, _ = posteriors(case)
        for k in range(3):

            def density(x, k=k, q=q):
                return np.exp(case.family.log_predictive(np.array([[x]]), q)[0, k])

            assert_allclose(integrate.quad(density, -np.inf, np.inf)[0], 1.0, atol=1e-7)

    @named([DENSE_COUNTS, CSR_COUNTS])
    @pytest.mark.parametrize("trials", [0, 1, 3])
    def test_sums_to_one(self, case, trials):
        rows = [x for x in product(range(trials + 1), repeat=4) if sum(x) == trials]
        X = np.array(rows, float)
        q, _ = posteriors(case)
        X = sparse.csr_array(X) if sparse.issparse(case.X) else X
        sums = np.exp(case.family.log_predictive(X, q)).sum(axis=0)
        assert_allclose(sums, 1.0, rtol=1e-12)


class TestSummaries:
    @named(GAUSSIANS)
    def test_draws_of_a_gaussian_follow_its_predictive(self, case):
        q, o = few_rows(case)
        draws = case.family.draw(q, 0, 20_000, np.random.default_rng(3))
        assert draws.shape == (20_000, case.family.n_features)
        t = case.oracle.predictive(o)
        if isinstance(t, list):
            marginals, scale = t, np.eye(len(t))
        else:
            scale = np.atleast_2d(t.shape)
            sd = np.sqrt(np.diag(scale))
            marginals = [stats.t(t.df, m, s) for m, s in zip(np.ravel(t.loc), sd, strict=True)]
        for column, marginal in zip(draws.T, marginals, strict=True):
            assert stats.kstest(column, marginal.cdf).pvalue > 1e-3
        for i, j in combinations(range(len(scale)), 2):
            correlation = scale[i, j] / np.sqrt(scale[i, i] * scale[j, j])
            expected = 2 / np.pi * np.arcsin(correlation)  # holds for every elliptical law
            assert abs(stats.kendalltau(draws[:, i], draws[:, j])[0] - expected) < 0.03

    @named([DENSE_COUNTS])
    def test_draws_of_counts_follow_their_predictive(self, case):
        q, o = few_rows(case)
        draws = case.family.draw(q, 0, 20_000, np.random.default_rng(3))
        assert_array_equal(draws.sum(axis=1), case.family.trials)
        law = case.oracle.predictive(o, case.family.trials)
        error = np.sqrt(np.diag(law.cov()) / len(draws))
        assert (np.abs(draws.mean(axis=0) - law.mean()) < 4 * error).all()
        assert_allclose(np.cov(draws.T), law.cov(), atol=0.04)

    @named(GAUSSIANS)
    def test_means_and_covariances(self, case):
        q, oracles = posteriors(case)
        for k, o in enumerate(oracles):
            if isinstance(o, list):
                mean, spread = [p.m for p in o], [p.b / p.a for p in o]
            else:
                mean, spread = o.centre, o.B / o.nu
            assert_allclose(case.family.means(q)[k], mean, rtol=1e-10, atol=1e-12)
            assert_allclose(case.family.covariances(q)[k], spread, rtol=1e-10, atol=1e-12)

    @named([DENSE_COUNTS])
    def test_means_and_variances_of_counts(self, case):
        q, oracles = posteriors(case)
        p = np.array([o / o.sum() for o in oracles])
        assert_allclose(case.family.means(q), p, rtol=1e-12)
        assert_allclose(case.family.covariances(q), p * (1 - p), rtol=1e-12)

    @named([c for c in GAUSSIANS if not getattr(c.family, "missing", False)])
    def test_embedding_makes_the_component_round(self, case):
        q, (o, *_) = posteriors(case, k=1)
        precision = np.diag([p.a / p.b for p in o]) if isinstance(o, list) else o.precision
        centre = case.family.means(q)[0]
        points = case.family.embedding(np.vstack([case.X, centre]), q)
        off = case.X - centre
        expected = np.einsum("ni,ij,nj->n", off, precision, off)
        distance = ((points[:-1] - points[-1]) ** 2).sum(axis=1)
        assert_allclose(distance, expected, rtol=1e-9)
        assert_allclose(
            np.diff(case.family.embedding(case.X), axis=0), np.diff(case.X, axis=0), atol=1e-12
        )

    def test_embedding_of_a_gap_is_the_middle(self):
        q, _ = posteriors(GAPS, k=1)
        for points in (GAPS.family.embedding(GAPS.X), GAPS.family.embedding(GAPS.X, q)):
            assert_array_equal(points[np.isnan(GAPS.X)], 0.0)
            assert np.isfinite(points).all()

    def test_embedding_of_counts_is_hellinger(self):
        dense = DENSE_COUNTS.family.embedding(DENSE_COUNTS.X)
        norms = (dense**2).sum(axis=1)
        assert_allclose(norms, DENSE_COUNTS.X.sum(axis=1) > 0, atol=1e-12)
        assert_allclose(CSR_COUNTS.family.embedding(CSR_COUNTS.X).toarray(), dense)


class TestWildRows:
    """Sums so large that the prior drowns in their rounding: no failure, nothing indefinite."""

    @pytest.mark.parametrize("make", [full, zero_mean])
    @pytest.mark.parametrize("size", [1e6, 1e9, 1e30])
    @pytest.mark.parametrize("seed", range(5))
    def test_posteriors_stay_proper(self, make, size, seed):
        rng = np.random.default_rng(seed)
        family = make("wild", rng.normal(size=(9, 4))).family
        X = np.concatenate([rng.normal(size=(50, 4)), size * rng.normal(size=(3, 4))])
        t = np.stack([family.features(X).sum(axis=0), family.features(X[-3:]).sum(axis=0)])
        q = family.posterior(np.array([53.0, 3.0]), t)
        assert np.isfinite(family.cumulant(q)).all()
        precision = getattr(q, "wishart", q).expected_precision()
        assert np.isfinite(precision).all()
        smallest = np.linalg.eigvalsh(precision)[:, 0]
        assert (smallest >= -1e-12 * np.trace(precision, axis1=1, axis2=2)).all()
        assert np.isfinite(family.log_predictive(X, q)).all()
        assert np.isfinite(family.embedding(X, q)).all()
        assert np.isfinite(family.draw(q, 1, 100, rng)).all()

    def test_a_factor_in_spite_of_rounding(self):
        """Three dimensions of a billion and one of the prior's: all four are kept apart."""
        roots = np.random.default_rng(0).normal(size=(4, 3)) * 1e9
        q = Wishart.from_scatter(np.array([9.0]), np.eye(4), (roots @ roots.T)[None])
        kernel = np.linalg.svd(roots.T)[2][-1]  # the direction in which there is nothing
        assert_allclose(kernel @ q.expected_precision()[0] @ kernel, 9.0, rtol=1e-3)

    def test_the_usual_factor_where_nothing_is_wrong(self):
        scatter = np.cov(np.random.default_rng(1).normal(size=(3, 9)))[None] * [[[2.0]], [[5e4]]]
        base = np.diag([1e-6, 1.0, 1e6])
        assert_allclose(
            _robust_factor(base, scatter), np.linalg.cholesky(base + scatter), rtol=1e-9, atol=1e-9
        )


def test_a_family_reports_its_sizes(case):
    X = case.X
    assert case.family.n_features == X.shape[1]
    assert case.family.features(X).shape == (len(case), case.family.n_stats)
    assert case.family.log_base(X).shape == (len(case),)
