"""The responsibility kernels against their plain twins, and at the edges of floating point."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.mixture import kernels
from oracles import responsibilities as oracle

DTYPES = [np.float64, np.float32]
UNIT = np.empty(0)
# Of a responsibility: in float32 a score 70 below the peak is itself only known to 70 * 6e-8.
RELATIVE = {np.float64: 1e-13, np.float32: 1e-5}
# Of a logarithm of a sum near one.
ABSOLUTE = {np.float64: 1e-15, np.float32: 2e-7}


def normal_case(n, k, scale=10.0):
    rng = np.random.default_rng([n, k])
    return scale * rng.normal(size=(n, k)), rng.normal(size=k), rng.uniform(0.1, 3.0, n)


def cases():
    """Name -> (scores, bias, weights)."""
    for n, k in [(0, 3), (1, 1), (1, 4), (5, 1), (7, 7), (9, 8), (6, 9), (3, 17), (4, 33), (2, 50)]:
        yield f"{n}x{k}", normal_case(n, k)
    yield "many tiles", normal_case(1100, 5)
    yield "one row a tile", normal_case(3, 3300)
    yield "narrow", normal_case(40, 6, scale=0.1)
    yield "huge range", normal_case(40, 6, scale=1e6)
    scores, bias, weights = normal_case(12, 10)
    yield "far below zero", (scores - 1e6, bias, weights)
    yield "unit weights", (scores, bias, UNIT)
    yield "zero weights", (scores, bias, np.zeros(12))
    yield "identical rows", (np.tile(scores[0], (12, 1)), bias, weights)
    yield "all equal", (np.zeros((12, 10)), np.zeros(10), weights)
    yield "ties", (np.round(scores / 10), np.zeros(10), weights)
    yield "signed zeros", (np.where(scores > 0, 0.0, -0.0), np.full(10, -0.0), weights)
    yield "excluded", (scores, np.where(np.arange(10) % 4 == 0, -np.inf, bias), weights)
    yield "excluded last", (scores + 1e6, np.where(np.arange(10) == 9, -np.inf, bias), weights)
    yield "one left", (scores, np.where(np.arange(10) == 3, bias, -np.inf), weights)


CASES = dict(cases())


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def typed(case, dtype):
    scores, bias, weights = case
    return scores.astype(dtype), bias.astype(dtype), weights


def mass(scores, bias, weights):
    return oracle.row_weights(weights, len(scores)).sum()


def run(scores, bias, weights):
    """Responsibilities, log_norm, labels, entropy by the kernel; arguments stay as they are."""
    n, k = scores.shape
    r, log_norm, labels = scores.copy(), np.full(n, np.nan), np.full(n, -1, np.int32)
    entropy = np.zeros(k)
    kernels.softmax_entropy(r, bias, weights, log_norm, labels, entropy)
    return r, log_norm, labels, entropy


def assert_agree(fast, slow, mass, dtype):
    """`mass` is the sum of the row weights."""
    r, log_norm, labels, entropy = fast
    rough, fine = RELATIVE[dtype], ABSOLUTE[dtype]
    assert r.dtype == dtype
    assert_allclose(r, slow[0], rtol=rough, atol=2e-30)
    assert_allclose(log_norm, slow[1], rtol=fine, atol=fine)
    assert_array_equal(labels, slow[2])
    assert_allclose(entropy, slow[3], rtol=rough, atol=fine * mass)


def assert_clean(r):
    """Rows sum to one, and nothing is negative, subnormal, or merely almost zero."""
    assert np.all((r == 0.0) | (r >= np.float32(1e-30) * (1 - 1e-6)))
    slack = 1e-12 if r.dtype == np.float64 else 1e-7 * (r.shape[1] + 2)
    assert_allclose(r.sum(axis=1, dtype=np.float64), 1.0, rtol=0, atol=slack)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_matches_twin(case, dtype):
    arrays = typed(case, dtype)
    fast = run(*arrays)
    assert_agree(fast, oracle.softmax_entropy(*arrays), mass(*arrays), dtype)
    assert_clean(fast[0])


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.sampled_from(DTYPES))
def test_the_label_is_the_lowest_of_ties(row, dtype):
    _, _, labels, _ = run(np.array([row], dtype), np.zeros(len(row), dtype), UNIT)
    assert labels[0] == row.index(max(row))


@pytest.mark.parametrize("dtype", DTYPES)
def test_excluded_components_get_exactly_nothing(dtype):
    scores, bias, weights = typed(CASES["excluded"], dtype)
    r, _, _, entropy = run(scores, bias, weights)
    assert not r[:, np.isneginf(bias)].any()
    assert not entropy[np.isneginf(bias)].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [2, 40, 2000])
def test_what_is_below_1e30_is_zero(k, dtype):
    depths = -np.concatenate([np.linspace(0.0, 69.07, 50), np.linspace(69.09, 1000.0, 50)])
    scores = np.zeros((100, k), dtype)
    scores[:, 1:] = depths[:, None]
    r, *_ = run(scores, np.zeros(k, dtype), UNIT)
    assert_clean(r)
    assert (r[:50] > 0.0).all()
    assert not r[50:, 1:].any()


def test_entropy_is_added_to():
    scores, bias, weights = normal_case(30, 5)
    *_, once = run(scores, bias, weights)
    entropy = np.arange(5.0)
    outputs = np.empty(30), np.empty(30, np.int32), entropy
    kernels.softmax_entropy(scores, bias, weights, *outputs)
    assert_allclose(entropy, np.arange(5.0) + once, rtol=1e-14)


def test_entropy_of_float32_rows_is_summed_in_float64():
    n = 200_000
    scores = np.zeros((n, 2), np.float32)
    *_, entropy = run(scores, np.zeros(2, np.float32), UNIT)
    assert_allclose(entropy, n * np.log(2.0) / 2.0, rtol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_a_nan_score_spoils_its_row_and_no_other(dtype, nan):
    scores, bias, weights = typed(normal_case(20, 6), dtype)
    scores[4, 2] = nan
    r, log_norm, labels, _ = run(scores, bias, weights)
    spoilt = np.arange(20) == 4
    assert_array_equal(np.isnan(log_norm), spoilt)
    assert_array_equal(np.isnan(r).any(axis=1), spoilt)
    assert 0 <= labels[4] < 6


def some_responsibilities(n, k, dtype=np.float64):
    scores, bias, weights = typed(normal_case(n, k, scale=8.0), dtype)
    r, *_ = run(scores, bias, weights)
    return r, weights


def track(pairs, k):
    slots = np.full((k, k), -1, np.int32)
    for p, (i, j) in enumerate(pairs):
        slots[i, j] = p
    return slots


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(0, 3), (1, 1), (1, 2), (300, 9), (5, 40)])
def test_pair_loss_matches_twin(n, k, dtype):
    r, weights = some_responsibilities(n, k, dtype)
    pairs = [(i, j) for j in range(k) for i in range(j) if (i + j) % 3 != 1]
    for w in (weights, UNIT, np.zeros(n)):
        loss = np.ones(len(pairs))
        kernels.pair_entropy_loss(r, w, track(pairs, k), loss)
        expected = oracle.pair_entropy_loss(r, w, pairs)
        assert_allclose(loss - 1.0, expected, rtol=1e-10, atol=1e-13)
        assert (loss >= 1.0).all()


def test_pair_loss_is_the_entropy_a_merge_loses():
    r, weights = some_responsibilities(200, 4)
    merged = np.column_stack([r[:, 0] + r[:, 2], r[:, 1], r[:, 3]])
    lost = -weights @ oracle.negentropy(r).sum(1) + weights @ oracle.negentropy(merged).sum(1)
    loss = np.zeros(1)
    kernels.pair_entropy_loss(r, weights, track([(0, 2)], 4), loss)
    assert_allclose(loss[0], lost, rtol=1e-11)


@pytest.mark.parametrize("b", [1e-13, 1e-8, 0.25, 0.5])
@pytest.mark.parametrize("swap", [False, True])
def test_pair_loss_keeps_its_digits(b, swap):
    row = np.array([[1.0 - b, b]])
    if swap:
        row = row[:, ::-1].copy()
    loss = np.zeros(1)
    kernels.pair_entropy_loss(row, UNIT, track([(0, 1)], 2), loss)
    with localcontext() as context:
        context.prec = 60
        x, y = Decimal(row[0, 0].item()), Decimal(row[0, 1].item())
        exact = float((x + y) * (x + y).ln() - x * x.ln() - y * y.ln())
    assert_allclose(loss[0], exact, rtol=1e-14)


def test_pair_loss_passes_over_inactive_components():
    row = np.array([[1.0, 0.0, 9e-15]])
    loss = np.zeros(3)
    kernels.pair_entropy_loss(row, UNIT, track([(0, 1), (0, 2), (1, 2)], 3), loss)
    assert_array_equal(loss, 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("k", "p"), [(1, 1), (7, 13)])
def test_products_are_added_in_double_precision(k, p, dtype):
    products = np.random.default_rng(p).normal(size=(k, p)).astype(dtype)
    out = np.ones((k, p))
    kernels.add_products(products, out)
    assert_array_equal(out, 1.0 + products.astype(np.float64))
