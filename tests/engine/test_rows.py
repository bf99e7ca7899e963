"""Rows can be cut, joined and copied, and take weights and features along."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from everlearn.engine.rows import Rows, concatenate

X = np.arange(30.0).reshape(10, 3) % 7
WEIGHTS = np.linspace(0.5, 1.5, 10)


@pytest.fixture(params=["dense", "csr"])
def table(request):
    return X if request.param == "dense" else sparse.csr_array(X)


def dense(table):
    return table.toarray() if sparse.issparse(table) else table


@pytest.mark.parametrize("size", [1, 3, 10, 99])
def test_blocks_are_the_rows_in_order(table, size):
    rows = Rows(table, WEIGHTS, features=2.0 * table)
    blocks = rows.blocks(size)
    assert [len(b) for b in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert_array_equal(np.concatenate([dense(b.X) for b in blocks]), X)
    assert_array_equal(np.concatenate([b.weights for b in blocks]), WEIGHTS)
    assert_array_equal(np.concatenate([dense(b.features) for b in blocks]), 2.0 * X)


def test_some_rows(table):
    where = np.array([7, 0, 7])
    some = Rows(table, WEIGHTS)[where]
    assert_array_equal(dense(some.X), X[where])
    assert_array_equal(some.weights, WEIGHTS[where])
    assert some.features is None
    assert Rows(table)[where].weights is None


@pytest.mark.parametrize("size", [3, 10])
def test_concatenate_undoes_blocks(table, size):
    for weights in (None, WEIGHTS):
        joined = concatenate(Rows(table, weights).blocks(size))
        assert_array_equal(dense(joined.X), X)
        assert_array_equal(joined.weights, weights)


def test_parts_without_weights_count_one_each(table):
    joined = concatenate([Rows(table), Rows(table, WEIGHTS)])
    assert_array_equal(joined.weights, np.concatenate([np.ones(10), WEIGHTS]))


def test_a_copy_shares_no_memory(table):
    rows = Rows(table.copy(), WEIGHTS.copy(), features=table)
    copied = rows.copy()
    (rows.X.data if sparse.issparse(table) else rows.X)[:] = -1.0
    rows.weights[:] = -1.0
    assert_array_equal(dense(copied.X), X)
    assert_array_equal(copied.weights, WEIGHTS)
    assert copied.features is None


def test_mass_and_bytes():
    assert Rows(X).mass == 10.0
    assert Rows(X, WEIGHTS).mass == WEIGHTS.sum()
    assert Rows(X, WEIGHTS).nbytes == X.nbytes + WEIGHTS.nbytes
    table = sparse.csr_array(X)
    held = table.data.nbytes + table.indices.nbytes + table.indptr.nbytes
    assert Rows(table).nbytes == held
