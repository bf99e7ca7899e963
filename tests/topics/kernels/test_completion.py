"""Topic proportions without randomness, against the plain passes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from everlearn.core.documents import Documents
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels import completion as kernels
from everlearn.topics.kernels.completion import infer_topics
from everlearn.topics.kernels.sampler import WordFactors
from oracles.bayespa import cvb0
from support.kernels import from_python

word_update = from_python(kernels._word_update)
N_WORDS = 6


def factors_of(n_topics, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.gamma(0.3, 20.0, (N_WORDS, n_topics))
    return WordFactors(counts, 0.1, 1.0 / (counts.sum(0) + 0.1 * N_WORDS))


def table_of(factors):
    return (factors.counts + factors.smoothing) * factors.scale


def infer_expected(documents, factors, alpha, n_passes):
    out = np.full((len(documents), len(alpha)), np.nan)
    infer_topics(as_bags(documents), factors, alpha, n_passes, out)
    return out


@given(
    arrays(np.int64, (4, N_WORDS), elements=st.sampled_from([0, 0, 1, 2, 50])),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 1, 2, 5]),
)
def test_passes_are_the_plain_ones(table, n_topics, n_passes):
    factors = factors_of(n_topics)
    alpha = np.linspace(0.2, 1.1, n_topics)
    found = infer_expected(Documents.from_dense(table), factors, alpha, n_passes)
    for row, z in zip(table, found, strict=True):
        counts = {w: int(n) for w, n in enumerate(row) if n}
        np.testing.assert_allclose(z, cvb0(counts, table_of(factors), alpha, n_passes), rtol=1e-11)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_a_document_without_words_is_the_prior():
    alpha = np.array([0.5, 1.5, 2.0])
    z = infer_expected(Documents.from_tokens([[], [3], []]), factors_of(3), alpha, 2)
    np.testing.assert_allclose(z[[0, 2]], [alpha / 4.0] * 2)


def test_a_document_is_inferred_alike_in_any_company():
    documents = Documents.from_tokens([[0, 1, 1], [5] * 40, [], [2, 4, 4]])
    factors, alpha = factors_of(3), np.full(3, 0.3)
    whole = infer_expected(documents, factors, alpha, 3)
    for d in range(4):
        alone = infer_expected(documents[d : d + 1], factors, alpha, 3)[0]
        np.testing.assert_allclose(alone, whole[d], rtol=1e-13)


@pytest.mark.parametrize(
    "n_topics",
    [
        6,
        10,
        40,
    ],
)
def test_where_arrays_lie_changes_no_bit(n_topics):
    """A loop that stores and sums may run in two ways, by how near its arrays are in memory."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        alpha, row, scale, share, n = rng.gamma(1.0, 1.0, (5, n_topics)) + 1.0
        results = []
        for place in (2000, n_topics):  # far from the others, and next to them
            room = np.zeros(4000)
            held, fresh = room[:n_topics], room[place : place + n_topics]
            held[:], shares = n, share.copy()
            factors = WordFactors(row[None], 0.1, scale)
            word_update(row, factors, alpha, 1, shares, held, fresh)
            results.append(shares)
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("n_passes", [1, 5])
def test_sharp_topics_are_recognised(n_passes):
    counts = np.zeros((N_WORDS, 3))
    counts[np.arange(N_WORDS), np.arange(N_WORDS) % 3] = 1e8
    factors = WordFactors(counts, 1e-8, np.full(3, 1.0 / 2e8))
    z = infer_expected(Documents.from_tokens([[0, 3, 3, 1]]), factors, np.full(3, 0.1), n_passes)
    np.testing.assert_allclose(z, [[0.75, 0.25, 0.0]], atol=1e-9)
