"""Multinomials: sparse and dense counts of any type, and SciPy's laws."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from everlearn.core.families.multinomial import Multinomial
from oracles.cases import (
    CSR_COUNTS,
    DENSE_COUNTS,
    bound,
    named,
    posteriors,
    responsibilities,
)


def test_csr_is_dense():
    dense, csr = DENSE_COUNTS, CSR_COUNTS
    R = responsibilities(len(dense), 3)
    assert_allclose(dense.family.log_base(dense.X), csr.family.log_base(csr.X), atol=1e-14)
    assert_allclose(bound(csr.family, csr.X, R), bound(dense.family, dense.X, R), rtol=1e-14)
    q, _ = posteriors(dense)
    assert_allclose(
        csr.family.log_predictive(csr.X, q), dense.family.log_predictive(dense.X, q), rtol=1e-14
    )


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
def test_counts_of_any_type_are_the_same_counts(dtype):
    for case in (DENSE_COUNTS, CSR_COUNTS):
        X = case.X.astype(dtype)
        q, _ = posteriors(case)
        assert_allclose(case.family.log_base(X), case.family.log_base(case.X), rtol=1e-14)
        assert_allclose(
            case.family.log_predictive(X, q), case.family.log_predictive(case.X, q), rtol=1e-14
        )


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


def test_embedding_of_counts_is_hellinger():
    dense = DENSE_COUNTS.family.embedding(DENSE_COUNTS.X)
    norms = (dense**2).sum(axis=1)
    assert_allclose(norms, DENSE_COUNTS.X.sum(axis=1) > 0, atol=1e-12)
    assert_allclose(CSR_COUNTS.family.embedding(CSR_COUNTS.X).toarray(), dense)


@named([DENSE_COUNTS, CSR_COUNTS])
@pytest.mark.parametrize("trials", [0, 1, 3])
def test_sums_to_one(case, trials):
    rows = [x for x in product(range(trials + 1), repeat=4) if sum(x) == trials]
    X = np.array(rows, float)
    q, _ = posteriors(case)
    X = sparse.csr_array(X) if sparse.issparse(case.X) else X
    sums = np.exp(case.family.log_predictive(X, q)).sum(axis=0)
    assert_allclose(sums, 1.0, rtol=1e-12)


@named([DENSE_COUNTS])
def test_draws_of_counts_follow_their_predictive(case):
    q, (o,) = posteriors(case.head(3), k=1)  # so unsure that ignoring it shows
    draws = case.family.draw(q, 0, 20_000, np.random.default_rng(3))
    assert_array_equal(draws.sum(axis=1), case.family.trials)
    law = case.oracle.predictive(o, case.family.trials)
    error = np.sqrt(np.diag(law.cov()) / len(draws))
    assert (np.abs(draws.mean(axis=0) - law.mean()) < 4 * error).all()
    assert_allclose(np.cov(draws.T), law.cov(), atol=0.04)


@named([DENSE_COUNTS])
def test_means_and_variances_of_counts(case):
    q, oracles = posteriors(case)
    p = np.array([o / o.sum() for o in oracles])
    assert_allclose(case.family.means(q), p, rtol=1e-12)
    assert_allclose(case.family.covariances(q), p * (1 - p), rtol=1e-12)
