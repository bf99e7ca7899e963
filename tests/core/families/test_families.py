"""Each family against its oracle, against Monte Carlo and against SciPy."""

from itertools import combinations

import numpy as np
from numpy.testing import assert_allclose
from scipy import integrate, sparse, stats

from everlearn.core.families.multinomial import Multinomial
from everlearn.core.priors.dp import DPPrior
from everlearn.mixture.model import Mixture
from oracles.cases import (
    ALPHA,
    CASES,
    GAUSSIANS,
    expected_log_likelihood,
    named,
    posteriors,
    responsibilities,
    statistics,
)


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


@named([c for c in CASES if not isinstance(c.family, Multinomial)])
def test_the_typical_log_density_is_the_mean_over_drawn_rows(case):
    q, oracles = posteriors(case)
    has_gaps = getattr(case.family, "missing", case not in GAUSSIANS)
    for k in range(len(oracles)):
        drawn = case.family.draw(q, k, 20_000, np.random.default_rng(k))
        if has_gaps:
            drawn[:, -1] = np.nan  # a missing entry has no part in either
        found = case.family.log_predictive(drawn, q)[:, k]
        error = found.std() / np.sqrt(len(found)) + 1e-12
        assert abs(case.family.log_typical(drawn, q)[0, k] - found.mean()) < 4 * error


def test_a_family_reports_its_sizes(case):
    X = case.X
    assert case.family.n_features == X.shape[1]
    assert case.family.features(X).shape == (len(case), case.family.n_stats)
    assert case.family.log_base(X).shape == (len(case),)
