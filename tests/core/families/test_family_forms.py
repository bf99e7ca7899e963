"""The same model in other forms gives the same numbers, and rounding does no harm."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import ZeroMeanGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.priors.dp import DPPrior
from everlearn.mixture.model import Mixture
from oracles import mixture as oracle_mixture
from oracles.cases import (
    CASES,
    CSR_COUNTS,
    DENSE_COUNTS,
    DIAGONAL,
    GAPS,
    GAUSSIANS,
    SHIFTED,
    TABLE,
    diagonal,
    expected_log_likelihood,
    full,
    gaussian_rows,
    named,
    posteriors,
    responsibilities,
    statistics,
)

ALPHA = 1.3


def bound(family, X, R):
    return Mixture(family, DPPrior(ALPHA)).bound(statistics(family, X, R))


class TestSameModelInOtherForms:
    def test_wishart_per_dimension_is_normal_gamma(self):
        m, beta = np.zeros(2), np.array([3.0, 5.0])
        a = NormalGammaPrior.wishart(m, 0.1, 4.0, beta)
        b = NormalGammaPrior(m, 0.1, 2.0, beta / 2)
        X, R = gaussian_rows(20, 2, 3), responsibilities(20, 3)
        assert bound(DiagGaussian(a, m), X, R) == bound(DiagGaussian(b, m), X, R)

    def test_one_dimension_is_diagonal_and_full_at_once(self):
        X, R = gaussian_rows(20, 1, 3), responsibilities(20, 3)
        m, o = np.array([0.4]), np.array([0.1])
        narrow = DiagGaussian(NormalGammaPrior(m, 0.22, 0.91, np.array([0.28])), o)
        wide = FullGaussian(NormalWishartPrior(m, 0.22, 1.82, np.array([[0.56]])), o)
        assert_allclose(bound(wide, X, R), bound(narrow, X, R), rtol=1e-13)
        scores = []
        for family in (narrow, wide):
            s = statistics(family, X, R)
            q = family.posterior(s.n, s.t)
            scores.append(expected_log_likelihood(family, X, q))
            scores.append(family.log_predictive(X, q))
        assert_allclose(scores[2], scores[0], rtol=1e-11)
        assert_allclose(scores[3], scores[1], rtol=1e-11)

    def test_missing_without_gaps_is_not_missing(self):
        with_flag = replace(DIAGONAL.family, missing=True)
        X, R = DIAGONAL.X, responsibilities(len(DIAGONAL), 3)
        assert_allclose(bound(with_flag, X, R), bound(DIAGONAL.family, X, R), rtol=1e-13)
        a, b = (statistics(f, X, R) for f in (with_flag, DIAGONAL.family))
        qa, qb = with_flag.posterior(a.n, a.t), DIAGONAL.family.posterior(b.n, b.t)
        assert_allclose(
            expected_log_likelihood(with_flag, X, qa),
            expected_log_likelihood(DIAGONAL.family, X, qb),
            rtol=1e-12,
        )
        assert_allclose(
            with_flag.log_predictive(X, qa), DIAGONAL.family.log_predictive(X, qb), rtol=1e-12
        )
        same = (
            f.draw(q, 1, 5, np.random.default_rng(0))
            for f, q in ((with_flag, qa), (DIAGONAL.family, qb))
        )
        assert_allclose(*same, rtol=1e-12)

    def test_a_column_of_gaps_is_a_model_without_the_column(self):
        X, R = gaussian_rows(20, 3, 5), responsibilities(20, 3)
        p, keep = GAPS.family.prior, [0, 2]
        holed = X.copy()
        holed[:, 1] = np.nan
        smaller = DiagGaussian(
            NormalGammaPrior(p.mean[keep], p.mean_precision, p.shape, p.rate[keep]),
            GAPS.family.origin[keep],
        )
        assert_allclose(bound(GAPS.family, holed, R), bound(smaller, X[:, keep], R), rtol=1e-13)

    def test_a_gap_in_a_row_is_its_marginal(self):
        q, _ = posteriors(GAPS)
        p, keep = GAPS.family.prior, [0, 2]
        X = gaussian_rows(6, 3, 5)
        X[:, 1] = np.nan
        smaller = DiagGaussian(
            NormalGammaPrior(p.mean[keep], p.mean_precision, p.shape, p.rate[keep]),
            GAPS.family.origin[keep],
            missing=True,
        )
        part = replace(
            q,
            mean=q.mean[:, keep],
            mean_precision=q.mean_precision[:, keep],
            shape=q.shape[:, keep],
            rate=q.rate[:, keep],
        )
        for score in (expected_log_likelihood, lambda f, rows, post: f.log_predictive(rows, post)):
            assert_allclose(score(GAPS.family, X, q), score(smaller, X[:, keep], part), rtol=1e-12)

    def test_csr_is_dense(self):
        dense, csr = DENSE_COUNTS, CSR_COUNTS
        R = responsibilities(len(dense), 3)
        assert_allclose(dense.family.log_base(dense.X), csr.family.log_base(csr.X), atol=1e-14)
        assert_allclose(bound(csr.family, csr.X, R), bound(dense.family, dense.X, R), rtol=1e-14)
        q, _ = posteriors(dense)
        assert_allclose(
            csr.family.log_predictive(csr.X, q), dense.family.log_predictive(dense.X, q), rtol=1e-14
        )

    @pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
    def test_counts_of_any_type_are_the_same_counts(self, dtype):
        for case in (DENSE_COUNTS, CSR_COUNTS):
            X = case.X.astype(dtype)
            q, _ = posteriors(case)
            assert_allclose(case.family.log_base(X), case.family.log_base(case.X), rtol=1e-14)
            assert_allclose(
                case.family.log_predictive(X, q), case.family.log_predictive(case.X, q), rtol=1e-14
            )

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


def test_duplicate_entries_of_a_csr_row_are_summed():
    counts = np.array([[3.0, 0.0, 1.0, 0.0]])
    twice = sparse.csr_array(
        (np.array([1.0, 2.0, 1.0]), np.array([0, 0, 2]), np.array([0, 3])), shape=(1, 4)
    )
    family = Multinomial(DENSE_COUNTS.family.prior)
    q = family.posterior(np.zeros(1), np.zeros((1, 4)))
    assert_allclose(family.log_base(twice), family.log_base(counts))
    assert_allclose(family.log_predictive(twice, q), family.log_predictive(counts, q))
    assert twice.nnz == 3
