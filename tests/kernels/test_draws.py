"""Streams of kernels: the numbers they should be, uniform, independent, and inverse Gaussian."""

import numpy as np
import pytest
from scipy import stats

from everlearn.kernels.draws import (
    LARGEST_INVERSE,
    inverse_gaussian,
    splitmix64,
    stream_keys,
    uniform,
    uniform_float32,
    xorshift64,
)
from oracles.bayespa import Stream

STAR = np.uint64(0x2545F4914F6CDD1D)


def next_words(words):
    """`xorshift64` for an array of words."""
    words = words ^ (words << np.uint64(13))
    words = words ^ (words >> np.uint64(7))
    return words ^ (words << np.uint64(17))


def numbers(words):
    """`uniform` for an array of words."""
    return ((words * STAR) >> np.uint64(11)) * 2.0**-53


def draws(keys, n):
    """The first n numbers of each stream, (n, streams)."""
    rows = []
    for _ in range(n):
        keys = next_words(keys)
        rows.append(numbers(keys))
    return np.array(rows)


def evenly(u, bins=64):
    """p-value of numbers that should fill [0, 1) evenly."""
    return stats.chisquare(np.bincount((np.ravel(u) * bins).astype(int), minlength=bins)).pvalue


class TestWords:
    def test_kernels_and_plain_integers_agree(self):
        keys = stream_keys(5, 6, 7, 50)
        table = draws(keys, 4)
        for key, column in zip(keys, table.T, strict=True):
            stream, word = Stream(key), key
            for expected in column:
                word = np.uint64(xorshift64(word))
                assert uniform(word) == expected
                assert stream.uniform() == pytest.approx(expected, abs=2.0**-53)
                assert stream.word == word
                assert uniform_float32(word) == int(expected * 2**24) / 2**24

    def test_mixing_is_that_of_splitmix(self):
        """First outputs of SplitMix64 from the seed 0."""
        weyl = 0x9E3779B97F4A7C15
        outputs = [splitmix64(np.uint64(weyl * i % 2**64)) for i in (1, 2, 3)]
        assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]

    def test_numbers_stay_below_one(self):
        inverse = pow(int(STAR), -1, 2**64)
        for target in (2**64 - 1, 0):
            word = np.uint64(target * inverse % 2**64)
            assert 0.0 <= uniform(word) < 1.0
            assert 0.0 <= uniform_float32(word) < 1.0


class TestKeys:
    def test_no_two_places_share_a_stream_and_none_is_stuck(self):
        keys = [stream_keys(s, c, p, 200) for s in range(4) for c in range(5) for p in range(3)]
        assert np.unique(keys).size == 4 * 5 * 3 * 200
        assert np.all(np.array(keys) != 0)

    def test_a_key_does_not_depend_on_how_many_there_are(self):
        np.testing.assert_array_equal(stream_keys(1, 2, 3, 5), stream_keys(1, 2, 3, 9)[:5])
        assert stream_keys(1, 2, 3, 0).shape == (0,)

    @pytest.mark.parametrize("n", [0, 1, 2])
    def test_neighbours_are_independent(self, n):
        """The n-th numbers of neighbouring documents, batches, rounds and seeds."""
        by_document = draws(stream_keys(3, 1, 0, 40_000), n + 1)[n]
        firsts = {
            "documents": by_document,
            "clocks": np.array([draws(stream_keys(3, c, 0, 1), n + 1)[n, 0] for c in range(9000)]),
            "parts": np.array([draws(stream_keys(3, 1, p, 1), n + 1)[n, 0] for p in range(9000)]),
            "seeds": np.array([draws(stream_keys(s, 1, 0, 1), n + 1)[n, 0] for s in range(9000)]),
        }
        for name, u in firsts.items():
            assert evenly(u) > 1e-4, name
            for lag in (1, 2, 8):
                r = np.corrcoef(u[:-lag], u[lag:])[0, 1] * np.sqrt(len(u) - lag)
                assert abs(r) < 4.5, (name, lag)
            pairs = np.floor(u[:-1:2] * 8) * 8 + np.floor(u[1::2] * 8)
            assert stats.chisquare(np.bincount(pairs.astype(int), minlength=64)).pvalue > 1e-4, name

    def test_numbers_of_one_stream_are_uniform_and_independent(self):
        u = draws(stream_keys(0, 0, 0, 40), 3000)
        assert evenly(u, 256) > 1e-4
        assert stats.kstest(u[:, 0], "uniform").pvalue > 1e-4
        for lag in (1, 2, 3):
            pairs = np.floor(u[:-lag] * 8) * 8 + np.floor(u[lag:] * 8)
            assert evenly((pairs + 0.5) / 64) > 1e-4
        low_bits = np.floor(u * 2**20) % 32
        assert evenly((low_bits + 0.5) / 32, 32) > 1e-4


class TestInverseGaussian:
    def sample(self, mean, n=8000):
        rows = draws(stream_keys(11, 0, 0, n), 3).T
        return np.array([inverse_gaussian(mean, *row) for row in rows])

    @pytest.mark.parametrize("power", range(-8, 9, 2))
    def test_law(self, power):
        """Kolmogorov-Smirnov; from 1e8 the largest draws are cut, one in ten thousand."""
        mean = 10.0**power
        x = self.sample(mean)
        assert np.isfinite(x).all()
        assert (x > 0).all()
        assert (x <= LARGEST_INVERSE).all()
        assert stats.kstest(x, stats.invgauss(mu=mean, scale=1.0).cdf).pvalue > 1e-3

    @pytest.mark.parametrize("mean", [0.02, 0.3, 1.0])
    def test_moments(self, mean):
        """Mean m and variance m^3, within 5 standard errors."""
        x = self.sample(mean, 40_000)
        assert abs(x.mean() - mean) < 5 * np.sqrt(mean**3 / len(x))
        spread = (x - mean) ** 2
        assert abs(spread.mean() - mean**3) < 5 * spread.std() / np.sqrt(len(x))

    @pytest.mark.parametrize("mean", [1e-8, 1e-3, 0.7, 20.0, 1e8, 1e12])
    def test_edges_of_the_uniform_numbers(self, mean):
        edges = [0.0, 2.0**-53, 0.25, 0.5, 1.0 - 2.0**-53]
        x = [inverse_gaussian(mean, a, b, c) for a in edges for b in edges for c in edges]
        assert np.isfinite(x).all()
        assert (np.array(x) > 0).all()

    def test_agrees_with_the_printed_form(self):
        for key in stream_keys(2, 0, 0, 200):
            for mean in (0.01, 0.5, 3.0):
                u = draws(np.array([key]), 3)[:, 0]
                expected = Stream(key).inverse_gaussian(mean)
                assert inverse_gaussian(mean, *u) == pytest.approx(expected, rel=1e-6)
