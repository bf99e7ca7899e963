"""Table counts against the law that Stirling numbers give."""

import numpy as np
import pytest
from scipy.special import psi

from everlearn.kernels.draws import stream_keys
from everlearn.topics.kernels.sampler import count_tables
from oracles.bayespa import Stream, deviations, stirling, table_law


def each(customers, alpha, seed=0, n=20_000):
    """Tables of n documents with so many customers in one topic."""
    keys = stream_keys(seed, 0, 0, n)
    row = np.array([[float(customers)]])
    return np.array([count_tables(row, np.array([alpha]), keys[i : i + 1])[0, 0] for i in range(n)])


def test_stirling_numbers():
    assert stirling(4) == [0, 6, 11, 6, 1]
    assert table_law(5, 0.7).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("customers", [2, 3, 6])
@pytest.mark.parametrize("alpha", [0.05, 0.8, 5.0])
def test_law_and_mean(customers, alpha):
    """Chi-square and mean within 4.5 standard deviations."""
    tables = each(customers, alpha)
    law = table_law(customers, alpha)
    assert deviations(np.bincount(tables.astype(int), minlength=customers + 1), law) < 4.5
    mean = alpha * (psi(alpha + customers) - psi(alpha))
    assert mean == pytest.approx(law @ np.arange(customers + 1))
    assert abs(tables.mean() - mean) < 4.5 * tables.std() / np.sqrt(len(tables))


def test_documents_and_topics_add_up_each_with_its_own_alpha():
    """Means over documents within 5 standard errors."""
    rng = np.random.default_rng(0)
    tallies = rng.integers(0, 9, (20_000, 3)).astype(float)
    alpha = np.array([0.1, 3.0, 1e-12])
    totals = count_tables(tallies, alpha, stream_keys(1, 0, 0, len(tallies))).sum(axis=0)
    for k in range(3):
        laws = {n: table_law(n, alpha[k]) for n in range(9)}
        means = {n: law @ np.arange(n + 1) for n, law in laws.items()}
        spreads = {n: law @ np.arange(n + 1) ** 2 - means[n] ** 2 for n, law in laws.items()}
        expected = sum(means[int(n)] for n in tallies[:, k])
        deviation = np.sqrt(sum(max(spreads[int(n)], 0.0) for n in tallies[:, k]))
        assert abs(totals[k] - expected) <= 5 * deviation + 1e-4


def test_empty_topics_have_no_table_and_others_at_least_one():
    tallies = np.array([[0.0, 1.0, 500.0], [0.0, 0.0, 1.0]])
    few = count_tables(tallies, np.full(3, 1e-12), stream_keys(2, 0, 0, 2))
    assert few.tolist() == [[0, 1, 1], [0, 0, 1]]
    many = count_tables(tallies, np.full(3, 1e12), stream_keys(2, 0, 0, 2))
    assert many.tolist() == tallies.tolist()
    assert count_tables(tallies[:0], np.ones(3), stream_keys(2, 0, 0, 0)).shape == (0, 3)


def test_streams_move_by_one_number_for_each_customer():
    keys = stream_keys(3, 0, 0, 2)
    after = keys.copy()
    count_tables(np.array([[2.0, 0.0], [0.0, 3.0]]), np.ones(2), after)
    for key, word, n in zip(keys, after, (2, 3), strict=True):
        stream = Stream(key)
        for _ in range(n):
            stream.uniform()
        assert stream.word == word
