"""Small data sets in one form: distinct rows, weights, a fixed order."""

import numpy as np
from scipy import sparse

from everlearn.engine.rows import Rows
from everlearn.mixture.pooling import pooled
from support.streams import rows_of


def test_pooled_rows_are_distinct_and_weigh_the_same() -> None:
    X = np.array([[1.0, -0.0], [2.0, np.nan], [1.0, 0.0], [2.0, np.nan], [3.0, 1.0]])
    rows = pooled(Rows(X, np.array([1.0, 2.0, 0.5, 0.25, 0.0])))
    order = np.argsort(rows.X[:, 0])
    np.testing.assert_array_equal(rows.X[order], [[1.0, 0.0], [2.0, np.nan]])
    np.testing.assert_array_equal(rows.weights[order], [1.5, 2.25])
    distinct = pooled(Rows(np.arange(50.0).reshape(25, 2)))
    assert distinct.weights is None
    assert len(distinct) == 25
    assert not (np.diff(distinct.X[:, 0]) > 0).all()  # as good as shuffled


def test_pooling_does_not_see_storage() -> None:
    X = rows_of("multinomial", 40, np.random.default_rng(0))
    dense, single, csr = pooled(Rows(X)), pooled(Rows(X.astype(np.float32))), sparse.csr_array(X)
    np.testing.assert_array_equal(single.X, dense.X)
    np.testing.assert_array_equal(single.weights, dense.weights)
    explicit = csr.copy()
    explicit.data[0] = 0.0
    assert len(pooled(Rows(csr))) == len(dense)
    zeroed = explicit.toarray()
    np.testing.assert_array_equal(
        np.sort(pooled(Rows(explicit)).X.toarray(), axis=0), np.sort(pooled(Rows(zeroed)).X, axis=0)
    )
