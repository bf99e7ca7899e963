"""The same model in other forms gives the same numbers, and rounding does no harm."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.gaussian_zero_mean import ZeroMeanGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.priors.dp import DPPrior
from everlearn.mixture.model import Mixture
from oracles import mixture as oracle_mixture
from oracles.cases import (
    ALPHA,
    CASES,
    GAUSSIANS,
    SHIFTED,
    TABLE,
    bound,
    diagonal,
    expected_log_likelihood,
    full,
    gaussian_rows,
    named,
    responsibilities,
    statistics,
)


class TestSameModelInOtherForms:
    def test_features_in_single_precision(self, case):
        exact = case.family.features(case.X)
        single = case.family.features(case.X, np.float32)
        assert single.dtype == np.float32
        if sparse.issparse(exact):
            exact, single = exact.toarray(), single.toarray()
        assert_allclose(single, exact, rtol=1e-5, atol=1e-5)


class TestInvariances:
    @named(GAUSSIANS)
    @pytest.mark.parametrize("s", [0.01, 30.0])
    def test_scale_equivariance(self, case, s):
        """Data times s under a prior that follows: scores and bound shift by the Jacobian."""
        p = case.family.prior
        if isinstance(case.family, DiagGaussian):
            prior = replace(p, mean=p.mean * s, rate=p.rate * s**2)
        elif isinstance(case.family, ZeroMeanGaussian):
            prior = replace(p, scale=p.scale * s**2)
        else:
            prior = replace(p, mean=p.mean * s, scale=p.scale * s**2)
        changes = {"prior": prior}
        if hasattr(case.family, "origin"):
            changes["origin"] = case.family.origin * s
        scaled = replace(case.family, **changes)
        R = responsibilities(len(case), 3)
        jacobian = (~np.isnan(case.X)).sum() * np.log(s)
        expected = bound(case.family, case.X, R) - jacobian
        assert_allclose(bound(scaled, case.X * s, R), expected, rtol=1e-11)

        a, b = statistics(case.family, case.X, R), statistics(scaled, case.X * s, R)
        ours = expected_log_likelihood(case.family, case.X, case.family.posterior(a.n, a.t))
        theirs = expected_log_likelihood(scaled, case.X * s, scaled.posterior(b.n, b.t))
        shift = (~np.isnan(case.X)).sum(axis=1, keepdims=True) * np.log(s)
        assert_allclose(theirs, ours - shift, rtol=1e-9, atol=1e-9)

    @named(SHIFTED)
    def test_the_origin_is_a_choice_of_arithmetic(self, case):
        R = responsibilities(len(case), 3)
        moved = replace(
            case.family, origin=case.family.origin + np.linspace(2.0, 5.0, case.X.shape[1])
        )
        results = []
        for family in (case.family, moved):
            s = statistics(family, case.X, R)
            q = family.posterior(s.n, s.t)
            results.append(
                (
                    bound(family, case.X, R),
                    expected_log_likelihood(family, case.X, q),
                    family.log_predictive(case.X, q),
                    family.means(q),
                    family.covariances(q),
                    family.draw(q, 0, 3, np.random.default_rng(0)),
                )
            )
        for a, b in zip(*results, strict=True):
            assert_allclose(a, b, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("make", [diagonal, full])
    def test_large_offsets_cost_no_digits_when_the_origin_is_near(self, make):
        """Rows on a binary grid, so that moving them by a million is exact."""
        million = 1e6
        centred = np.round(gaussian_rows(200, 2, 11) * 2**20) / 2**20
        X, R = centred + million, responsibilities(200, 3)
        assert_array_equal(X - million, centred)
        case = make("offset", centred)
        prior = replace(case.family.prior, mean=case.family.prior.mean + million)
        near = replace(case.family, prior=prior, origin=million + np.array([2.0, -1.0]))
        assert_allclose(
            bound(near, X, R), oracle_mixture.elbo(case.oracle, centred, R, ALPHA), rtol=1e-10
        )
        s = statistics(near, X, R)
        oracles = [case.oracle.posterior(centred, r) for r in R.T]
        expected = [[case.oracle.expected_log_likelihood(x, o) for o in oracles] for x in centred]
        q = near.posterior(s.n, s.t)
        assert_allclose(expected_log_likelihood(near, X, q), expected, rtol=1e-9)
        far = replace(near, origin=np.zeros(2))
        assert abs(bound(far, X, R) - bound(near, X, R)) > 1e-6


class TestRounding:
    """Subtracting statistics may leave a scatter just below zero."""

    @named(GAUSSIANS)
    def test_a_component_emptied_by_subtraction_is_the_prior(self, case):
        R = responsibilities(len(case), 2)
        parts = [statistics(case.family, case.X[i::4], R[i::4]) for i in range(4)]
        left = sum(parts[1:], parts[0])
        for part in reversed(parts):
            left = left - part
        mixture = Mixture(case.family, DPPrior(ALPHA))
        assert_allclose(mixture.observation_terms(left.n, left.t), 0.0, atol=1e-11)

    @pytest.mark.parametrize("make", [diagonal, full])
    def test_identical_rows_leave_a_positive_spread(self, make):
        case = make("same", np.full((50, 2), 1e3))
        family = replace(case.family, prior=replace(case.family.prior, mean=np.full(2, 1e3)))
        s = statistics(family, case.X, np.ones((50, 1)))
        q = family.posterior(s.n, s.t)
        spread = family.covariances(q)[0]
        prior = family.covariances(family.posterior(0 * s.n, 0 * s.t))[0]
        assert np.isfinite(family.cumulant(q)).all()
        size = np.linalg.norm(spread)
        assert size < np.linalg.norm(prior)
        assert size > 0

    @named([c for c in CASES if c is not TABLE])  # its blocks are families that come alone
    def test_negative_scatter_is_clipped(self, case):
        family = case.family
        second = np.full((1, family.n_stats), -1e3)
        if hasattr(family, "origin"):  # first moments at the prior mean, so that none is left over
            family = replace(family, origin=family.prior.mean)
            first = (
                slice(0, family.n_features)
                if isinstance(family, DiagGaussian)
                else slice(-family.n_features, None)
            )
            second[:, first] = 0.0
        if getattr(family, "missing", False):
            second[:, -family.n_features :] = 1.0
        q = family.posterior(np.ones(1), second)
        assert np.isfinite(family.cumulant(q)).all()
        assert np.isfinite(family.natural(q)[0]).all()
        if isinstance(family, Multinomial):
            assert_array_equal(q[0], family.prior.counts)
