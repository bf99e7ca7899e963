"""The Wishart factor against SciPy, and where rounding would make it indefinite."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from everlearn.core.families.wishart import (
    Wishart,
    _robust_factor,
    packed_quadratic,
    quadratic_features,
)
from everlearn.core.math import upper_triangle
from oracles.cases import full, positive_definite, zero_mean

DOF, INFLATION = np.array([4.5, 9.0]), np.array([1.4, 1.0])


def two(dim):
    scatter = np.stack([positive_definite(dim, 3), 50.0 * positive_definite(dim, 4)])
    return Wishart.from_scatter(DOF + dim, positive_definite(dim, 5), scatter)


@pytest.mark.parametrize("dim", [1, 3])
class TestAgainstSciPy:
    def test_the_constant_of_the_density(self, dim):
        """Density over constant is |L|^((nu - d - 1) / 2) exp(-tr(B L) / 2)."""
        q = two(dim)
        precision = positive_definite(dim, 8)
        for k, (dof, B) in enumerate(zip(q.dof, q.scale, strict=True)):
            density = stats.wishart.logpdf(precision, dof, np.linalg.inv(B))
            kernel = (dof - dim - 1) / 2 * np.linalg.slogdet(precision)[1]
            kernel -= np.trace(B @ precision) / 2
            assert_allclose(q.cumulant()[k], density - kernel, rtol=1e-12)

    def test_expectations_are_means_of_draws(self, dim):
        q = two(dim)
        for k, (dof, B) in enumerate(zip(q.dof, q.scale, strict=True)):
            drawn = stats.wishart.rvs(dof, np.linalg.inv(B), 20_000, np.random.default_rng(k))
            drawn = drawn.reshape(-1, dim, dim)
            for found, draws in (
                (q.expected_precision()[k], drawn),
                (q.expected_log_det()[k], np.linalg.slogdet(drawn)[1]),
            ):
                error = draws.std(axis=0) / np.sqrt(len(draws))
                assert (np.abs(found - draws.mean(axis=0)) < 4 * error).all()

    def test_student_densities(self, dim):
        q, x = two(dim), np.random.default_rng(0).normal(size=(5, dim))
        mean = np.random.default_rng(1).normal(size=(2, dim))
        found = q.log_student(x, mean, INFLATION)
        for k, (own, B) in enumerate(zip(q.dof, q.scale, strict=True)):
            dof = own - dim + 1
            law = stats.multivariate_t(mean[k], B * INFLATION[k] / dof, dof)
            assert_allclose(found[:, k], law.logpdf(x), rtol=1e-12)
            assert_allclose(q.mean_log_student(INFLATION)[k], -law.entropy(), rtol=1e-10)

    def test_the_determinant_and_what_is_white(self, dim):
        q, x = two(dim), np.random.default_rng(0).normal(size=(5, dim))
        assert_allclose(q.log_det, np.linalg.slogdet(q.scale)[1], rtol=1e-12)
        for k, precision in enumerate(q.expected_precision()):
            white = q.whitened(x, k)
            assert_allclose(white @ white.T, x @ precision @ x.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("origin", [None, np.array([1.0, -2.0, 0.5])])
def test_features_are_the_triangle_of_the_outer_product_and_the_row(origin, dtype):
    X = np.random.default_rng(0).normal(size=(7, 3))
    rows, columns = upper_triangle(3)
    x = X if origin is None else X - origin
    expected = x[:, rows] * x[:, columns]
    found = quadratic_features(X, origin, dtype)
    assert found.dtype == dtype
    assert_allclose(
        found, expected if origin is None else np.hstack([expected, x]), rtol=1e-5, atol=1e-6
    )


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


@pytest.mark.parametrize("dim", [1, 3])
def test_packed_quadratic_forms(dim):
    rng = np.random.default_rng(1)
    M, x = rng.normal(size=(4, dim, dim)), rng.normal(size=(6, dim))
    M = M + M.transpose(0, 2, 1)
    rows, columns = upper_triangle(dim)
    outer = x[:, rows] * x[:, columns]
    assert_allclose(outer @ packed_quadratic(M).T, np.einsum("ni,kij,nj->nk", x, M, x), atol=1e-12)
