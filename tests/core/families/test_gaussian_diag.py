"""Diagonal Gaussians: gaps, and the spread that components share."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from oracles.cases import (
    DIAGONAL,
    GAPS,
    bound,
    expected_log_likelihood,
    gaussian_rows,
    posteriors,
    responsibilities,
    statistics,
)


def test_wishart_per_dimension_is_normal_gamma():
    m, beta = np.zeros(2), np.array([3.0, 5.0])
    a = NormalGammaPrior.wishart(m, 0.1, 4.0, beta)
    b = NormalGammaPrior(m, 0.1, 2.0, beta / 2)
    X, R = gaussian_rows(20, 2, 3), responsibilities(20, 3)
    assert bound(DiagGaussian(a, m), X, R) == bound(DiagGaussian(b, m), X, R)


def test_missing_without_gaps_is_not_missing():
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


def test_a_column_of_gaps_is_a_model_without_the_column():
    X, R = gaussian_rows(20, 3, 5), responsibilities(20, 3)
    p, keep = GAPS.family.prior, [0, 2]
    holed = X.copy()
    holed[:, 1] = np.nan
    smaller = DiagGaussian(
        NormalGammaPrior(p.mean[keep], p.mean_precision, p.shape, p.rate[keep]),
        GAPS.family.origin[keep],
    )
    assert_allclose(bound(GAPS.family, holed, R), bound(smaller, X[:, keep], R), rtol=1e-13)


def test_a_gap_in_a_row_is_its_marginal():
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


def test_embedding_of_a_gap_is_the_middle():
    q, _ = posteriors(GAPS, k=1)
    for points in (GAPS.family.embedding(GAPS.X), GAPS.family.embedding(GAPS.X, q)):
        assert_array_equal(points[np.isnan(GAPS.X)], 0.0)
        assert np.isfinite(points).all()
